//! `[hub_proxy]`: the routes that a JupyterHub adds, and the listener of its API.

use std::{net::SocketAddr, path::Path, time::Duration};

use super::{
    file::ConfigFile,
    resolve_access::{access, check_rule},
    resolve_listen::{Listeners, address},
    resolve_site::{check_overlap, own_paths, path},
    section::ConfigSection,
    values::secret_file,
};
use crate::{
    catalog::hub_routes::HubRouteSettings,
    hub_proxy::HubProxySettings,
    identity::oidc::OidcSettings,
    model::{secret::Secret, site::Site},
};

/// Default address of the API, that of configurable-http-proxy.
const ADDRESS: &str = "127.0.0.1:8001";
/// Default prefix of routes.
const PREFIX: &str = "/nb";
/// Shortest token, in bytes.
const MIN_TOKEN: usize = 16;

/// What other tables say.
#[derive(Clone, Copy)]
pub(super) struct OtherTables<'s> {
    pub(super) site: Option<&'s Site>,
    pub(super) identity: Option<&'s OidcSettings>,
    pub(super) listeners: Option<&'s Listeners>,
    /// The admin listener.
    pub(super) admin: Option<SocketAddr>,
    /// Deadline for response heads of apps that set none.
    pub(super) response_head: Duration,
}

/// Reads the table. `Some(None)`: there is none. `None` only together with an error.
pub(super) fn hub_proxy(
    file: &ConfigFile<'_>,
    folder: &Path,
    others: OtherTables<'_>,
) -> Option<Option<HubProxySettings>> {
    if !file.has("hub_proxy") {
        return Some(None);
    }
    let section = file.section("hub_proxy");
    let address = address(&section, ADDRESS);
    let is_taken = address.is_some_and(|it| it.port() != 0 && Some(it) == others.admin);
    if is_taken {
        section.wrong("address", "is that of [admin]", None);
    }
    let mut listeners = others.listeners.into_iter().flat_map(Listeners::all);
    if listeners.any(|listen| listen.takeover) {
        let what =
            "cannot be combined with listen.takeover: the hub adds its routes to one process";
        section.wrong("address", what, None);
    }
    let token = token(&section, folder);
    let prefix = prefix(file, &section, others.site);
    let access = access(&section);
    if let (Some(identity), Some(access)) = (others.identity, &access) {
        check_rule(file, identity, "[hub_proxy]", access);
    }
    let address = address?;
    Some(Some(HubProxySettings {
        address,
        token: token?,
        routes: HubRouteSettings {
            prefix: prefix?.into(),
            access: access?,
            timeout: others.response_head,
            own: others.admin.into_iter().chain([address]).collect(),
        },
    }))
}

/// `None` only together with an error.
fn token(section: &ConfigSection<'_>, folder: &Path) -> Option<Secret> {
    if !section.has("token_file") && section.text("token_file").is_none() {
        section.missing("token_file");
        return None;
    }
    let token = secret_file(section, "token_file", folder)?;
    if token.expose().len() < MIN_TOKEN {
        let what = format!("holds a token of less than {MIN_TOKEN} bytes");
        let example = Some("for example openssl rand -hex 32".to_owned());
        section.wrong("token_file", what, example);
        return None;
    }
    Some(token)
}

/// `None` only together with an error.
fn prefix(
    file: &ConfigFile<'_>,
    section: &ConfigSection<'_>,
    site: Option<&Site>,
) -> Option<String> {
    let prefix = path(section, "prefix", PREFIX)?;
    let of_apps = site.into_iter().flat_map(|site| {
        [
            ("site.apps_prefix", Some(&*site.apps_prefix)),
            ("kubernetes.viewers.prefix", site.viewers_prefix.as_deref()),
            (
                "kubernetes.installations.prefix",
                site.installs_prefix.as_deref(),
            ),
            ("labs.gateway.prefix", site.labs_prefix.as_deref()),
        ]
    });
    let of_apps = of_apps.filter_map(|(name, prefix)| Some((name, prefix?.to_owned())));
    check_overlap(section, &prefix, own_paths(file).into_iter().chain(of_apps));
    Some(prefix)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use crate::settings::{self, ConfigErrors, Settings};

    /// A folder with tokens.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        fs::write(path.join("token"), "0123456789abcdef\n").expect("written");
        fs::write(path.join("short"), "0123456789abcde").expect("written");
        (folder, path)
    }

    fn parse(text: &str) -> Result<Settings, ConfigErrors> {
        let (_folder, path) = folder();
        settings::parse(text, &path, std::iter::empty())
    }

    #[test]
    fn the_token_and_the_access_rule_are_required() {
        let text = "[hub_proxy]\ntoken_file = \"token\"\naccess = \"public\"\n";
        let settings = parse(text).unwrap_or_else(|errors| panic!("{errors}"));
        let hub = settings.hub_proxy.expect("a hub");
        assert_eq!(hub.address.to_string(), "127.0.0.1:8001");
        assert_eq!(&*hub.routes.prefix, "/nb");
        assert_eq!(hub.routes.access.to_string(), "public");
        assert_eq!(hub.routes.own, [settings.admin.address, hub.address]);
        assert!(!format!("{:?}", hub.token).contains("0123"));
        assert!(parse("").is_ok_and(|settings| settings.hub_proxy.is_none()));
        let errors = parse("[hub_proxy]\n").expect_err("nothing").to_string();
        for needed in ["hub_proxy.token_file", "hub_proxy.access"] {
            assert!(errors.contains(needed), "{errors}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_once_with_its_key() {
        let valid = "token_file = \"token\"\naccess = \"public\"\n";
        let no_token = "access = \"public\"\n";
        for (start, keys, key, what) in [
            (valid, "prefix = \"nb\"", "hub_proxy.prefix", "segments"),
            (valid, "prefix = \"/\"", "hub_proxy.prefix", "segments"),
            (
                valid,
                "prefix = \"/apps/nb\"",
                "hub_proxy.prefix",
                "site.apps_prefix",
            ),
            (
                valid,
                "prefix = \"/oauth2\"",
                "hub_proxy.prefix",
                "site.endpoints",
            ),
            (valid, "prefix = \"/api\"", "hub_proxy.prefix", "/api"),
            (
                valid,
                "address = \"8001\"",
                "hub_proxy.address",
                "address and port",
            ),
            (
                valid,
                "address = \"127.0.0.1:9090\"",
                "hub_proxy.address",
                "[admin]",
            ),
            (valid, "user = \"x\"", "hub_proxy.user", "unknown key"),
            (
                no_token,
                "token_file = \"none\"",
                "hub_proxy.token_file",
                "cannot be read",
            ),
            (
                no_token,
                "token_file = \"short\"",
                "hub_proxy.token_file",
                "16 bytes",
            ),
            (
                "token_file = \"token\"\n",
                "access = \"group\"",
                "hub_proxy.access",
                "",
            ),
        ] {
            let text = format!("[hub_proxy]\n{start}{keys}\n");
            let errors = parse(&text).expect_err(&text);
            assert_eq!(errors.0.len(), 1, "{text}: {errors}");
            let error = &errors.0[0];
            assert_eq!(error.key, key, "{text}");
            assert!(error.what.contains(what), "{text}: {}", error.what);
        }
    }

    #[test]
    fn two_processes_cannot_share_the_port() {
        let text = "[listen]\ntakeover = true\n[hub_proxy]\ntoken_file = \"token\"\n\
                    access = \"public\"\n";
        let errors = parse(text).expect_err("a takeover").to_string();
        assert!(errors.contains("listen.takeover"), "{errors}");
    }
}
