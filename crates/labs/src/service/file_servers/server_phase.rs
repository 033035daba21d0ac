//! How a file server is, by its objects.

use kube::api::DynamicObject;

use super::owned::OwnedObject;
use crate::service::stores::{is_ending, phase};

/// How a file server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerPhase {
    /// It has no objects.
    Absent,
    /// Its pod does not run yet, or is being replaced.
    Starting,
    /// Its pod runs.
    Running,
    /// It has ended: it was idle, it failed, or it is being deleted. Its objects are to be
    /// deleted.
    Over,
}

/// The phase of the server that these objects are.
pub(super) fn server_phase(objects: &[OwnedObject]) -> ServerPhase {
    let Some(job) = objects.iter().find(|owned| owned.is("Job")) else {
        return match objects.is_empty() {
            true => ServerPhase::Absent,
            false => ServerPhase::Over,
        };
    };
    if is_ending(&job.object) || has_finished(&job.object) {
        return ServerPhase::Over;
    }
    let phases: Vec<Option<&str>> = objects
        .iter()
        .filter(|owned| owned.is("Pod") && !is_ending(&owned.object))
        .map(|owned| phase(&owned.object))
        .collect();
    let has_ended = |phase: &Option<&str>| matches!(phase, Some("Succeeded" | "Failed"));
    if phases.contains(&Some("Running")) {
        return ServerPhase::Running;
    }
    match !phases.is_empty() && phases.iter().all(has_ended) {
        true => ServerPhase::Over,
        false => ServerPhase::Starting,
    }
}

fn has_finished(job: &DynamicObject) -> bool {
    let conditions = job.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        let is_last = matches!(condition["type"].as_str(), Some("Complete" | "Failed"));
        is_last && condition["status"] == "True"
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::{
        batch::v1::Job,
        core::v1::{Pod, Service},
    };
    use kube::api::ApiResource;
    use serde_json::{Value, json};

    use super::*;

    fn owned(kind: ApiResource, more: Value) -> OwnedObject {
        let mut object = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": { "name": "rachel-fs" },
        });
        for (key, value) in more.as_object().expect("an object") {
            object[key] = value.clone();
        }
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        OwnedObject {
            kind: Arc::new(kind),
            object: Arc::new(object),
        }
    }

    fn job(more: Value) -> OwnedObject {
        owned(ApiResource::erase::<Job>(&()), more)
    }

    fn pod(phase: &str) -> OwnedObject {
        let status = json!({ "status": { "phase": phase } });
        owned(ApiResource::erase::<Pod>(&()), status)
    }

    fn service() -> OwnedObject {
        owned(ApiResource::erase::<Service>(&()), json!({}))
    }

    fn ending() -> Value {
        json!({ "metadata": { "name": "rachel-fs", "deletionTimestamp": "2026-01-01T00:00:00Z" } })
    }

    #[test]
    fn the_pod_says_whether_a_server_runs_and_when_it_has_ended() {
        let new = || job(json!({}));
        for (objects, expected) in [
            (vec![], ServerPhase::Absent),
            (vec![service(), new()], ServerPhase::Starting),
            (vec![new(), pod("Pending")], ServerPhase::Starting),
            (vec![new(), pod("Running")], ServerPhase::Running),
            (vec![new(), pod("Succeeded")], ServerPhase::Over),
            (vec![new(), pod("Failed")], ServerPhase::Over),
            (
                vec![new(), pod("Failed"), pod("Running")],
                ServerPhase::Running,
            ),
            // The node of the pod is drained, and the Job makes another one.
            (
                vec![new(), owned(ApiResource::erase::<Pod>(&()), ending())],
                ServerPhase::Starting,
            ),
        ] {
            assert_eq!(server_phase(&objects), expected, "{objects:?}");
        }
    }

    #[test]
    fn a_job_that_ends_or_is_gone_leaves_only_what_is_to_be_deleted() {
        let condition = |kind: &str, status: &str| {
            let conditions = json!([{ "type": kind, "status": status }]);
            job(json!({ "status": { "conditions": conditions } }))
        };
        for (objects, expected) in [
            (vec![service()], ServerPhase::Over),
            (vec![pod("Running")], ServerPhase::Over),
            (vec![job(ending()), pod("Running")], ServerPhase::Over),
            (vec![condition("Complete", "True")], ServerPhase::Over),
            (vec![condition("Failed", "True")], ServerPhase::Over),
            (vec![condition("Suspended", "True")], ServerPhase::Starting),
            (vec![condition("Failed", "False")], ServerPhase::Starting),
        ] {
            assert_eq!(server_phase(&objects), expected, "{objects:?}");
        }
    }
}
