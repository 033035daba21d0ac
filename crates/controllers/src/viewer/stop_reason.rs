//! Why a viewer has no pod.
//!
//! Invariant: one reason at a time, the one that its author can change first. The texts do not
//! change while the reason lasts, so they lead to no write.

use std::time::Duration;

use super::{
    parsed::InvalidViewer,
    placement::{ClaimUser, Placement},
};

/// The type of the condition of an idle viewer.
pub const IDLE: &str = "Idle";

/// Fields that a message names.
const MAX_FIELDS: usize = 20;

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
    /// Whether a valid viewer must be scaled to zero. `unused` is the time without use after which
    /// it is idle, if it is.
    pub fn new(placement: &Placement, unused: Option<Duration>) -> Option<StopReason> {
        match placement {
            Placement::Anywhere | Placement::Node(_) => unused.map(StopReason::Idle),
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
            StopReason::Idle(_) => IDLE,
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
                let named = fields.iter().take(MAX_FIELDS).map(String::as_str);
                let named = named.collect::<Vec<_>>().join(", ");
                let more = fields.len().saturating_sub(MAX_FIELDS);
                match more {
                    0 => format!("podSpec: not allowed: {named}"),
                    _ => format!("podSpec: not allowed: {named}, and {more} more"),
                }
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
    use super::*;

    #[test]
    fn pods_that_use_the_claim_come_before_idleness() {
        let unused = Some(Duration::from_secs(60));
        let idle = StopReason::Idle(Duration::from_secs(60));
        for placement in [Placement::Anywhere, Placement::Node("n3".into())] {
            assert_eq!(StopReason::new(&placement, unused), Some(idle.clone()));
            assert_eq!(StopReason::new(&placement, None), None);
        }
        let in_use = Placement::InUse(Vec::new());
        let reason = StopReason::ClaimInUse(Vec::new());
        assert_eq!(StopReason::new(&in_use, unused), Some(reason));
        let yielded = Placement::Yield(Vec::new());
        let reason = StopReason::Yielded(Vec::new());
        assert_eq!(StopReason::new(&yielded, None), Some(reason));
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
