//! `[[identity.providers]]`: further providers where people sign in.

use std::path::Path;

use openidconnect::IssuerUrl;

use super::{
    resolve_access::claims,
    resolve_client::{client_id, client_secret, groups_claim, name, scopes},
    resolve_trusted_issuers::overlap,
    section::ConfigSection,
    values::{ca_file, issuer},
};
use crate::{
    identity::oidc::{
        OidcSettings,
        account_mapping::AccountMapping,
        settings::{IntrospectionSettings, TrustedIssuer},
    },
    model::{access::GroupName, provider_id::ProviderId},
};

const SECTION: &str = "identity.providers";

/// Whether secrets of clients are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientSecrets {
    /// People sign in at this process.
    Read,
    /// This process only verifies tokens, and may not be able to read the files.
    Skipped,
}

/// The values of `[identity]` that further providers are compared with, or share.
pub(super) struct IdentityValues<'i> {
    /// The issuer of the default provider, if it is valid.
    pub(super) issuer: Option<&'i IssuerUrl>,
    pub(super) trusted_issuers: &'i [TrustedIssuer],
    pub(super) admin_groups: &'i [GroupName],
    pub(super) secrets: ClientSecrets,
}

/// Reads the tables. `None` only together with an error.
pub(super) fn providers(
    identity: &ConfigSection<'_>,
    values: &IdentityValues<'_>,
    folder: &Path,
) -> Option<Vec<OidcSettings>> {
    let mut providers: Vec<OidcSettings> = Vec::new();
    let mut is_valid = true;
    identity.each_table("providers", SECTION, |table| {
        let Some(read) = provider(&table, values, folder) else {
            is_valid = false;
            return;
        };
        let trusted = values.trusted_issuers.iter().map(|other| &other.issuer);
        let others = providers.iter().map(|other| &other.issuer);
        let mut others = others.chain(trusted).chain(values.issuer);
        if others.any(|other| other.as_str() == read.issuer.as_str()) {
            table.wrong("issuer", "is given twice", None);
        }
        let id = read.accounts.provider();
        if providers
            .iter()
            .any(|other| other.accounts.provider() == id)
        {
            table.wrong("id", "is given twice", None);
        }
        if let Some(id) = id {
            check_prefixes(&table, id, values.trusted_issuers);
        }
        providers.push(read);
    });
    is_valid.then_some(providers)
}

/// Checks that no account of a trusted issuer can have a name of this provider.
fn check_prefixes(table: &ConfigSection<'_>, id: &ProviderId, trusted: &[TrustedIssuer]) {
    let own = id.qualify("");
    let prefixes = trusted.iter().flat_map(|issuer| {
        let accounts = &issuer.accounts;
        [&accounts.subject_prefix, &accounts.group_prefix]
    });
    // Without a prefix, groups with names of this provider are refused one by one.
    let mut prefixes = prefixes.filter(|prefix| !prefix.is_empty());
    let is_similar = |prefix: &str| overlap(&prefix.to_ascii_lowercase(), &own);
    if let Some(other) = prefixes.find(|prefix| is_similar(prefix)) {
        let what = format!(
            "{own:?} and the prefix {other:?} of a trusted issuer begin alike, so accounts could \
             share a name"
        );
        table.wrong("id", what, None);
    }
}

fn id(table: &ConfigSection<'_>) -> Option<ProviderId> {
    table.required("id", |text| {
        ProviderId::new(text).ok_or_else(|| {
            format!(
                "{text:?} is no id: lower-case letters, digits and hyphens, at most 32, and not \
                 default, service or system"
            )
        })
    })
}

fn provider(
    table: &ConfigSection<'_>,
    values: &IdentityValues<'_>,
    folder: &Path,
) -> Option<OidcSettings> {
    let id = id(table);
    let name = name(table);
    let issuer = table.required("issuer", issuer);
    let client_id = client_id(table);
    let client_secret = match values.secrets {
        ClientSecrets::Read => client_secret(table, folder),
        ClientSecrets::Skipped => None,
    };
    let scopes = scopes(table);
    let groups_claim = groups_claim(table);
    let claims = claims(table);
    let trusts_emails = table.switch("emails").unwrap_or(false);
    let sign_out_at_provider = table.switch("sign_out_at_provider").unwrap_or(true);
    let ca = ca_file(table, "ca", folder);
    Some(OidcSettings {
        issuer: issuer?,
        accounts: AccountMapping::of_further(id?, trusts_emails),
        name: Some(name?),
        client_id: client_id?,
        client_secret,
        scopes,
        groups_claim,
        claims: claims?,
        directory: None,
        admin_groups: values.admin_groups.to_vec(),
        // Its tokens are no bearer tokens here.
        audiences: Vec::new(),
        sign_out_at_provider,
        ca,
        providers: Vec::new(),
        trusted_issuers: Vec::new(),
        introspection: IntrospectionSettings::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    const IDENTITY: &str = "[identity]\nissuer = \"https://id.test\"\nclient_id = \"ludgate\"\n";
    const CORP: &str = "[[identity.providers]]\nid = \"corp\"\nname = \"Corp\"\n\
                        issuer = \"https://corp.test\"\nclient_id = \"hub\"\n";
    const CI: &str = "[[identity.trusted_issuers]]\nissuer = \"https://ci.test\"\n\
                      audiences = [\"ludgate\"]\nsubject_prefix = \"ci:\"\n";

    fn read(tables: &str) -> Result<OidcSettings, String> {
        let text = format!("{IDENTITY}{tables}");
        let read = settings::parse(&text, Path::new("."), std::iter::empty());
        let settings = read.map_err(|errors| errors.to_string())?;
        Ok(settings.identity.expect("a provider"))
    }

    #[test]
    fn a_further_provider_has_names_of_its_own_and_no_trusted_addresses_unless_written() {
        let alone = read("name = \"Example\"\n").expect("one");
        assert!(alone.providers.is_empty());
        assert_eq!(alone.name.as_deref(), Some("Example"));
        let identity = read(&format!("admin_groups = [\"corp:admins\"]\n{CORP}{CI}"));
        let identity = identity.expect("two");
        assert_eq!((identity.accounts.provider(), identity.name), (None, None));
        let corp = &identity.providers[0];
        let id = ProviderId::new("corp").expect("an id");
        assert_eq!(corp.accounts.provider(), Some(&id));
        assert_eq!(corp.name.as_deref(), Some("Corp"));
        assert_eq!((&*corp.client_id, &*corp.groups_claim), ("hub", "groups"));
        assert_eq!(corp.scopes, ["openid", "profile", "email"]);
        assert_eq!(corp.admin_groups, identity.admin_groups);
        assert!(corp.claims.is_empty() && corp.client_secret.is_none());
        let more = "client_secret = \"s\"\nscopes = [\"groups\"]\ngroups_claim = \"/r/g\"\n\
                    claims = [\"/d\"]\nemails = true\nsign_out_at_provider = false\n";
        let identity = read(&format!("{CORP}{more}")).expect("two");
        let corp = &identity.providers[0];
        assert_eq!(corp.scopes, ["openid", "groups"]);
        assert!(corp.client_secret.is_some() && !corp.sign_out_at_provider);
        assert_eq!((corp.claims.len(), &*corp.groups_claim), (1, "/r/g"));
    }

    #[test]
    fn what_would_mix_accounts_is_refused() {
        let id = |id: &str| CORP.replace("\"corp\"", &format!("{id:?}"));
        let second = |id: &str, issuer: &str| {
            let second = CORP.replace("\"corp\"", &format!("{id:?}"));
            format!("{CORP}{}", second.replace("https://corp.test", issuer))
        };
        let trusting = |prefix: &str| CI.replace("\"ci:\"", &format!("{prefix:?}"));
        for (tables, wanted) in [
            (id(""), "is no id"),
            (id("Corp"), "is no id"),
            (id("a:b"), "is no id"),
            (id("default"), "is no id"),
            (id("service"), "is no id"),
            (id("system"), "is no id"),
            (second("corp", "https://x.test"), "is given twice"),
            (second("x", "https://corp.test"), "is given twice"),
            (second("x", "https://id.test"), "is given twice"),
            (
                CORP.replace("https://corp.test", "https://ci.test") + CI,
                "is given twice",
            ),
            (CORP.replace("https://corp", "http://corp"), "must be https"),
            (CORP.to_owned() + &trusting("corp:"), "begin alike"),
            (CORP.to_owned() + &trusting("Corp:"), "begin alike"),
            (CORP.to_owned() + &trusting("c"), "begin alike"),
            (CORP.to_owned() + &trusting("corp:x"), "begin alike"),
            (
                format!("{CORP}{CI}groups_claim = \"g\"\ngroup_prefix = \"corp:\"\n"),
                "begin alike",
            ),
            (CORP.replace("\"Corp\"", "\" \""), "must not be empty"),
            (CORP.replace("\"hub\"", "\"\""), "must not be empty"),
            (
                CORP.replace("name", "title"),
                "identity.providers[0].name: is required",
            ),
            (
                format!("{CORP}client_secret_file = \"none\"\n"),
                "cannot be read",
            ),
            (
                format!("{CORP}group_claim = \"x\"\n"),
                "did you mean groups_claim?",
            ),
            (
                "providers = \"https://corp.test\"\n".to_owned(),
                "expected [[identity.providers]] tables",
            ),
        ] {
            let errors = read(&tables).expect_err(&tables);
            assert!(errors.contains(wanted), "{tables}: {errors}");
        }
        // Their groups are those of the default provider, and are checked one by one.
        let without = "groups_claim = \"g\"\ngroup_prefix = \"\"\n";
        assert!(read(&format!("{CORP}{CI}{without}")).is_ok());
    }
}
