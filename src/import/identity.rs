//! The table `[identity]`.

use super::{
    draft::{DraftTable, list, quoted},
    given::GivenOptions,
    provider::Provider,
    report::ImportOutcome::{Default as Same, NotNeeded},
};
use crate::settings::values::MAX_CLAIMS;

/// The table; commented out where the provider or the client is not known.
pub(crate) fn identity(
    options: &GivenOptions,
    provider: &Provider,
    claims: &[String],
) -> DraftTable {
    let client_id = options.text("client_id");
    options.mapped("client_id", "identity.client_id");
    if client_id.is_none() {
        options.miss("identity.client_id: the client at the provider");
    }
    let mut table = match provider.issuer.is_some() && client_id.is_some() {
        true => DraftTable::new("[identity]"),
        false => {
            let mut table = DraftTable::commented_out("[identity]");
            table.comment("Not complete: until it is, no one can sign in.");
            table
        }
    };
    let issuer = provider.issuer.as_deref();
    table.set("issuer", quoted(issuer.unwrap_or("https://id.example.com")));
    table.set(
        "client_id",
        quoted(client_id.as_deref().unwrap_or("ludgate")),
    );
    client_secret(options, &mut table);
    scopes(options, provider, &mut table);
    if let Some(claim) = options.text("oidc_groups_claim") {
        match claim.as_str() {
            "groups" => options.answer("oidc_groups_claim", Same, ""),
            "/" => options.not_supported("oidc_groups_claim", "it names no claim"),
            _ => {
                table.set("groups_claim", quoted(&claim_name(&claim)));
                options.mapped("oidc_groups_claim", "identity.groups_claim");
            }
        }
    }
    if !claims.is_empty() {
        if claims.len() > MAX_CLAIMS {
            options.miss("identity.claims: an access rule names more than 16 claims");
        }
        table.set("claims", list(claims));
    }
    audiences(options, client_id, &mut table);
    match options.texts("provider_ca_files").as_slice() {
        [] => {}
        [file] => {
            table.set("ca", quoted(file));
            options.mapped("provider_ca_files", "identity.ca");
        }
        [_, ..] => {
            let what = "write the certificates into one file, and name it in identity.ca";
            options.not_supported("provider_ca_files", what);
        }
    }
    table
}

/// The secret itself is in no file that is written.
fn client_secret(options: &GivenOptions, table: &mut DraftTable) {
    let file = options.text("client_secret_file");
    match (options.has("client_secret"), file) {
        (true, _) => {
            table.comment("Write the value of client_secret into this file.");
            table.set("client_secret_file", quoted("client-secret"));
            let key = "identity.client_secret_file; write the secret into the file client-secret";
            options.mapped("client_secret", key);
            let what = "client_secret comes before it";
            options.answer("client_secret_file", NotNeeded, what);
        }
        (false, Some(file)) => {
            table.set("client_secret_file", quoted(&file));
            options.mapped("client_secret_file", "identity.client_secret_file");
        }
        (false, None) => {}
    }
}

fn scopes(options: &GivenOptions, provider: &Provider, table: &mut DraftTable) {
    let written = options.text("scope").map(|scope| {
        let scopes = scope.split_whitespace().map(str::to_owned);
        scopes.collect::<Vec<_>>()
    });
    // oauth2-proxy adds this scope for its generic provider.
    let asks_groups = provider.name == "oidc" && options.has("allowed_groups");
    let scopes = written.or_else(|| {
        asks_groups.then(|| {
            ["openid", "email", "profile", "groups"]
                .map(str::to_owned)
                .into()
        })
    });
    if let Some(scopes) = scopes {
        table.set("scopes", list(&scopes));
    }
    options.mapped("scope", "identity.scopes");
}

/// oauth2-proxy accepts bearer tokens only with `skip_jwt_bearer_tokens`.
fn audiences(options: &GivenOptions, client_id: Option<String>, table: &mut DraftTable) {
    let accepts_tokens = options.switch("skip_jwt_bearer_tokens") == Some(true);
    if accepts_tokens {
        let extra = options.texts("oidc_extra_audiences");
        let audiences: Vec<String> = client_id.into_iter().chain(extra).collect();
        table.set("audiences", list(&audiences));
        let key = "identity.audiences; access tokens are accepted, ID tokens are not";
        options.mapped("skip_jwt_bearer_tokens", key);
        options.mapped("oidc_extra_audiences", "identity.audiences");
        return;
    }
    table.comment("No bearer tokens are accepted, as before.");
    table.set("audiences", "[]");
    options.mapped("skip_jwt_bearer_tokens", "identity.audiences");
    let what = "ID tokens must have the client id as audience";
    options.not_supported("oidc_extra_audiences", what);
}

/// A claim: a name, or a JSON pointer for a path with dots.
pub(super) fn claim_name(claim: &str) -> String {
    let is_path = claim.contains('.') && !claim.contains(['/', ':']);
    match is_path {
        true => format!("/{}", claim.replace('~', "~0").replace('.', "/")),
        false => claim.to_owned(),
    }
}
