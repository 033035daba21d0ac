//! Headers of requests to upstreams: those that identify the person, and those of the alpha
//! configuration.

use http::HeaderName;

use super::{
    draft::{DraftTable, quoted},
    given::GivenOptions,
    report::ImportOutcome::{Default as Same, Mapped, NotSupported},
};
use crate::forward::header_action::{is_spelling_of, may_be_set};

/// Headers that identify a person, and the names of their claims in oauth2-proxy.
const IDENTITY_HEADERS: [&str; 4] = [
    "x-forwarded-user=user",
    "x-forwarded-email=email",
    "x-forwarded-preferred-username=preferred_username",
    "x-forwarded-groups=groups",
];
/// The header with the access token.
const ACCESS_TOKEN: &str = "x-forwarded-access-token=access_token";

/// The headers that all apps get.
pub(crate) struct HeaderDraft {
    /// `X-Forwarded-User` and the others.
    identifies: bool,
    passes_access_token: bool,
    /// Names in lower case, and templates.
    own: Vec<(HeaderName, &'static str)>,
    /// Whether the written file has a provider.
    has_identity: bool,
}

/// Finds the headers. `has_identity`: the written file has a provider.
pub(crate) fn headers(options: &GivenOptions, has_identity: bool) -> HeaderDraft {
    let draft = HeaderDraft {
        identifies: false,
        passes_access_token: false,
        own: Vec::new(),
        has_identity,
    };
    if options.has_any("upstreamConfig.") || options.has_any("injectRequestHeaders") {
        injected(options, draft)
    } else {
        by_switches(options, draft)
    }
}

fn by_switches(options: &GivenOptions, draft: HeaderDraft) -> HeaderDraft {
    let switches = ["pass_user_headers", "pass_basic_auth"];
    // One of them is enough for oauth2-proxy.
    let identifies = switches
        .iter()
        .any(|option| options.switch(option).unwrap_or(true));
    for option in switches {
        match identifies {
            true => options.answer(option, Same, "apps get identity headers"),
            false => options.mapped(option, "apps.identity_headers"),
        }
    }
    let passes_access_token = options.switch("pass_access_token") == Some(true);
    match passes_access_token {
        true => options.mapped("pass_access_token", "apps.pass_access_token"),
        false => options.answer("pass_access_token", Same, ""),
    }
    HeaderDraft {
        identifies,
        passes_access_token,
        ..draft
    }
}

/// The headers of the alpha configuration, each as `name=claim`.
fn injected(options: &GivenOptions, mut draft: HeaderDraft) -> HeaderDraft {
    for (number, given) in options.each("injectRequestHeaders[]") {
        let written = given.value.text().unwrap_or_default();
        let lower = written.to_ascii_lowercase();
        if IDENTITY_HEADERS.contains(&lower.as_str()) {
            draft.identifies = true;
            options.answer_at(number, Mapped, "apps.identity_headers");
            continue;
        }
        if lower == ACCESS_TOKEN {
            draft.passes_access_token = true;
            options.answer_at(number, Mapped, "apps.pass_access_token");
            continue;
        }
        // The name has no `=`: no name of a header has one.
        let (name, claim) = written.split_once('=').unwrap_or((&written, ""));
        match own_header(name, claim, &draft.own) {
            Ok(header) => {
                draft.own.push(header);
                options.answer_at(number, Mapped, format!("{name}: apps.headers"));
            }
            Err(reason) => options.answer_at(number, NotSupported, format!("{name}: {reason}")),
        }
    }
    draft
}

/// A header of its own name, or why Ludgate does not send it.
fn own_header(
    name: &str,
    claim: &str,
    others: &[(HeaderName, &'static str)],
) -> Result<(HeaderName, &'static str), &'static str> {
    let template = match claim {
        "user" => "{subject}",
        "email" => "{email}",
        "preferred_username" => "{preferred_username}",
        "groups" => "{groups}",
        _ => {
            return Err(
                "write a constant, or a claim of identity.claims, into apps.headers; credentials into apps.basic_auth_file",
            );
        }
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "it is no name of a header")?;
    if !may_be_set(&name) {
        return Err("Ludgate sets or removes this header itself");
    }
    let is_same = |(other, _): &(HeaderName, &str)| is_spelling_of(other.as_str(), name.as_str());
    if others.iter().any(is_same) {
        return Err("another header has this name");
    }
    Ok((name, template))
}

impl HeaderDraft {
    /// Writes the keys of an app.
    pub(crate) fn write(&self, table: &mut DraftTable) {
        if !self.identifies {
            table.set("identity_headers", "false");
        }
        if !self.own.is_empty() {
            let entries = self.own.iter();
            let entries = entries.map(|(name, template)| {
                format!("{} = {}", quoted(name.as_str()), quoted(template))
            });
            let entries: Vec<String> = entries.collect();
            table.set("headers", format!("{{ {} }}", entries.join(", ")));
        }
        match (self.passes_access_token, self.has_identity) {
            (true, true) => table.set("pass_access_token", "true"),
            (true, false) => {
                table.comment("It needs a complete table [identity].");
                table.suggest(&["pass_access_token = true".to_owned()]);
            }
            (false, _) => {}
        }
    }
}
