//! What the cluster has: labs that other processes started are rebuilt and go on, what cannot be
//! rebuilt is deleted, and dead labs are deleted after some time.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    lab::{Lab, LabRecord, Seen},
    lab_service::LabService,
    spawn_plan::SpawnWork,
    stores::{FoundLab, LabChange, is_ending, is_of_lab, json, phase},
};
use crate::{
    events::LabEvent,
    rebuild::{FoundObjects, rebuild},
    state::{LabState, LabStatus},
    user::check_username,
};

/// Shortest interval between two checks for dead labs. A shorter configured one is raised to this.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

impl LabService {
    /// Follows a change of the watches.
    pub(super) fn follow(&self, change: &LabChange) {
        match change {
            LabChange::Of(username) => self.follow_person(username),
            LabChange::All => {
                for username in self.usernames() {
                    self.follow_person(&username);
                }
                self.forget_gone();
            }
        }
    }

    fn follow_person(&self, username: &str) {
        // Others may write labels too. Of those, no entry is made.
        let is_known = || self.is_known(username) || self.has_namespace(username);
        if check_username(username).is_ok() && is_known() {
            let lab = self.lab(username);
            self.observe(&lab);
            lab.touch();
        }
    }

    fn has_namespace(&self, username: &str) -> bool {
        let namespace = self.names(username).namespace;
        let namespace = self.0.stores.namespace(&namespace);
        namespace.is_some_and(|namespace| is_of_lab(&namespace, username))
    }

    /// All persons of the cluster and of the memory.
    pub(super) fn usernames(&self) -> Vec<String> {
        let mut usernames = self.0.stores.usernames();
        usernames.extend(self.labs().iter().map(|lab| lab.username.clone()));
        usernames.sort_unstable();
        usernames.dedup();
        usernames
    }

    /// Takes over what the watches show of a lab.
    pub(super) fn observe(&self, lab: &Lab) {
        self.observe_record(lab, &mut lab.record());
    }

    /// The same for its record. The stores are read with the lock of the record, so that of two
    /// callers the one with the older view does not come last.
    pub(super) fn observe_record(&self, lab: &Lab, record: &mut LabRecord) {
        let found = self.found(lab);
        if record.running().is_none()
            && !record.is_requested()
            && let Some(state) = self.rebuilt(lab, &found)
        {
            record.rebuild(state);
        }
        let seen = seen(&found);
        if self.is_store_away() {
            record.observe_unowned(seen);
        }
        record.observe(seen);
    }

    /// The objects of a lab. A namespace of another owner is none.
    pub(super) fn found(&self, lab: &Lab) -> FoundLab {
        let found = self.0.stores.found(&self.names(&lab.username));
        let namespace = found.namespace;
        FoundLab {
            namespace: namespace.filter(|namespace| is_of_lab(namespace, &lab.username)),
            ..found
        }
    }

    fn rebuilt(&self, lab: &Lab, found: &FoundLab) -> Option<LabState> {
        found.namespace.as_ref()?;
        let (env, pod) = (json(found.env.as_ref()?), json(found.pod.as_ref()?));
        let quota = found.quota.as_ref().map(|quota| json(quota));
        let objects = FoundObjects {
            env: &env,
            pod: &pod,
            quota: quota.as_ref(),
        };
        match rebuild(&lab.username, objects, self.lab_config(), self.dialect()) {
            Ok(state) => Some(state),
            Err(error) => {
                tracing::warn!(user = lab.username, %error, "cannot rebuild the lab");
                None
            }
        }
    }

    /// How long a lab may be dead.
    pub(super) fn reconcile_interval(&self) -> Duration {
        self.lab_config().reconcile_interval.max(MIN_INTERVAL)
    }

    /// Works as the leader until it is dropped.
    pub(super) async fn lead(&self) {
        if let Some(replica) = &self.0.replica {
            return self.lead_replicas(replica).await;
        }
        self.wait_until_ready().await;
        let leading = CancellationToken::new();
        let _until_lost = leading.clone().drop_guard();
        for username in self.usernames() {
            if check_username(&username).is_ok() {
                self.resume(&username, &leading);
            }
        }
        // From now on requests are taken.
        self.0.leadership.begin(leading.clone());
        let interval = self.reconcile_interval();
        loop {
            sleep(interval).await;
            self.clean(&leading);
        }
    }

    /// Goes on with what another process began with a lab.
    fn resume(&self, username: &str, leading: &CancellationToken) {
        let lab = self.lab(username);
        self.observe(&lab);
        let found = self.found(&lab);
        let number = self.next_operation();
        let (spawn, status) = {
            let mut record = lab.record();
            let spawn = record.resume_spawn(number);
            (spawn, record.state.as_ref().map(|state| state.status))
        };
        if status.is_some() {
            self.mark_provisioned(username);
        }
        if let Some(operation) = spawn {
            tracing::info!(user = username, "going on with the start of the lab");
            let started = LabEvent::spawn_started(username, self.dialect());
            operation.log.push(started);
            let work = SpawnWork::Await(None);
            self.start_spawn(leading.clone(), lab, operation, work);
            return;
        }
        // A deletion ends the pod first, so the namespace need not end yet.
        let is_ending = status == Some(LabStatus::Terminating);
        let is_orphan = found.namespace.is_some() && status.is_none();
        if is_orphan || is_ending {
            tracing::info!(user = username, "deleting what is left of the lab");
            // There is something to delete, and no request waits for the end.
            let _ = self.begin_delete(username, leading.clone());
        }
    }

    /// Deletes what is dead or cannot be a lab, and forgets who has none.
    fn clean(&self, leading: &CancellationToken) {
        for username in self.usernames() {
            if check_username(&username).is_ok() {
                self.clean_person(&username, leading);
            }
        }
        self.forget_gone();
    }

    fn clean_person(&self, username: &str, leading: &CancellationToken) {
        let interval = self.lab_config().reconcile_interval;
        let lab = self.lab(username);
        let number = self.next_operation();
        let start = {
            // One lock for both steps: a spawn that begins in between would be cancelled.
            let mut record = lab.record();
            let has_namespace = self.found(&lab).namespace.is_some();
            if !record.is_left_over(has_namespace, interval) {
                return;
            }
            record.begin_delete(username, has_namespace, number)
        };
        if let Ok(start) = start {
            tracing::info!(user = username, "deleting a dead lab");
            // No request waits for the end.
            drop(self.join_delete(leading.clone(), lab, start));
        }
    }
}

fn seen(found: &FoundLab) -> Seen {
    let Some(namespace) = &found.namespace else {
        return Seen::Gone;
    };
    let pod = found.pod.as_ref();
    let is_pod_ending = pod.is_some_and(|pod| is_ending(pod));
    let status = match is_ending(namespace) || is_pod_ending {
        true => LabStatus::Terminating,
        false => LabStatus::from_phase(pod.and_then(|pod| phase(pod))),
    };
    Seen::Present {
        status,
        has_pod: pod.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    use super::*;

    fn object(more: Value) -> Option<Arc<DynamicObject>> {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Any",
            "metadata": { "name": "any" },
        });
        for (key, value) in more.as_object().expect("an object") {
            object[key] = value.clone();
        }
        Some(Arc::new(serde_json::from_value(object).expect("an object")))
    }

    fn found(namespace: Option<Arc<DynamicObject>>, pod: Option<Arc<DynamicObject>>) -> FoundLab {
        FoundLab {
            namespace,
            pod,
            env: None,
            quota: None,
        }
    }

    fn ending() -> Option<Arc<DynamicObject>> {
        object(json!({
            "metadata": { "name": "any", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        }))
    }

    #[test]
    fn the_namespace_decides_whether_there_is_a_lab_and_the_pod_how_it_is() {
        let plain = || object(json!({}));
        let running = || object(json!({ "status": { "phase": "Running" } }));
        let present = |status, has_pod| Seen::Present { status, has_pod };
        for (namespace, pod, expected) in [
            (None, running(), Seen::Gone),
            (plain(), running(), present(LabStatus::Running, true)),
            (plain(), None, present(LabStatus::Failed, false)),
            (plain(), ending(), present(LabStatus::Terminating, true)),
            (ending(), running(), present(LabStatus::Terminating, true)),
        ] {
            assert_eq!(seen(&found(namespace, pod)), expected);
        }
    }
}
