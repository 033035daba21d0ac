//! The status of a viewer, from its Deployment and pods.
//!
//! Invariants: at most five conditions, each type once; a status that says the same is equal to the
//! earlier one, so it is not written.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use ludgate_cluster::{conditions::Condition, crd::viewer::PVCViewerStatus};

use super::stop_reason::StopReason;
use crate::pods::is_active;

/// The conditions of a pod that a viewer has too.
const MIRRORED: [&str; 4] = [READY, CONTAINERS_READY, "PodScheduled", "Initialized"];
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const TRUE: &str = "True";
const FALSE: &str = "False";

/// A viewer, and what the cluster shows of it.
#[derive(Clone, Copy, Default)]
pub struct ObservedViewer<'a> {
    /// The generation of the object.
    pub generation: i64,
    /// The path at which browsers find it.
    pub url: Option<&'a str>,
    /// Why it has no pod; `None`: it has one.
    pub stop: Option<&'a StopReason>,
    /// Its Deployment.
    pub deployment: Option<&'a Deployment>,
    /// Its pods.
    pub pods: &'a [&'a Pod],
}

/// The status of a viewer, with the conditions' times of the earlier one where they did not change.
/// `now` is in RFC 3339.
pub fn status(
    observed: ObservedViewer<'_>,
    before: &PVCViewerStatus,
    now: &str,
) -> PVCViewerStatus {
    let pod = observed.current_pod();
    let mut conditions = match pod {
        Some(pod) => mirrored(pod),
        None => Vec::new(),
    };
    if !conditions.iter().any(|condition| condition.kind == READY) {
        conditions.insert(0, observed.default_ready(pod));
    }
    if let Some(stop) = observed.stop {
        conditions.push(condition(
            stop.condition(),
            TRUE,
            stop.reason(),
            stop.message(),
        ));
    }
    let is_true = |kind: &str| {
        let mut all = conditions.iter();
        all.any(|condition| condition.kind == kind && condition.status == TRUE)
    };
    let has_ready_pod = pod.is_none() || (is_true(READY) && is_true(CONTAINERS_READY));
    let conditions = conditions.into_iter().map(|condition| {
        let condition = Condition {
            observed_generation: Some(observed.generation),
            ..condition
        };
        condition.since(&before.conditions, now)
    });
    PVCViewerStatus {
        conditions: conditions.collect(),
        ready: has_ready_pod && observed.has_ready_deployment(),
        url: observed.url.map(str::to_owned),
        observed_generation: Some(observed.generation),
    }
}

/// What an Event says when a viewer stops, or starts again.
#[derive(Debug, PartialEq, Eq)]
pub struct ViewerChange {
    /// The author or an operator must change something.
    pub is_warning: bool,
    /// One word in PascalCase.
    pub reason: String,
    /// A sentence for people.
    pub note: String,
}

/// The change since the earlier status, if the reason to stop is another one.
pub fn change(before: &PVCViewerStatus, stop: Option<&StopReason>) -> Option<ViewerChange> {
    let mut stopped = before.conditions.iter();
    let stopped = stopped.find(|it| !MIRRORED.contains(&&*it.kind) && it.status == TRUE);
    match (stop, stopped) {
        (Some(stop), Some(before))
            if (stop.condition(), stop.reason()) == (&*before.kind, &*before.reason) =>
        {
            None
        }
        (Some(stop), _) => Some(ViewerChange {
            is_warning: stop.is_problem(),
            reason: stop.reason().to_owned(),
            note: stop.message(),
        }),
        (None, Some(before)) => Some(ViewerChange {
            is_warning: false,
            reason: "Restarted".to_owned(),
            note: format!("no longer stopped: {}", before.message),
        }),
        (None, None) => None,
    }
}

impl<'a> ObservedViewer<'a> {
    /// The newest pod that runs or starts. A stopped viewer has none: its pod is about to end.
    fn current_pod(&self) -> Option<&'a Pod> {
        let pods = self.pods.iter().copied();
        let current = pods
            .filter(|pod| is_active(pod) && pod.metadata.deletion_timestamp.is_none())
            .max_by_key(|pod| &pod.metadata.creation_timestamp);
        current.filter(|_| self.stop.is_none())
    }

    /// Whether all replicas of the current Deployment are ready. Without a pod in the watch yet,
    /// this alone counts, as for Kubeflow's controller.
    fn has_ready_deployment(&self) -> bool {
        let (Some(deployment), None) = (self.deployment, self.stop) else {
            return false;
        };
        let spec = deployment.spec.as_ref();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let Some(status) = &deployment.status else {
            return false;
        };
        // The Deployment's controller writes it together with the counts.
        let observed = status.observed_generation;
        let is_outdated = observed.is_some() && observed < deployment.metadata.generation;
        !is_outdated && wanted > 0 && status.ready_replicas == Some(wanted)
    }

    /// The condition `Ready` of a viewer without a pod, or whose pod does not report it yet.
    fn default_ready(&self, pod: Option<&Pod>) -> Condition {
        if let Some(stop) = self.stop {
            return condition(READY, FALSE, stop.reason(), stop.message());
        }
        if pod.is_none() && self.has_ready_deployment() {
            let message = "the Deployment is ready".to_owned();
            return condition(READY, TRUE, "DeploymentReady", message);
        }
        // Such as a quota or an admission webhook that refuses the pod.
        let status = self
            .deployment
            .and_then(|deployment| deployment.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let failure = conditions
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == TRUE);
        let message = failure.and_then(|failure| failure.message.clone());
        match message {
            Some(message) => condition(READY, FALSE, "FailedCreate", message),
            None => condition(READY, FALSE, "Starting", "the pod is starting".to_owned()),
        }
    }
}

/// The pod's conditions, in a fixed order. A pod's condition may have no reason, ours needs one.
fn mirrored(pod: &Pod) -> Vec<Condition> {
    let status = pod.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_deref());
    let all = all.unwrap_or_default();
    let found = MIRRORED
        .iter()
        .filter_map(|kind| all.iter().find(|condition| condition.type_ == *kind));
    found
        .map(|found| {
            let reason = found.reason.as_deref().unwrap_or("PodCondition");
            let message = found.message.clone().unwrap_or_default();
            condition(&found.type_, &found.status, reason, message)
        })
        .collect()
}

/// Longest message, in bytes: authors' names and the API's reasons are in it.
const MAX_MESSAGE: usize = 2048;

fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    message
}

/// A condition whose generation and time are not set yet.
fn condition(kind: &str, status: &str, reason: &str, message: String) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: cut(message),
        observed_generation: None,
        last_transition_time: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::viewer::samples::{self, PodOf};

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn deployment(status: Value) -> Deployment {
        let spec = json!({ "replicas": 1, "selector": {}, "template": {} });
        let metadata = json!({ "generation": 2 });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        serde_json::from_value(object).expect("a Deployment")
    }

    fn ready_deployment() -> Deployment {
        deployment(json!({ "replicas": 1, "readyReplicas": 1 }))
    }

    /// A pod with these conditions, each with its status.
    fn pod(conditions: &[(&str, &str)]) -> Pod {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| json!({ "type": kind, "status": status }))
            .collect();
        let status = json!({ "phase": "Running", "conditions": conditions });
        samples::pod("v-0", PodOf::Viewer, Some("n1"), status)
    }

    fn kinds(status: &PVCViewerStatus) -> Vec<&str> {
        let conditions = status.conditions.iter();
        conditions
            .map(|condition| condition.kind.as_str())
            .collect()
    }

    #[test]
    fn a_viewer_is_ready_only_with_a_ready_deployment_and_both_conditions() {
        let both = pod(&[("ContainersReady", "True"), ("Ready", "True")]);
        let gated = pod(&[("ContainersReady", "True"), ("Ready", "False")]);
        let failing = pod(&[("ContainersReady", "False"), ("Ready", "True")]);
        let mut ending = both.clone();
        ending.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let up = ready_deployment();
        let down = deployment(json!({ "replicas": 1, "readyReplicas": 0 }));
        let old = json!({ "replicas": 1, "readyReplicas": 1, "observedGeneration": 1 });
        let old = deployment(old);
        for (deployment, pods, wanted) in [
            (None, vec![&both], false),
            (Some(&up), vec![&both], true),
            (Some(&up), vec![&gated], false),
            (Some(&up), vec![&failing], false),
            (Some(&down), vec![&ending], false),
            (Some(&up), vec![&ending, &both], true),
            (Some(&up), vec![], true),
            (Some(&down), vec![&both], false),
            (Some(&old), vec![&both], false),
        ] {
            let observed = ObservedViewer {
                deployment,
                pods: &pods,
                ..ObservedViewer::default()
            };
            let status = status(observed, &PVCViewerStatus::default(), NOON);
            assert_eq!(status.ready, wanted, "{deployment:?} {pods:?}");
        }
    }

    #[test]
    fn the_pods_conditions_are_mirrored_and_others_are_not() {
        let pod = pod(&[
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("Ready", "False"),
            ("PodScheduled", "True"),
        ]);
        let pods = [&pod];
        let observed = ObservedViewer {
            generation: 7,
            url: Some("/base/team/v/"),
            pods: &pods,
            ..ObservedViewer::default()
        };
        let status = status(observed, &PVCViewerStatus::default(), NOON);
        assert_eq!(kinds(&status), ["Ready", "PodScheduled", "Initialized"]);
        assert_eq!(status.conditions[0].status, "False");
        assert_eq!(status.conditions[0].observed_generation, Some(7));
        assert_eq!(status.url.as_deref(), Some("/base/team/v/"));
        assert_eq!(status.observed_generation, Some(7));
    }

    #[test]
    fn a_stopped_viewer_says_why_while_it_is_stopped() {
        let pod = pod(&[("ContainersReady", "True"), ("Ready", "True")]);
        let pods = [&pod];
        let deployment = ready_deployment();
        let idle = StopReason::Idle(Duration::from_secs(1));
        let observed = ObservedViewer {
            stop: Some(&idle),
            deployment: Some(&deployment),
            pods: &pods,
            ..ObservedViewer::default()
        };
        let stopped = status(observed, &PVCViewerStatus::default(), NOON);
        assert!(!stopped.ready);
        assert_eq!(kinds(&stopped), ["Ready", "Idle"]);
        assert_eq!(stopped.conditions[0].reason, "Unused");
        let started = ObservedViewer {
            stop: None,
            ..observed
        };
        let started = status(started, &stopped, NOON);
        assert!(started.ready);
        assert_eq!(kinds(&started), ["Ready", "ContainersReady"]);
    }

    #[test]
    fn a_pod_that_cannot_be_created_is_reported() {
        let failure = json!({ "type": "ReplicaFailure", "status": "True", "message": "quota" });
        let deployment = deployment(json!({ "conditions": [failure] }));
        let observed = ObservedViewer {
            deployment: Some(&deployment),
            ..ObservedViewer::default()
        };
        let status = status(observed, &PVCViewerStatus::default(), NOON);
        let ready = &status.conditions[0];
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("FailedCreate", "quota")
        );
    }

    #[test]
    fn an_event_says_once_why_a_viewer_stops_and_that_it_starts_again() {
        let idle = StopReason::Idle(Duration::from_secs(1));
        let refused = StopReason::Refused("no".into());
        let stopped = |stop| {
            let observed = ObservedViewer {
                stop,
                ..ObservedViewer::default()
            };
            status(observed, &PVCViewerStatus::default(), NOON)
        };
        let reason = |before: &PVCViewerStatus, stop: Option<&StopReason>| {
            change(before, stop).map(|change| (change.reason, change.is_warning))
        };
        let is = |reason: &str, is_warning| Some((reason.to_owned(), is_warning));
        let running = PVCViewerStatus::default();
        assert_eq!(reason(&running, None), None);
        assert_eq!(reason(&running, Some(&idle)), is("Unused", false));
        let unused = stopped(Some(&idle));
        assert_eq!(reason(&unused, Some(&idle)), None);
        assert_eq!(reason(&unused, Some(&refused)), is("ObjectRefused", true));
        assert_eq!(reason(&unused, None), is("Restarted", false));
    }

    proptest! {
        #[test]
        fn a_hundred_reconciles_leave_five_conditions_and_no_write(
            conditions in prop::collection::vec(
                ("Ready|ContainersReady|PodScheduled|Initialized|Other", "True|False|Unknown"),
                0..12,
            ),
            is_stopped: bool,
        ) {
            let conditions: Vec<(&str, &str)> = conditions
                .iter()
                .map(|(kind, status)| (kind.as_str(), status.as_str()))
                .collect();
            let pod = pod(&conditions);
            let pods = [&pod];
            let idle = StopReason::Idle(Duration::from_secs(1));
            let observed = ObservedViewer {
                stop: is_stopped.then_some(&idle),
                pods: &pods,
                ..ObservedViewer::default()
            };
            let first = status(observed, &PVCViewerStatus::default(), NOON);
            let mut last = first.clone();
            for hour in 0..100 {
                let later = format!("2026-01-02T{:02}:00:00Z", hour % 24);
                last = status(observed, &last, &later);
            }
            prop_assert_eq!(&first, &last);
            let kinds = kinds(&last);
            prop_assert!(kinds.len() <= 5);
            let distinct: BTreeSet<&str> = kinds.iter().copied().collect();
            prop_assert_eq!(distinct.len(), kinds.len());
        }
    }
}
