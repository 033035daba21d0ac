//! `[[identity.trusted_issuers]]`: other issuers whose bearer tokens are accepted.

use std::path::Path;

use openidconnect::IssuerUrl;

use super::{
    resolve_access::claims,
    section::ConfigSection,
    values::{ca_file, issuer},
};
use crate::identity::{
    oidc::settings::{ForeignAccounts, TrustedIssuer},
    service_tokens::record::SUBJECT_PREFIX,
};

const SECTION: &str = "identity.trusted_issuers";
/// `GroupName` drops a slash at the beginning, so that with this prefix the groups of the issuer
/// would be those of `identity.issuer`.
const SLASH: &str = "/";
const SLASH_IS_NO_PREFIX: &str = "must not be / alone: a slash at the beginning is no part of a \
                                  group's name, so groups would have no prefix";

/// Reads the tables; `own` is the issuer of people. `None` only together with an error.
pub(super) fn trusted_issuers(
    identity: &ConfigSection<'_>,
    own: Option<&IssuerUrl>,
    folder: &Path,
) -> Option<Vec<TrustedIssuer>> {
    let mut issuers: Vec<TrustedIssuer> = Vec::new();
    let mut is_valid = true;
    identity.each_table("trusted_issuers", SECTION, |table| {
        let Some(read) = trusted_issuer(&table, folder) else {
            is_valid = false;
            return;
        };
        let mut known = issuers.iter().map(|other| &other.issuer).chain(own);
        if known.any(|known| known.as_str() == read.issuer.as_str()) {
            table.wrong("issuer", "is given twice", None);
        }
        let prefix = read.accounts.subject_prefix.as_str();
        let others = issuers.iter().map(|other| &*other.accounts.subject_prefix);
        let mut others = others.chain(std::iter::once(SUBJECT_PREFIX));
        if let Some(other) = others.find(|other| overlap(other, prefix)) {
            let what = format!("and {other:?} begin alike, so accounts could share a name");
            table.wrong("subject_prefix", what, None);
        }
        issuers.push(read);
    });
    is_valid.then_some(issuers)
}

/// Whether a name may begin with both.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn trusted_issuer(table: &ConfigSection<'_>, folder: &Path) -> Option<TrustedIssuer> {
    let issuer = table.required("issuer", issuer);
    let audiences = audiences(table);
    let subject_prefix = table.required("subject_prefix", subject_prefix);
    let user_claim = table.required_or("user_claim", "sub".to_owned(), not_empty);
    let groups_claim = table.text("groups_claim");
    if groups_claim.as_deref().is_some_and(str::is_empty) {
        table.wrong("groups_claim", "must name a claim", None);
    }
    let group_prefix = table.text("group_prefix");
    if groups_claim.is_none() && group_prefix.is_some() {
        table.wrong("group_prefix", "means nothing without groups_claim", None);
    }
    if group_prefix.as_deref() == Some(SLASH) {
        table.wrong("group_prefix", SLASH_IS_NO_PREFIX, None);
    }
    let claims = claims(table);
    let ca = ca_file(table, "ca", folder);
    let are_users = table.switch("are_users").unwrap_or(false);
    let subject_prefix = subject_prefix?;
    Some(TrustedIssuer {
        issuer: issuer?,
        audiences: audiences?,
        accounts: ForeignAccounts {
            user_claim,
            group_prefix: group_prefix.unwrap_or_else(|| subject_prefix.clone()),
            subject_prefix,
            groups_claim,
            claims: claims?,
            are_users,
        },
        ca,
    })
}

/// The accepted audiences. Without one, a token for any other service would be accepted.
fn audiences(table: &ConfigSection<'_>) -> Option<Vec<String>> {
    if !table.has("audiences") {
        table.missing("audiences");
        return None;
    }
    let audiences = table.texts("audiences")?;
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        table.wrong("audiences", "must name an audience", None);
        return None;
    }
    Some(audiences)
}

fn subject_prefix(text: &str) -> Result<String, String> {
    match text {
        SLASH => Err(SLASH_IS_NO_PREFIX.to_owned()),
        _ => not_empty(text),
    }
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("must not be empty".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    const IDENTITY: &str = "[identity]\nissuer = \"https://id.test\"\nclient_id = \"ludgate\"\n";
    const CI: &str = "[[identity.trusted_issuers]]\nissuer = \"https://ci.test\"\n\
                      audiences = [\"ludgate\"]\nsubject_prefix = \"ci:\"\n";

    fn read(tables: &str) -> Result<Vec<TrustedIssuer>, String> {
        let text = format!("{IDENTITY}{tables}");
        let read = settings::parse(&text, Path::new("."), std::iter::empty());
        let settings = read.map_err(|errors| errors.to_string())?;
        Ok(settings.identity.expect("a provider").trusted_issuers)
    }

    #[test]
    fn accounts_have_no_groups_and_are_no_users_unless_written() {
        assert!(read("").expect("none").is_empty());
        let issuers = read(CI).expect("one");
        let accounts = &issuers[0].accounts;
        assert_eq!(issuers[0].issuer.as_str(), "https://ci.test");
        assert_eq!(issuers[0].audiences, ["ludgate"]);
        assert_eq!(
            (&*accounts.user_claim, &*accounts.group_prefix),
            ("sub", "ci:")
        );
        assert!(accounts.groups_claim.is_none() && !accounts.are_users);
        let more = "groups_claim = \"/realm/teams\"\ngroup_prefix = \"\"\nare_users = true\n\
                    user_claim = \"/repository\"\nclaims = [\"/ref\"]\n";
        let issuers = read(&format!("{CI}{more}")).expect("one");
        let accounts = &issuers[0].accounts;
        assert_eq!(accounts.groups_claim.as_deref(), Some("/realm/teams"));
        assert_eq!(accounts.group_prefix, "");
        assert_eq!((accounts.claims.len(), accounts.are_users), (1, true));
    }

    #[test]
    fn what_would_mix_accounts_is_refused() {
        let other = |issuer: &str, prefix: &str| {
            let other = CI.replace("https://ci.test", issuer);
            other.replace("\"ci:\"", &format!("{prefix:?}"))
        };
        for (tables, wanted) in [
            (CI.replace("\"ci:\"", "\"\""), "must not be empty"),
            (CI.replace("\"ci:\"", "\"/\""), "must not be / alone"),
            (
                format!("{CI}groups_claim = \"groups\"\ngroup_prefix = \"/\"\n"),
                "must not be / alone",
            ),
            (CI.replace("\"ci:\"", "\"service:\""), "begin alike"),
            (CI.replace("\"ci:\"", "\"s\""), "begin alike"),
            (
                format!("{CI}{}", other("https://x.test", "ci:x")),
                "begin alike",
            ),
            (
                format!("{CI}{}", other("https://x.test", "c")),
                "begin alike",
            ),
            (
                format!("{CI}{}", other("https://ci.test", "x:")),
                "is given twice",
            ),
            (other("https://id.test", "x:"), "is given twice"),
            (other("http://ci.test", "x:"), "must be https"),
            (CI.replace("[\"ludgate\"]", "[]"), "must name an audience"),
            (
                CI.replace("audiences", "audience"),
                "did you mean audiences?",
            ),
            (
                format!("{CI}group_prefix = \"\"\n"),
                "means nothing without groups_claim",
            ),
            (format!("{CI}claims = [\"ref\"]\n"), "is no JSON pointer"),
            (
                "trusted_issuers = \"https://ci.test\"\n".to_owned(),
                "expected [[identity.trusted_issuers]] tables",
            ),
        ] {
            let errors = read(&tables).expect_err(&tables);
            assert!(errors.contains(wanted), "{tables}: {errors}");
        }
    }
}
