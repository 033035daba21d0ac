//! Why a viewer has no pod.
//!
//! Invariant: one reason at a time, the one that its author can change first. The texts do not
//! change while the reason lasts, so they lead to no write.

use std::time::Duration;

use super::{
    parsed::{InvalidViewer, Viewer},
    placement::{ClaimUser, Placement},
    settings::ViewerSettings,
};

/// Why a viewer has no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The object is no viewer.
    Invalid(InvalidViewer),
    /// The viewer's own pod asks for rights that it does not have, in these fields.
    PodSpecRejected(Vec<String>),
    /// Other pods use the claim in a way that leaves no node for the viewer.
    ClaimInUse(Vec<ClaimUser>),
    /// The viewer stopped for pods that need the volume.
    Yielded(Vec<ClaimUser>),
    /// It was not used for this time.
    Idle(Duration),
    /// The cluster refused one of its objects, for this reason. An earlier pod may still run.
    Refused(String),
}

impl StopReason {
    /// Whether a valid viewer must be scaled to zero. `unused` is the time since its last use, or
    /// since it was created; `None`: unknown.
    pub fn new(
        viewer: &Viewer,
        settings: &ViewerSettings,
        placement: &Placement,
        unused: Option<Duration>,
    ) -> Option<StopReason> {
        match placement {
            Placement::Anywhere | Placement::Node(_) => {
                let idle_after = viewer.idle_after.or(settings.idle_after)?;
                let is_idle = !idle_after.is_zero() && unused? >= idle_after;
                is_idle.then_some(StopReason::Idle(idle_after))
            }
            Placement::InUse(users) => Some(StopReason::ClaimInUse(users.clone())),
            Placement::Yield(users) => Some(StopReason::Yielded(users.clone())),
        }
    }

    /// The type of the condition that reports it.
    pub fn condition(&self) -> &'static str {
        match self {
            StopReason::Invalid(_) | StopReason::Refused(_) => "Invalid",
            StopReason::PodSpecRejected(_) => "PodSpecRejected",
            StopReason::ClaimInUse(_) | StopReason::Yielded(_) => "VolumeInUse",
            StopReason::Idle(_) => "Idle",
        }
    }

    /// One word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            StopReason::Invalid(_) => "InvalidSpec",
            StopReason::PodSpecRejected(_) => "PodSpecNotAllowed",
            StopReason::ClaimInUse(_) => "ClaimInUse",
            StopReason::Yielded(_) => "Yielded",
            StopReason::Idle(_) => "Unused",
            StopReason::Refused(_) => "ObjectRefused",
        }
    }

    /// A sentence for people.
    pub fn message(&self) -> String {
        match self {
            StopReason::Invalid(error) => error.to_string(),
            StopReason::PodSpecRejected(fields) => {
                format!("podSpec: not allowed: {}", fields.join(", "))
            }
            StopReason::ClaimInUse(users) => format!("the claim is in use by {}", list(users)),
            StopReason::Yielded(users) => {
                format!("stopped for pods that wait for the volume: {}", list(users))
            }
            StopReason::Idle(after) => format!("not used for {} s", after.as_secs_f64()),
            StopReason::Refused(reason) => reason.clone(),
        }
    }

    /// Whether the author or an operator must change something before the viewer can run.
    pub fn is_problem(&self) -> bool {
        match self {
            StopReason::Invalid(_)
            | StopReason::PodSpecRejected(_)
            | StopReason::ClaimInUse(_)
            | StopReason::Refused(_) => true,
            StopReason::Yielded(_) | StopReason::Idle(_) => false,
        }
    }
}

fn list(users: &[ClaimUser]) -> String {
    let users: Vec<String> = users.iter().map(ClaimUser::to_string).collect();
    users.join(", ")
}

#[cfg(test)]
mod tests {
    use ludgate_cluster::crd::viewer::IDLE_AFTER_ANNOTATION;
    use serde_json::json;

    use super::*;
    use crate::viewer::samples;

    #[test]
    fn a_viewer_is_idle_after_the_time_of_its_annotation_or_of_the_settings() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        for (annotation, setting, unused, wanted) in [
            (None, None, Some(minutes(99)), None),
            (None, Some(minutes(30)), None, None),
            (None, Some(minutes(30)), Some(minutes(29)), None),
            (
                None,
                Some(minutes(30)),
                Some(minutes(30)),
                Some(minutes(30)),
            ),
            (Some("1h"), Some(minutes(30)), Some(minutes(59)), None),
            (Some("1h"), None, Some(minutes(60)), Some(minutes(60))),
            (Some("0"), Some(minutes(30)), Some(minutes(99)), None),
        ] {
            let annotations = match annotation {
                Some(text) => json!({ IDLE_AFTER_ANNOTATION: text }),
                None => json!({}),
            };
            let viewer = samples::parse(json!({ "pvc": "data" }), annotations).expect("a viewer");
            let settings = ViewerSettings {
                idle_after: setting,
                ..samples::settings()
            };
            let placement = Placement::Anywhere;
            let stop = StopReason::new(&viewer, &settings, &placement, unused);
            assert_eq!(
                stop,
                wanted.map(StopReason::Idle),
                "{annotation:?} {unused:?}"
            );
        }
    }

    #[test]
    fn each_reason_has_a_condition_and_names_what_is_in_the_way() {
        let user = |pod: &str, node: Option<&str>| ClaimUser {
            pod: pod.to_owned(),
            node: node.map(str::to_owned),
        };
        for (reason, condition, message) in [
            (
                StopReason::Invalid(InvalidViewer::NoClaim),
                "Invalid",
                "PVC name must be specified",
            ),
            (
                StopReason::PodSpecRejected(vec!["hostPID".into(), "nodeName".into()]),
                "PodSpecRejected",
                "podSpec: not allowed: hostPID, nodeName",
            ),
            (
                StopReason::ClaimInUse(vec![user("nb-0", Some("n3")), user("nb-1", None)]),
                "VolumeInUse",
                "the claim is in use by nb-0 on n3, nb-1",
            ),
            (
                StopReason::Yielded(vec![user("nb-0", Some("n4"))]),
                "VolumeInUse",
                "stopped for pods that wait for the volume: nb-0 on n4",
            ),
            (
                StopReason::Idle(Duration::from_secs(1800)),
                "Idle",
                "not used for 1800 s",
            ),
        ] {
            assert_eq!(reason.condition(), condition);
            assert_eq!(reason.message(), message);
        }
    }
}
