//! `[identity]`: the OpenID provider, the claims, and the groups of administrators.

use std::path::Path;

use super::{
    resolve_access::claims,
    resolve_bearer::introspection,
    resolve_trusted_issuers::trusted_issuers,
    section::ConfigSection,
    values::{ca_file, confidential_url, issuer, secret_file},
};
use crate::{
    identity::oidc::{OidcSettings, account_mapping::AccountMapping, settings::GroupDirectory},
    model::{access::GroupName, secret::Secret},
};

/// Reads `[identity]`. `None` only together with an error.
pub(super) fn identity(section: &ConfigSection<'_>, folder: &Path) -> Option<OidcSettings> {
    let client_secret = client_secret(section, folder);
    Some(OidcSettings {
        client_secret,
        ..without_secret(section, folder)?
    })
}

/// Reads `[identity]` for a process that only verifies tokens, and so needs no secret. `None` only
/// together with an error.
pub(super) fn without_secret(section: &ConfigSection<'_>, folder: &Path) -> Option<OidcSettings> {
    let issuer = section.required("issuer", issuer);
    let client_id = section.required("client_id", |id| {
        if id.is_empty() {
            Err("must not be empty".to_owned())
        } else {
            Ok(id.to_owned())
        }
    });
    let mut scopes = section
        .texts("scopes")
        .unwrap_or_else(|| ["openid", "profile", "email"].map(str::to_owned).into());
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".into());
    }
    let groups_claim = section
        .text("groups_claim")
        .unwrap_or_else(|| "groups".to_owned());
    if groups_claim.is_empty() || groups_claim == "/" {
        section.wrong("groups_claim", "must name a claim", None);
    }
    let directory = directory(section);
    let admin_groups = admin_groups(section);
    let ca = ca_file(section, "ca", folder);
    let audiences = section.texts("audiences");
    let claims = claims(section);
    let trusted_issuers = trusted_issuers(section, issuer.as_ref(), folder);
    let client_id = client_id?;
    Some(OidcSettings {
        issuer: issuer?,
        accounts: AccountMapping::default(),
        name: None,
        audiences: audiences.unwrap_or_else(|| vec![client_id.clone()]),
        client_id,
        client_secret: None,
        scopes,
        groups_claim,
        claims: claims?,
        directory,
        admin_groups,
        sign_out_at_provider: section.switch("sign_out_at_provider").unwrap_or(true),
        ca,
        providers: Vec::new(),
        trusted_issuers: trusted_issuers?,
        introspection: introspection(section),
    })
}

fn client_secret(section: &ConfigSection<'_>, folder: &Path) -> Option<Secret> {
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

fn admin_groups(section: &ConfigSection<'_>) -> Vec<GroupName> {
    let mut admin_groups = Vec::new();
    for name in section.texts("admin_groups").unwrap_or_default() {
        match GroupName::new(&name) {
            Some(group) => admin_groups.push(group),
            None => section.wrong("admin_groups", format!("{name:?} is no group"), None),
        }
    }
    admin_groups
}

fn directory(section: &ConfigSection<'_>) -> Option<GroupDirectory> {
    let field = section.text("groups_field");
    let Some(text) = section.text("groups_url") else {
        if field.is_some() {
            section.wrong("groups_field", "means nothing without groups_url", None);
        }
        return None;
    };
    let url = confidential_url(&text).map_err(|what| section.wrong("groups_url", what, None));
    Some(GroupDirectory {
        url: url.ok()?,
        field: field.unwrap_or_else(|| "id".to_owned()),
    })
}
