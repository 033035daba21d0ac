//! `[identity]`: the OpenID providers, the claims, and the groups of administrators.

use std::path::Path;

use super::{
    resolve_access::claims,
    resolve_bearer::introspection,
    resolve_client::{client_id, client_secret, groups_claim, name, scopes},
    resolve_providers::{ClientSecrets, IdentityValues, providers},
    resolve_trusted_issuers::trusted_issuers,
    section::ConfigSection,
    values::{ca_file, confidential_url, issuer},
};
use crate::{
    identity::oidc::{OidcSettings, account_mapping::AccountMapping, settings::GroupDirectory},
    model::access::GroupName,
};

/// Reads `[identity]`. `None` only together with an error.
pub(super) fn identity(section: &ConfigSection<'_>, folder: &Path) -> Option<OidcSettings> {
    read(section, folder, ClientSecrets::Read)
}

/// Reads `[identity]` for a process that only verifies tokens, and so needs no secret. `None` only
/// together with an error.
pub(super) fn without_secret(section: &ConfigSection<'_>, folder: &Path) -> Option<OidcSettings> {
    read(section, folder, ClientSecrets::Skipped)
}

fn read(
    section: &ConfigSection<'_>,
    folder: &Path,
    secrets: ClientSecrets,
) -> Option<OidcSettings> {
    let client_secret = match secrets {
        ClientSecrets::Read => client_secret(section, folder),
        ClientSecrets::Skipped => None,
    };
    let issuer = section.required("issuer", issuer);
    let name = section.has("name").then(|| name(section)).flatten();
    let client_id = client_id(section);
    let scopes = scopes(section);
    let groups_claim = groups_claim(section);
    let directory = directory(section);
    let admin_groups = admin_groups(section);
    let ca = ca_file(section, "ca", folder);
    let audiences = section.texts("audiences");
    let claims = claims(section);
    let trusted_issuers = trusted_issuers(section, issuer.as_ref(), folder);
    let values = IdentityValues {
        issuer: issuer.as_ref(),
        trusted_issuers: trusted_issuers.as_deref().unwrap_or_default(),
        admin_groups: &admin_groups,
        secrets,
    };
    let providers = providers(section, &values, folder);
    let further = providers.iter().flatten();
    let ids = further.filter_map(|it| it.accounts.provider());
    let accounts = AccountMapping::of_default(ids.cloned().collect());
    let client_id = client_id?;
    Some(OidcSettings {
        issuer: issuer?,
        accounts,
        name,
        audiences: audiences.unwrap_or_else(|| vec![client_id.clone()]),
        client_id,
        client_secret,
        scopes,
        groups_claim,
        claims: claims?,
        directory,
        admin_groups,
        sign_out_at_provider: section.switch("sign_out_at_provider").unwrap_or(true),
        ca,
        providers: providers?,
        trusted_issuers: trusted_issuers?,
        introspection: introspection(section),
    })
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
