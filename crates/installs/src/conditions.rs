//! The conditions of an installation: a map from type to condition.

use std::collections::BTreeMap;

use ludgate_cluster::crd::installation_status::InstallationCondition;

/// The chart could be fetched.
pub const MANIFESTS_RETRIEVED: &str = "ManifestsRetrieved";
/// The app is installed in its current form.
pub const READY: &str = "Ready";
/// The object follows the rules.
pub const ACCEPTED: &str = "Accepted";
/// The app's workloads are available.
pub const HEALTHY: &str = "Healthy";
/// An interrupted operation was repaired.
pub const RECOVERED: &str = "Recovered";
/// The definition no longer has the version that runs.
pub const VERSION_WITHDRAWN: &str = "VersionWithdrawn";
/// The namespace has the labels and annotations that the installation sets. Only shown if not.
pub const NAMESPACE_LABELLED: &str = "NamespaceLabelled";
/// Each SSH host key is accepted.
pub const HOST_KEY_UNCHECKED: &str = "HostKeyUnchecked";

/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 1024;

/// Conditions by their types.
pub type InstallationConditions = BTreeMap<String, InstallationCondition>;

/// Whether a statement is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// It is not known.
    Unknown,
}

impl ConditionStatus {
    /// The word of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The type, such as [`READY`].
    pub kind: &'a str,
    /// Whether it is true.
    pub status: ConditionStatus,
    /// Why, as one word for programs.
    pub reason: &'a str,
    /// Why, for people. A long message is cut.
    pub message: &'a str,
}

/// Sets a condition, about a generation of the spec, at a time in RFC 3339. Without a change
/// nothing is set, so that no write follows. Returns whether something changed.
pub fn set(
    conditions: &mut InstallationConditions,
    statement: &Statement<'_>,
    generation: i64,
    now: &str,
) -> bool {
    let message = &statement.message[..statement.message.floor_char_boundary(MAX_MESSAGE)];
    let status = statement.status.as_str();
    let earlier = conditions.get(statement.kind);
    let is_same = earlier.is_some_and(|earlier| {
        earlier.status == status
            && earlier.reason == statement.reason
            && earlier.message == message
            && earlier.observed_generation == generation
            && earlier.last_transition_time.is_some()
    });
    if is_same {
        return false;
    }
    let since = earlier
        .filter(|earlier| earlier.status == status)
        .and_then(|earlier| earlier.last_transition_time.clone());
    let condition = InstallationCondition {
        status: status.to_owned(),
        last_heartbeat_time: Some(now.to_owned()),
        last_transition_time: Some(since.unwrap_or_else(|| now.to_owned())),
        reason: statement.reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
    };
    conditions.insert(statement.kind.to_owned(), condition);
    true
}

/// Whether `Ready` is true for this generation of the spec.
pub fn is_ready(conditions: &InstallationConditions, generation: i64) -> bool {
    conditions.get(READY).is_some_and(|ready| {
        ready.status == ConditionStatus::True.as_str() && ready.observed_generation == generation
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: ConditionStatus, message: &str) -> Statement<'_> {
        Statement {
            kind: READY,
            status,
            reason: "R",
            message,
        }
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let mut conditions = InstallationConditions::new();
        let mut times = Vec::new();
        for (status, message, generation, now) in [
            (ConditionStatus::Unknown, "a", 1, "1"),
            (ConditionStatus::Unknown, "b", 1, "2"),
            (ConditionStatus::True, "b", 1, "3"),
            (ConditionStatus::True, "b", 2, "4"),
        ] {
            assert!(set(
                &mut conditions,
                &ready(status, message),
                generation,
                now
            ));
            let ready = &conditions[READY];
            let times_of = |time: &Option<String>| time.clone().unwrap_or_default();
            times.push((
                times_of(&ready.last_transition_time),
                times_of(&ready.last_heartbeat_time),
            ));
        }
        let wanted = [("1", "1"), ("1", "2"), ("3", "3"), ("3", "4")];
        let wanted = wanted.map(|(since, heartbeat)| (since.to_owned(), heartbeat.to_owned()));
        assert_eq!(times, wanted);
        assert!(is_ready(&conditions, 2) && !is_ready(&conditions, 1));
    }

    #[test]
    fn nothing_is_written_without_a_change() {
        let mut conditions = InstallationConditions::new();
        let statement = ready(ConditionStatus::True, "m");
        assert!(set(&mut conditions, &statement, 1, "1"));
        let before = conditions.clone();
        assert!(!set(&mut conditions, &statement, 1, "2"));
        assert_eq!(conditions, before);
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_is_then_the_same() {
        let long = "ä".repeat(MAX_MESSAGE);
        let mut conditions = InstallationConditions::new();
        assert!(set(
            &mut conditions,
            &ready(ConditionStatus::False, &long),
            1,
            "1"
        ));
        assert_eq!(conditions[READY].message.len(), MAX_MESSAGE);
        assert!(!set(
            &mut conditions,
            &ready(ConditionStatus::False, &long),
            1,
            "2"
        ));
    }
}
