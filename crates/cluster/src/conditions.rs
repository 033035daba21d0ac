//! Conditions of a status, as Kubernetes' own objects have them: a list with one entry per type.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One statement about an object.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word for programs.
    pub reason: String,
    /// Why, for people; empty if the type and the reason say all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the spec that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status changed last, in RFC 3339.
    pub last_transition_time: String,
}

impl Condition {
    /// A condition that began `now` (RFC 3339), or keeps the time of the earlier one of its type
    /// and status.
    pub fn since(self, earlier: &[Condition], now: &str) -> Condition {
        let same = |other: &&Condition| other.kind == self.kind && other.status == self.status;
        let since = earlier
            .iter()
            .find(same)
            .map_or(now, |earlier| &earlier.last_transition_time);
        Condition {
            last_transition_time: since.to_owned(),
            ..self
        }
    }
}

/// The schema of a list of conditions: with server-side apply, each type has its own owner.
pub fn list_schema(generator: &mut SchemaGenerator) -> Schema {
    let condition = generator.subschema_for::<Condition>();
    json_schema!({
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_changes_only_with_the_status() {
        let ready = |status: &str, reason: &str| Condition {
            kind: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: Some(1),
            last_transition_time: String::new(),
        };
        let first = ready("False", "Starting").since(&[], "2026-01-01T00:00:00Z");
        assert_eq!(first.last_transition_time, "2026-01-01T00:00:00Z");
        let before = [first];
        let second = ready("False", "Error").since(&before, "2026-01-02T00:00:00Z");
        assert_eq!(second.last_transition_time, "2026-01-01T00:00:00Z");
        let third = ready("True", "Ready").since(&before, "2026-01-03T00:00:00Z");
        assert_eq!(third.last_transition_time, "2026-01-03T00:00:00Z");
    }
}
