//! `[labs.gateway]`: the labs that the gateway serves, and where.

use super::{
    file::ConfigFile,
    resolve_assertion_keys,
    resolve_site::{apps_prefix, check_overlap, own_paths, path},
    section::ConfigSection,
    values::isolation,
};
use crate::{
    catalog::from_kubernetes::labs::LabSource,
    model::{access::UsernameClaim, app::Isolation, dns, path_prefix::below},
};

/// Default path of labs: that of a hub whose `base_url` is `/nb`.
const PREFIX: &str = "/nb/user";
/// Default prefix of namespaces, as that of `lab.namespacePrefix`.
const NAMESPACE_PREFIX: &str = "nublado";

/// The labs that are served.
#[derive(Clone, Debug)]
pub struct ServedLabs {
    /// Their path, without a slash at the end.
    pub prefix: String,
    /// How they are found, and whose they are.
    pub source: LabSource,
}

/// Reads the table. `None` only together with an error.
pub(super) fn served_labs(file: &ConfigFile<'_>) -> Option<Option<ServedLabs>> {
    let labs = file.section("labs");
    if !labs.has("gateway") {
        return Some(None);
    }
    for needed in ["kubernetes", "identity"] {
        if !file.has(needed) {
            labs.wrong("gateway", format!("needs [{needed}]"), None);
        }
    }
    if isolation(&file.section("kubernetes")) == Isolation::Host {
        let what = "cannot be combined with kubernetes.isolation = \"host\": labs are on paths of \
                    the site";
        labs.wrong("gateway", what, None);
    }
    let username = username_claim(&labs);
    let served = labs.inner("gateway", "labs.gateway", |gateway| {
        let prefix = prefix(file, &gateway);
        let namespace_prefix = namespace_prefix(&gateway);
        let assertion = resolve_assertion_keys::is_on(file, &gateway);
        Some(ServedLabs {
            prefix: prefix?,
            source: LabSource {
                namespace_prefix: namespace_prefix?,
                username: username?,
                assertion,
            },
        })
    });
    served.flatten().map(Some)
}

/// The path may lie below that of apps: the hub is one of them. `None` only together with an error.
fn prefix(file: &ConfigFile<'_>, gateway: &ConfigSection<'_>) -> Option<String> {
    let prefix = path(gateway, "prefix", PREFIX)?;
    if below(&apps_prefix(file), &prefix).is_some() {
        gateway.wrong("prefix", "must not hold site.apps_prefix", None);
    }
    let viewers = file
        .section("kubernetes")
        .inner("viewers", "kubernetes.viewers", |viewers| {
            viewers.text("prefix")
        })
        .map(|written| written.unwrap_or_else(|| "/pvcviewers".to_owned()))
        .map(|viewers| ("kubernetes.viewers.prefix", viewers));
    check_overlap(gateway, &prefix, own_paths(file).into_iter().chain(viewers));
    Some(prefix)
}

/// `None` only together with an error.
fn namespace_prefix(gateway: &ConfigSection<'_>) -> Option<String> {
    let prefix = gateway.text("namespace_prefix");
    let prefix = prefix.unwrap_or_else(|| NAMESPACE_PREFIX.to_owned());
    if !dns::is_label(prefix.as_bytes(), dns::MAX_LABEL) {
        let what = format!("{prefix:?} is no prefix of namespaces");
        gateway.wrong("namespace_prefix", what, None);
        return None;
    }
    Some(prefix)
}

/// The claim that labs are named by, if sessions know it. `None` only together with an error.
fn username_claim(labs: &ConfigSection<'_>) -> Option<UsernameClaim> {
    let claims = labs.inner("claims", "labs.claims", |claims| {
        let Some(name) = claims.text("username") else {
            return Some(UsernameClaim::default());
        };
        // A pointer to a claim is the same as its name.
        let claim = UsernameClaim::parse(name.strip_prefix('/').unwrap_or(&name));
        if claim.is_none() {
            let what = "must be preferred_username or sub, since labs.gateway compares it";
            claims.wrong("username", what, None);
        }
        claim
    });
    claims.unwrap_or_else(|| Some(UsernameClaim::default()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{
        model::access::UsernameClaim,
        settings::{self, ConfigErrors, Settings},
    };

    const REQUIRED: &str = "[kubernetes]
namespace = \"hub\"
[identity]
issuer = \"http://127.0.0.1:9700\"
client_id = \"ludgate\"
";

    fn parse(text: &str) -> Result<Settings, ConfigErrors> {
        settings::parse(text, Path::new("."), std::iter::empty())
    }

    fn read(labs: &str) -> Result<Settings, ConfigErrors> {
        parse(&format!("{REQUIRED}[labs]\n{labs}\n"))
    }

    #[test]
    fn labs_have_a_prefix_and_belong_to_a_username() {
        let settings = read("gateway = {}").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(settings.site.labs_prefix.as_deref(), Some("/nb/user"));
        let source = settings
            .kubernetes
            .and_then(|kubernetes| kubernetes.lab_source());
        let source = source.expect("a source");
        assert_eq!(source.namespace_prefix, "nublado");
        assert_eq!(source.username, UsernameClaim::PreferredUsername);

        let more = "gateway = { prefix = \"/apps/nb/user\", namespace_prefix = \"userlabs\" }
claims = { username = \"sub\" }";
        let settings = read(more).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(settings.site.labs_prefix.as_deref(), Some("/apps/nb/user"));
        let source = settings
            .kubernetes
            .and_then(|kubernetes| kubernetes.lab_source());
        let source = source.expect("a source");
        assert_eq!(source.namespace_prefix, "userlabs");
        assert_eq!(source.username, UsernameClaim::Subject);
    }

    #[test]
    fn without_the_table_the_gateway_serves_no_lab() {
        let settings = read("dialect = \"nublado\"").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(settings.site.labs_prefix, None);
        assert!(
            settings
                .kubernetes
                .is_some_and(|it| it.lab_source().is_none())
        );
    }

    #[test]
    fn what_is_wrong_is_named_once_with_its_key() {
        for (labs, key, what) in [
            ("gateway = true", "labs.gateway", "table"),
            (
                "gateway = { prefix = \"nb\" }",
                "labs.gateway.prefix",
                "plain segments",
            ),
            (
                "gateway = { prefix = \"/apps\" }",
                "labs.gateway.prefix",
                "site.apps_prefix",
            ),
            (
                "gateway = { prefix = \"/oauth2/x\" }",
                "labs.gateway.prefix",
                "site.endpoints",
            ),
            (
                "gateway = { prefix = \"/api\" }",
                "labs.gateway.prefix",
                "/api",
            ),
            (
                "gateway = { namespace_prefix = \"A\" }",
                "labs.gateway.namespace_prefix",
                "no prefix",
            ),
            (
                "gateway = { user = \"x\" }",
                "labs.gateway.user",
                "unknown key",
            ),
            (
                "gateway = {}\nclaims = { username = \"email\" }",
                "labs.claims.username",
                "preferred_username or sub",
            ),
            (
                "gateway = {}\nclaims = { user = \"x\" }",
                "labs.claims.user",
                "unknown key",
            ),
        ] {
            let errors = read(labs).expect_err(labs);
            assert_eq!(errors.0.len(), 1, "{labs}: {errors}");
            let error = &errors.0[0];
            assert_eq!(error.key, key, "{labs}");
            assert!(error.what.contains(what), "{labs}: {}", error.what);
        }
    }

    #[test]
    fn labs_need_a_cluster_sign_in_and_a_path() {
        let errors = parse("[labs]\ngateway = {}\n")
            .expect_err("nothing else")
            .to_string();
        for needed in ["needs [kubernetes]", "needs [identity]"] {
            assert!(errors.contains(needed), "{errors}");
        }
        let hosts = REQUIRED.replace("namespace", "isolation = \"host\"\nnamespace");
        let text =
            format!("{hosts}[site]\napps_domain = \"apps.example.net\"\n[labs]\ngateway = {{}}\n");
        let errors = parse(&text).expect_err("paths").to_string();
        assert!(
            errors.contains("labs.gateway: cannot be combined"),
            "{errors}"
        );
        let viewers = REQUIRED.replace("namespace", "viewers = { prefix = \"/nb\" }\nnamespace");
        let errors = parse(&format!("{viewers}[labs]\ngateway = {{}}\n")).expect_err("a prefix");
        assert!(
            errors.to_string().contains("kubernetes.viewers.prefix"),
            "{errors}"
        );
    }
}
