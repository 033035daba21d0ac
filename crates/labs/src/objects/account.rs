//! The account that containers run as.

use serde_json::{Value, json};

use crate::user::LabUser;

/// The person, without any rights of root.
pub(super) fn as_person(user: &LabUser) -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["all"] },
        "readOnlyRootFilesystem": true,
        "runAsGroup": user.gid,
        "runAsNonRoot": true,
        "runAsUser": user.uid,
    })
}
