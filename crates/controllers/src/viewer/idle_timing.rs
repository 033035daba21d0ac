//! When a viewer is idle: its times, for the room `idle`.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use ludgate_cluster::crd::viewer::PVCViewerStatus;

use super::{
    parsed::Viewer,
    settings::{Publication, ViewerSettings},
    stop_reason::IDLE,
};
use crate::idle::decision::IdleTiming;

/// The times of a viewer. Only Ludgate's gateway reports uses, so a viewer that is published
/// otherwise, or not at all, is never idle.
pub fn idle_timing(
    viewer: &Viewer,
    settings: &ViewerSettings,
    status: &PVCViewerStatus,
    deployment: Option<&DynamicObject>,
    now: Timestamp,
) -> IdleTiming {
    let is_reported = settings.publication == Publication::Ludgate && viewer.networking.is_some();
    let idle_after = idle_after(viewer, settings);
    let created = deployment.and_then(|deployment| deployment.creation_timestamp());
    let mut conditions = status.conditions.iter();
    let idle = conditions.find(|condition| condition.kind == IDLE && condition.status == "True");
    let since = idle.and_then(|idle| idle.last_transition_time.parse().ok());
    IdleTiming {
        idle_after: idle_after.filter(|_| is_reported).unwrap_or_default(),
        idle_for: since.map(|since| age(since, now)),
        started: created
            .map(|created| age(created.0, now))
            .unwrap_or_default(),
    }
}

/// Shortest time of an annotation, unless the setting is shorter: a viewer that is idle and awake
/// again each second costs the cluster many writes.
const MIN_IDLE_AFTER: Duration = Duration::from_secs(60);

/// The time without use after which a viewer is idle: of its annotation, else of the settings.
pub fn idle_after(viewer: &Viewer, settings: &ViewerSettings) -> Option<Duration> {
    let shortest = settings.idle_after.unwrap_or(MIN_IDLE_AFTER);
    let shortest = shortest.min(MIN_IDLE_AFTER);
    match viewer.idle_after {
        Some(written) if written.is_zero() => Some(written),
        Some(written) => Some(written.max(shortest)),
        None => settings.idle_after,
    }
}

/// A time in the future, by another machine's clock, is now.
fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ludgate_cluster::crd::viewer::IDLE_AFTER_ANNOTATION;
    use serde_json::{Value, json};

    use super::*;
    use crate::viewer::samples;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn timing(viewer: &Viewer, settings: &ViewerSettings, status: Value) -> IdleTiming {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "pvcviewer-v", "creationTimestamp": "2026-01-01T11:00:00Z" },
        });
        let deployment = serde_json::from_value(deployment).expect("a Deployment");
        let status = serde_json::from_value(status).expect("a status");
        let now = NOON.parse().expect("a time");
        idle_timing(viewer, settings, &status, Some(&deployment), now)
    }

    #[test]
    fn the_annotation_comes_before_the_setting_and_both_need_a_path_of_the_gateway() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let published = json!({ "pvc": "data", "networking": { "targetPort": 80 } });
        let viewer = |spec: &Value, annotation: Option<&str>| {
            let annotations = match annotation {
                Some(text) => json!({ IDLE_AFTER_ANNOTATION: text }),
                None => json!({}),
            };
            samples::parse(spec.clone(), annotations).expect("a viewer")
        };
        let mut settings = ViewerSettings {
            idle_after: Some(minutes(30)),
            ..samples::settings()
        };
        let idle_after = |viewer: &Viewer, settings: &ViewerSettings| {
            timing(viewer, settings, json!({})).idle_after
        };
        assert_eq!(
            idle_after(&viewer(&published, None), &settings),
            minutes(30)
        );
        let own = viewer(&published, Some("1h"));
        assert_eq!(idle_after(&own, &settings), minutes(60));
        let short = viewer(&published, Some("1ns"));
        assert_eq!(idle_after(&short, &settings), minutes(1));
        let never = viewer(&published, Some("0"));
        assert_eq!(idle_after(&never, &settings), Duration::ZERO);
        let unpublished = viewer(&json!({ "pvc": "data" }), Some("1h"));
        assert_eq!(idle_after(&unpublished, &settings), Duration::ZERO);
        settings.publication = Publication::VirtualService {
            gateway: "kubeflow/kubeflow-gateway".into(),
        };
        assert_eq!(idle_after(&own, &settings), Duration::ZERO);
    }

    #[test]
    fn the_start_is_the_deployments_and_idleness_the_conditions() {
        let viewer = samples::viewer(json!({ "pvc": "data" }));
        let condition = |status: &str| {
            let condition = json!({
                "type": "Idle", "status": status, "reason": "Unused", "message": "",
                "lastTransitionTime": "2026-01-01T11:59:58.5Z",
            });
            json!({ "conditions": [condition] })
        };
        let idle = timing(&viewer, &samples::settings(), condition("True"));
        assert_eq!(idle.idle_for, Some(Duration::from_millis(1500)));
        assert_eq!(idle.started, Duration::from_secs(3600));
        let active = timing(&viewer, &samples::settings(), condition("False"));
        assert_eq!(active.idle_for, None);
    }
}
