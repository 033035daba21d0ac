//! Schemas that the custom resources share.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A part of a Kubernetes type, accepted as a whole: its fields depend on the cluster's version.
pub(crate) fn whole(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// For fields that are absent when they are false.
pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// For counts that are absent when they are zero.
pub(crate) fn is_zero(value: &i64) -> bool {
    *value == 0
}
