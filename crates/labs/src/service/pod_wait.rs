//! Waiting until the pod of a lab runs or ends, while listeners get the Events of the pod.

use std::{collections::HashSet, pin::pin, time::Duration};

use futures_util::{FutureExt, Stream, StreamExt, future};
use k8s_openapi::api::core::v1::{Event, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use ludgate_cluster::writer::NamespacedName;
use ludgate_controllers::watched::watch_config;

use super::{
    lab::Lab,
    operation::Operation,
    outcome::Stopped,
    retry::Limits,
    stores::{LabStores, is_ending, phase},
    writes::{LabWrites, accounts},
};
use crate::{
    events::{LabEvent, PodProgress},
    state::LabStatus,
};

/// Maximum number of Events of a pod that listeners get.
const MAX_POD_EVENTS: usize = 1000;
/// The account that pods without one of their own have.
const DEFAULT_ACCOUNT: &str = "default";

/// What became of a pod that was to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodStart {
    /// It runs.
    Running,
    /// It ended in this phase.
    Ended(String),
    /// Another client deleted it.
    Deleted,
}

/// The pod of a spawn.
pub(super) struct AwaitedPod<'o> {
    pub(super) client: &'o Client,
    /// How long a watch lasts.
    pub(super) watch: Duration,
    pub(super) stores: &'o LabStores,
    pub(super) lab: &'o Lab,
    pub(super) name: NamespacedName<'o>,
    pub(super) uid: &'o str,
}

impl AwaitedPod<'_> {
    /// Waits until it runs or ends.
    pub(super) async fn started(
        &self,
        operation: &Operation,
        limits: &Limits,
    ) -> Result<PodStart, Stopped> {
        let mut progress = PodProgress::default();
        let mut push = |message: String| {
            let event = LabEvent::info(message, progress.advance());
            operation.log.push(event);
        };
        let mut events = pin!(self.events());
        let mut touched = self.lab.touched();
        let mut is_seen = false;
        loop {
            touched.borrow_and_update();
            let pod = self.stores.pod(self.name.namespace, self.name.name);
            let pod = pod.filter(|pod| pod.uid().as_deref() == Some(self.uid));
            let start = match &pod {
                Some(pod) => start_of(phase(pod), is_ending(pod)),
                // The watch may not have shown it yet.
                None => is_seen.then_some(PodStart::Deleted),
            };
            is_seen |= pod.is_some();
            if let Some(start) = start {
                // Events that came before the phase.
                while let Some(Some(message)) = events.next().now_or_never() {
                    push(message);
                }
                return Ok(start);
            }
            tokio::select! {
                biased;
                Some(message) = events.next() => push(message),
                changed = limits.wait("waiting for the lab to start", touched.changed()) => {
                    // The sender lives as long as the lab, which is borrowed here.
                    let _ = changed?;
                }
            }
        }
    }

    /// The messages of its Events, each once.
    fn events(&self) -> impl Stream<Item = String> + use<> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), self.name.namespace);
        let selected = format!("involvedObject.name={}", self.name.name);
        let mut seen = HashSet::new();
        let uid = self.uid.to_owned();
        watcher(api, watch_config(self.watch).fields(&selected))
            .default_backoff()
            .applied_objects()
            .filter_map(move |event| {
                let message = match event {
                    Ok(event) => message_of(event, &uid, &mut seen),
                    Err(error) => {
                        tracing::debug!(%error, "cannot watch the events of a pod");
                        None
                    }
                };
                future::ready(message)
            })
    }
}

/// Whether a pod has started or ended. An unknown phase is one of a node that cannot be reached.
fn start_of(phase: Option<&str>, is_ending: bool) -> Option<PodStart> {
    if is_ending {
        return Some(PodStart::Deleted);
    }
    let name = phase.unwrap_or_default();
    match LabStatus::from_phase(phase) {
        LabStatus::Running => Some(PodStart::Running),
        LabStatus::Terminated => Some(PodStart::Ended(name.to_owned())),
        LabStatus::Pending | LabStatus::Terminating | LabStatus::Failed => None,
    }
}

/// What a new Event of this pod says. A repeated Event is an update of the first one.
fn message_of(event: Event, pod: &str, seen: &mut HashSet<String>) -> Option<String> {
    let about = event.involved_object.uid.as_deref().unwrap_or_default();
    if !about.is_empty() && about != pod {
        return None;
    }
    let message = event.message.filter(|message| !message.is_empty())?;
    let is_new = seen.len() < MAX_POD_EVENTS && seen.insert(event.metadata.uid.unwrap_or_default());
    is_new.then_some(message)
}

/// Waits until the namespace has the account that its pods get. Without it they are refused.
pub(super) async fn account_ready(
    writes: &LabWrites<'_>,
    client: &Client,
    watch: Duration,
    namespace: &str,
) -> Result<(), Stopped> {
    let name = NamespacedName {
        namespace,
        name: DEFAULT_ACCOUNT,
    };
    if writes.read(&accounts(), name).await?.is_some() {
        return Ok(());
    }
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let selected = format!("metadata.name={DEFAULT_ACCOUNT}");
    let changes = watcher(api, watch_config(watch).fields(&selected))
        .default_backoff()
        .applied_objects()
        .filter_map(|found| future::ready(found.ok()));
    let what = "waiting for the ServiceAccount default";
    writes.limits.wait(what, pin!(changes).next()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_starts_by_its_phase() {
        for (phase, is_ending, start) in [
            (None, false, None),
            (Some("Pending"), false, None),
            (Some("Unknown"), false, None),
            (Some("Running"), false, Some(PodStart::Running)),
            (
                Some("Failed"),
                false,
                Some(PodStart::Ended("Failed".to_owned())),
            ),
            (
                Some("Succeeded"),
                false,
                Some(PodStart::Ended("Succeeded".to_owned())),
            ),
            (Some("Running"), true, Some(PodStart::Deleted)),
        ] {
            assert_eq!(start_of(phase, is_ending), start, "{phase:?} {is_ending}");
        }
    }

    #[test]
    fn each_event_of_the_pod_is_pushed_once() {
        let event = |uid: &str, pod: &str, message: &str| -> Event {
            let event = json!({
                "metadata": { "uid": uid },
                "involvedObject": { "kind": "Pod", "uid": pod },
                "message": message,
            });
            serde_json::from_value(event).expect("an event")
        };
        let mut seen = HashSet::new();
        let mut message = |event| message_of(event, "p", &mut seen);
        let pulled = Some("Pulled".to_owned());
        assert_eq!(message(event("1", "p", "Pulled")), pulled);
        assert_eq!(message(event("1", "p", "Pulled")), None);
        assert_eq!(message(event("2", "", "Pulled")), pulled);
        assert_eq!(message(event("3", "other", "Pulled")), None);
        assert_eq!(message(event("4", "p", "")), None);
    }
}
