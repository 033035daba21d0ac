//! Which OpenID provider is meant, and its issuer.

use url::Url;

use super::{
    given::GivenOptions,
    report::ImportOutcome::{Default as Same, Mapped, NotNeeded, NotSupported},
};
use crate::model::site::is_loopback_host;

/// The provider of oauth2-proxy if none is given.
const DEFAULT: &str = "google";
/// Tenants of Microsoft that stand for many.
const SHARED_TENANTS: [&str; 3] = ["common", "organizations", "consumers"];
/// Where the paths of a realm of Keycloak begin.
const KEYCLOAK_PATHS: &str = "/protocol/openid-connect/";

/// The provider.
pub(crate) struct Provider {
    /// Its name in oauth2-proxy, such as `keycloak-oidc`.
    pub(crate) name: String,
    /// The issuer, if it is known and one that Ludgate accepts.
    pub(crate) issuer: Option<String>,
}

/// Finds the provider.
pub(crate) fn provider(options: &GivenOptions) -> Provider {
    let name = options
        .text("provider")
        .unwrap_or_else(|| DEFAULT.to_owned());
    let written = options.text("oidc_issuer_url");
    let issuer = written.or_else(|| known_issuer(options, &name));
    let issuer = issuer.filter(|issuer| speaks_openid(&name) && is_issuer(issuer));
    answer_tenant(options, &name, issuer.as_deref());
    match (&issuer, speaks_openid(&name)) {
        (Some(_), _) => {
            let key = "identity.issuer";
            options.mapped("provider", key);
            options.mapped("oidc_issuer_url", key);
        }
        (None, true) => {
            let what = "the issuer is not known, or not one of https or of a single tenant; set identity.issuer";
            options.not_supported("provider", what);
            options.not_supported("oidc_issuer_url", what);
            options.miss("identity.issuer: the address of the OpenID provider");
        }
        (None, false) => {
            let what = format!(
                "{name} is no OpenID provider that Ludgate can use; put one in between that signs \
                 people in there, such as Dex or Keycloak"
            );
            options.not_supported("provider", what);
            let what = "only for an OpenID provider";
            options.answer("oidc_issuer_url", NotNeeded, what);
            options.miss("identity.issuer: the address of an OpenID provider");
        }
    }
    Provider { name, issuer }
}

/// Whether a provider has a discovery document and ID tokens.
fn speaks_openid(name: &str) -> bool {
    matches!(
        name,
        "oidc"
            | "keycloak-oidc"
            | "keycloak"
            | "google"
            | "gitlab"
            | "azure"
            | "entra-id"
            | "adfs"
            | "cidaas"
    )
}

/// The issuer of a provider for which none is given.
fn known_issuer(options: &GivenOptions, name: &str) -> Option<String> {
    match name {
        "google" => Some("https://accounts.google.com".to_owned()),
        "gitlab" => Some("https://gitlab.com".to_owned()),
        "azure" => {
            let tenant = options.text("azure_tenant")?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            let is_one = !SHARED_TENANTS.contains(&tenant.as_str()) && tenant.bytes().all(is_plain);
            is_one.then(|| format!("https://login.microsoftonline.com/{tenant}/v2.0"))
        }
        "keycloak" => {
            let login = options.text("login_url")?;
            let (realm, _) = login.split_once(KEYCLOAK_PATHS)?;
            Some(realm.to_owned())
        }
        _ => None,
    }
}

/// Answers the options from which an issuer can be derived.
fn answer_tenant(options: &GivenOptions, name: &str, issuer: Option<&str>) {
    let is_derived = issuer.is_some() && !options.has("oidc_issuer_url");
    match (name, is_derived) {
        ("azure", true) => options.mapped("azure_tenant", "identity.issuer"),
        ("azure", false) if issuer.is_none() => {
            let what = "the issuer must be that of one tenant";
            options.answer("azure_tenant", NotSupported, what);
        }
        ("azure", false) => {
            options.answer("azure_tenant", Same, "oidc_issuer_url names the tenant");
        }
        (_, _) => options.answer("azure_tenant", NotNeeded, "only for the provider azure"),
    }
    if name == "keycloak" && is_derived {
        options.answer("login_url", Mapped, "identity.issuer");
    } else {
        let what = "the addresses come from the discovery document of the issuer";
        options.answer("login_url", NotNeeded, what);
    }
}

/// Whether Ludgate takes a text for an issuer: https, or http on loopback, of one tenant.
fn is_issuer(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let is_safe = match url.scheme() {
        "https" => url.host_str().is_some(),
        "http" => url.host_str().is_some_and(is_loopback_host),
        _ => false,
    };
    let is_plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let is_microsoft = url.host_str() == Some("login.microsoftonline.com");
    let first = url.path().split('/').nth(1).unwrap_or_default();
    is_safe && is_plain && !(is_microsoft && SHARED_TENANTS.contains(&first))
}
