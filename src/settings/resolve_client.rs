//! The client of an OpenID provider: keys that `[identity]` and each further provider have.

use std::path::Path;

use super::{section::ConfigSection, values::secret_file};
use crate::model::secret::Secret;

/// The name of the provider for people.
pub(super) fn name(section: &ConfigSection<'_>) -> Option<String> {
    section.required("name", |name| {
        if name.trim().is_empty() {
            Err("must not be empty".to_owned())
        } else {
            Ok(name.to_owned())
        }
    })
}

/// The client id, which is required.
pub(super) fn client_id(section: &ConfigSection<'_>) -> Option<String> {
    section.required("client_id", |id| {
        if id.is_empty() {
            Err("must not be empty".to_owned())
        } else {
            Ok(id.to_owned())
        }
    })
}

/// The secret; `None`: a public client.
pub(super) fn client_secret(section: &ConfigSection<'_>, folder: &Path) -> Option<Secret> {
    let inline = section.text("client_secret").map(Secret::new);
    let from_file = secret_file(section, "client_secret_file", folder);
    if inline.is_some() && section.text("client_secret_file").is_some() {
        section.wrong(
            "client_secret",
            "and client_secret_file are both given",
            None,
        );
    }
    inline.or(from_file)
}

/// The scopes of a sign-in; `openid` is always among them.
pub(super) fn scopes(section: &ConfigSection<'_>) -> Vec<String> {
    let mut scopes = section
        .texts("scopes")
        .unwrap_or_else(|| ["openid", "profile", "email"].map(str::to_owned).into());
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".into());
    }
    scopes
}

/// The claim with the groups.
pub(super) fn groups_claim(section: &ConfigSection<'_>) -> String {
    let groups_claim = section
        .text("groups_claim")
        .unwrap_or_else(|| "groups".to_owned());
    if groups_claim.is_empty() || groups_claim == "/" {
        section.wrong("groups_claim", "must name a claim", None);
    }
    groups_claim
}
