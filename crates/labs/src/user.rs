//! The person that a lab belongs to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{error::LabError, size::NotebookQuota};

/// Longest name. It is also the value of a label.
const MAX_USERNAME: usize = 63;

/// A group of a person.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LabGroup {
    /// Its name.
    pub name: String,
    /// Its GID.
    pub id: u32,
}

/// The person that a lab belongs to. Groups without a GID are left out before.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LabUser {
    /// The name for sign-in.
    pub username: String,
    /// The name for people.
    pub name: Option<String>,
    /// The UID.
    pub uid: u32,
    /// GID of the primary group.
    pub gid: u32,
    /// All groups that have a GID.
    pub groups: Vec<LabGroup>,
    /// What the person may use. Without it, all.
    pub quota: Option<NotebookQuota>,
}

/// Checks that a name can be part of the names of Kubernetes objects: lower-case letters, digits
/// and single hyphens within, at least one letter.
///
/// # Errors
/// [`LabError::InvalidUsername`] with a shortened name.
pub fn check_username(username: &str) -> Result<(), LabError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_valid = (1..=MAX_USERNAME).contains(&username.len())
        && username.bytes().all(allowed)
        && username.bytes().any(|b| b.is_ascii_lowercase())
        && !username.starts_with('-')
        && !username.ends_with('-')
        && !username.contains("--");
    if is_valid {
        return Ok(());
    }
    let shown = username.chars().take(MAX_USERNAME).collect();
    Err(LabError::InvalidUsername(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_parts_of_names_of_objects() {
        for name in ["rachel", "a", "bot-mobu-1", "1a", &"x".repeat(63)] {
            assert_eq!(check_username(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "Rachel",
            "a.b",
            "../x",
            "-a",
            "a-",
            "a--b",
            "17",
            "a/b",
            "ä",
            &"x".repeat(300),
        ] {
            assert_eq!(check_username(name).unwrap_err().status(), 422, "{name}");
        }
    }
}
