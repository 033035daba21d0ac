//! Secrets of the controller.

use std::collections::BTreeMap;

/// A Secret in the namespace of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSecret {
    /// Its type.
    pub kind: String,
    /// Its data, in base64.
    pub data: BTreeMap<String, String>,
}

/// The Secrets of the controller's namespace that labs get, by name.
pub type SourceSecrets = BTreeMap<String, SourceSecret>;
