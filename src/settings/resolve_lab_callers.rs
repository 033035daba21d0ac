//! Who calls the labs, and what each caller may do.

use http::{HeaderName, Uri};
use openidconnect::{IssuerUrl, JsonWebKeySetUrl};

use super::{resolve_listen::networks, section::ConfigSection, values::confidential_url};
use crate::{
    labs::service::callers::{
        AssertionSettings, CallerSettings, ClaimNames, ScopeRule, ScopeRules, TrustedHeaderSettings,
    },
    model::site::Site,
};

/// `None` only together with an error.
pub(super) fn callers(section: &ConfigSection<'_>, site: Option<&Site>) -> Option<CallerSettings> {
    let scopes = section.inner("scopes", "labs.scopes", |scopes| scope_rules(&scopes));
    let claims = section.inner("claims", "labs.claims", |claims| claim_names(&claims));
    let assertion = section.inner("assertion", "labs.assertion", |assertion| {
        assertion_settings(&assertion, site)
    });
    let user_info = section.text("user_info").map(|text| {
        let url = user_info_url(&text);
        url.map_err(|what| section.wrong("user_info", what, None))
    });
    let headers = trusted_headers(section);
    let scopes = scopes.unwrap_or_else(|| ScopeRules {
        notebook: vec![ScopeRule::User],
        files: vec![ScopeRule::User],
        ..ScopeRules::default()
    });
    let all_rules = [&scopes.notebook, &scopes.files, &scopes.hub, &scopes.admin];
    let names_proxy = all_rules
        .iter()
        .any(|rules| rules.contains(&ScopeRule::Proxy));
    if names_proxy && !section.has("trusted_peers") {
        let what = "has a rule proxy, which means nothing without labs.trusted_peers";
        section.wrong("scopes", what, None);
    }
    Some(CallerSettings {
        claims: claims.unwrap_or_default(),
        scopes,
        headers: headers?,
        assertion: match assertion {
            Some(assertion) => Some(assertion?),
            None => None,
        },
        user_info: user_info.transpose().ok()?,
    })
}

fn scope_rules(section: &ConfigSection<'_>) -> ScopeRules {
    let rules = |name| {
        let mut rules = Vec::new();
        for text in section.texts(name)? {
            match ScopeRule::parse(&text) {
                Ok(rule) => rules.push(rule),
                Err(what) => section.wrong(name, what, None),
            }
        }
        Some(rules)
    };
    let notebook = rules("notebook").unwrap_or_else(|| vec![ScopeRule::User]);
    ScopeRules {
        files: rules("files").unwrap_or_else(|| notebook.clone()),
        notebook,
        hub: rules("hub").unwrap_or_default(),
        admin: rules("admin").unwrap_or_default(),
    }
}

fn claim_names(section: &ConfigSection<'_>) -> ClaimNames {
    let defaults = ClaimNames::default();
    let name = |key, default: String| {
        let name = section.text(key).unwrap_or(default);
        if name.is_empty() || name == "/" {
            section.wrong(key, "must name a claim", None);
        }
        name
    };
    ClaimNames {
        username: name("username", defaults.username),
        name: name("name", defaults.name),
        uid: name("uid", defaults.uid),
        gid: name("gid", defaults.gid),
        groups: name("groups", defaults.groups),
        quota: name("quota", defaults.quota),
    }
}

/// `None` only together with an error.
fn assertion_settings(
    section: &ConfigSection<'_>,
    site: Option<&Site>,
) -> Option<AssertionSettings> {
    let jwks = section.required("jwks", |text| {
        confidential_url(text).map(JsonWebKeySetUrl::from_url)
    });
    let issuer = match section.text("issuer") {
        Some(text) => Some(text),
        None => site.map(|site| site.origin.to_string()),
    };
    let issuer = issuer.and_then(|text| {
        let wrong = |error: url::ParseError| {
            section.wrong("issuer", format!("{text:?} is no URL: {error}"), None);
        };
        IssuerUrl::new(text.clone()).map_err(wrong).ok()
    });
    let audience = section.text("audience");
    Some(AssertionSettings {
        jwks: jwks?,
        issuer: issuer?,
        audience: audience.unwrap_or_else(|| "labs".to_owned()),
    })
}

fn user_info_url(text: &str) -> Result<Uri, String> {
    let url = confidential_url(text)?;
    let uri: Result<Uri, _> = url.as_str().parse();
    uri.map_err(|error| error.to_string())
}

/// `None` only together with an error.
fn trusted_headers(section: &ConfigSection<'_>) -> Option<TrustedHeaderSettings> {
    let defaults = TrustedHeaderSettings::default();
    let name = |key, default: HeaderName| match section.has(key) {
        true => section.required(key, |text| {
            let parsed: Result<HeaderName, _> = text.parse();
            parsed.map_err(|_| format!("{text:?} is no name of a header"))
        }),
        false => Some(default),
    };
    let user = name("user_header", defaults.user);
    let token = name("token_header", defaults.token);
    let groups = name("groups_header", defaults.groups);
    Some(TrustedHeaderSettings {
        peers: networks(section, "trusted_peers"),
        user: user?,
        token: token?,
        groups: groups?,
    })
}
