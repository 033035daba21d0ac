//! `[labs]`: the settings of `ludgate labs`.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, sync::Arc};

use serde_json::{Value, json};

use super::{
    file::ConfigFile,
    resolve_identity, resolve_kubernetes,
    resolve_lab_callers::callers,
    resolve_listen::address,
    resolve_pods::proxy_labels,
    resolve_process, resolve_session, resolve_site, resolve_store,
    section::ConfigSection,
    values::{LABS_ADDRESS, ca_file, labels, origin},
};
use crate::{
    cluster::ClusterSettings,
    forward::ForwardSettings,
    identity::oidc::OidcSettings,
    labs::{
        config::{ContainerImage, LabsConfig},
        dialect::Dialect,
        service::{callers::CallerSettings, routes::LabsUrls},
    },
    model::site::Site,
    ops::{admin::AdminSettings, logging::LogSettings, redis::RedisSettings},
    session::keys::KeyRing,
};

/// Paths that the service has on its root.
const OWN_PATHS: [&str; 2] = ["/discovery", "/openapi.json"];

/// The gateway of the chart.
const PROXY: &str = "app.kubernetes.io/name=ludgate";
/// The label of each namespace with its name.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// All settings of `ludgate labs`.
#[derive(Debug)]
pub struct LabsSettings {
    /// The address of its listener.
    pub address: SocketAddr,
    /// The labs, images and sizes.
    pub labs: Arc<LabsConfig>,
    /// The form of the API, of names and of events.
    pub dialect: Dialect,
    /// Where people and hubs reach the service.
    pub urls: LabsUrls,
    /// Name of the Lease that elects one of several replicas.
    pub lease: String,
    /// Where replicas share operations; `None`: the elected one has all of them.
    pub store: Option<LabStoreSettings>,
    /// Calls to the API server at one time.
    pub operations: usize,
    /// Peers of NetworkPolicies that connect to labs besides the hub: the pods of the gateway.
    pub peers: Vec<Value>,
    /// Image of the containers that prepare homes; `None`: there are no such containers.
    pub helper_image: Option<ContainerImage>,
    /// Who calls.
    pub callers: CallerSettings,
    /// PEM content of the CA behind URLs of identities; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
    /// The cluster. Its first namespace is that of the service.
    pub cluster: ClusterSettings,
    /// The identity provider; `None`: bearer tokens are refused.
    pub identity: Option<OidcSettings>,
    /// The public origin and its paths.
    pub site: Arc<Site>,
    /// The admin listener.
    pub admin: AdminSettings,
    /// The log level.
    pub log: LogSettings,
}

/// Where replicas share operations.
#[derive(Debug)]
pub struct LabStoreSettings {
    /// The Redis.
    pub redis: RedisSettings,
    /// Keys that seal what is stored.
    pub keys: Arc<KeyRing>,
    /// What is unsafe about the address.
    pub warning: Option<String>,
}

/// Resolves the tables of the process. `None` only together with an error.
pub(super) fn labs(file: &ConfigFile<'_>, folder: &Path) -> Option<LabsSettings> {
    let section = file.section("labs");
    let kubernetes = resolve_kubernetes::kubernetes(file, folder);
    if matches!(kubernetes, Some(None)) {
        file.section("kubernetes").missing("namespace");
    }
    let identity = match file.has("identity") {
        true => resolve_identity::without_secret(&file.section("identity"), folder).map(Some),
        false => Some(None),
    };
    let site = resolve_site::site(file, ForwardSettings::default().response_head);
    let labs = yaml(&section, folder);
    let dialect = dialect(&section);
    let urls = site.as_ref().and_then(|site| urls(&section, site));
    let operations = section.number("operations").unwrap_or(50);
    if !(1..=10_000).contains(&operations) {
        section.wrong("operations", "must be between 1 and 10000", None);
    }
    let lease = section.text("lease");
    let store = store(&section, folder);
    let helper_image = section.has("helper_image").then(|| {
        section.required("helper_image", |text| {
            let wrong = || format!("{text:?} is no repository with a tag");
            ContainerImage::parse(text).ok_or_else(wrong)
        })
    });
    let callers = callers(&section, site.as_ref());
    let cluster = kubernetes.flatten().map(|kubernetes| kubernetes.cluster);
    let home = cluster.as_ref().and_then(|it| it.namespaces.first());
    let peers = peers(&section, home.map(String::as_str));
    let ca = ca_file(&section, "ca", folder);
    let address = address(&section, LABS_ADDRESS);
    let admin = resolve_process::admin(&file.section("admin"), folder);
    let log = resolve_process::log(&file.section("log"));
    Some(LabsSettings {
        address: address?,
        labs: Arc::new(labs?),
        dialect: dialect?,
        urls: urls?,
        lease: lease.unwrap_or_else(|| "ludgate-labs".to_owned()),
        store,
        operations: usize::try_from(operations).ok()?,
        peers: peers?,
        helper_image: match helper_image {
            Some(image) => Some(image?),
            None => None,
        },
        callers: callers?,
        ca,
        cluster: cluster?,
        identity: identity?,
        site: Arc::new(site?),
        admin: admin?,
        log,
    })
}

/// Checks the table without its files, for processes that do not have them.
pub(super) fn check(file: &ConfigFile<'_>) {
    let section = file.section("labs");
    dialect(&section);
    callers(&section, None);
}

/// The store of the replicas; `None` also together with an error.
fn store(section: &ConfigSection<'_>, folder: &Path) -> Option<LabStoreSettings> {
    let Some(redis) = resolve_store::store(section, folder) else {
        if section.has("keys_file") && !section.has("store") && !section.has("store_file") {
            section.wrong("keys_file", "means nothing without labs.store", None);
        }
        return None;
    };
    if !section.has("keys_file") {
        let key = match section.has("store") {
            true => "store",
            false => "store_file",
        };
        let what =
            "needs labs.keys_file: every replica must be able to open what another has sealed";
        section.wrong(key, what, None);
    }
    let keys = resolve_session::keys(section, folder)?;
    let warning = resolve_store::warning("labs", &redis, "delete labs");
    Some(LabStoreSettings {
        redis,
        keys: Arc::new(keys),
        warning,
    })
}

/// The pods of the gateway, as peers of a NetworkPolicy. `home` is their namespace, if no other is
/// named. `None` only together with an error.
fn peers(section: &ConfigSection<'_>, home: Option<&str>) -> Option<Vec<Value>> {
    if !section.has("gateway") && !section.has("proxy_pod_labels") {
        return Some(Vec::new());
    }
    let default = labels(PROXY).into_iter().collect();
    let (pods, mut namespaces) = proxy_labels(section, default)?;
    if namespaces.is_empty() {
        let label = |home: &str| BTreeMap::from([(NAMESPACE_LABEL.to_owned(), home.to_owned())]);
        namespaces.extend(home.map(label));
    }
    let peers = pods.iter().flat_map(|pod| {
        namespaces.iter().map(move |namespace| {
            json!({
                "namespaceSelector": { "matchLabels": namespace },
                "podSelector": { "matchLabels": pod },
            })
        })
    });
    Some(peers.collect())
}

/// The YAML file. `None` only together with an error.
fn yaml(section: &ConfigSection<'_>, folder: &Path) -> Option<LabsConfig> {
    let name = section.required("config", |name| Ok(name.to_owned()))?;
    let text = match fs::read_to_string(folder.join(&name)) {
        Ok(text) => text,
        Err(error) => {
            section.wrong("config", format!("{name} cannot be read: {error}"), None);
            return None;
        }
    };
    let config = match LabsConfig::from_yaml(&text) {
        Ok(config) => config,
        Err(errors) => {
            for problem in errors.0 {
                section.wrong("config", format!("{name}: {problem}"), None);
            }
            return None;
        }
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    let prefix = &config.path_prefix;
    let is_own = OWN_PATHS.contains(&prefix.as_str());
    if is_own || prefix.contains("//") || !prefix.bytes().all(allowed) {
        let what = format!("{name}: pathPrefix: {prefix:?} cannot be the path of the API");
        section.wrong("config", what, None);
    }
    Some(config)
}

/// `None` only together with an error.
fn dialect(section: &ConfigSection<'_>) -> Option<Dialect> {
    match section.text("dialect").as_deref() {
        None | Some("sqr-066") => Some(Dialect::Sqr066),
        Some("nublado") => Some(Dialect::Nublado),
        Some(other) => {
            let suggestion = Some("dialect = \"sqr-066\" or dialect = \"nublado\"".to_owned());
            section.wrong("dialect", format!("{other:?} is no dialect"), suggestion);
            None
        }
    }
}

/// `None` only together with an error.
fn urls(section: &ConfigSection<'_>, site: &Site) -> Option<LabsUrls> {
    let base = match section.text("url") {
        Some(text) => {
            let origin = origin(&text).map_err(|what| section.wrong("url", what, None));
            origin.ok()?.to_string()
        }
        None => site.origin.to_string(),
    };
    Some(LabsUrls {
        base,
        sign_out: format!("{}{}", site.origin, site.endpoint("sign_out")),
    })
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;
    use crate::{labs::service::callers::ScopeRule, settings::ConfigErrors};

    const YAML: &str = "lab:
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 1Gi }
        requests: { cpu: 1, memory: 1Gi }
images:
  source: { type: docker, repository: a/b }
";
    const REQUIRED: &str = "[kubernetes]
namespace = \"hub\"
[site]
url = \"https://hub.example.com\"
[labs]
config = \"labs.yaml\"
";

    fn read(yaml: &str, more: &str) -> Result<LabsSettings, ConfigErrors> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("labs.yaml"), yaml).expect("a file");
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).expect("random bytes");
        fs::write(folder.path().join("keys"), STANDARD.encode(key)).expect("a file");
        let text = format!("{REQUIRED}{more}");
        ConfigFile::read(&text, std::iter::empty(), |file| labs(file, folder.path()))
    }

    #[test]
    fn the_defaults_are_the_documents_and_trust_no_proxy() {
        let settings = read(YAML, "").expect("settings");
        assert_eq!(settings.address.to_string(), LABS_ADDRESS);
        assert_eq!(settings.dialect, Dialect::Sqr066);
        assert_eq!(settings.urls.base, "https://hub.example.com");
        let sign_out = "https://hub.example.com/oauth2/sign_out";
        assert_eq!(settings.urls.sign_out, sign_out);
        assert_eq!(
            (&*settings.lease, settings.operations),
            ("ludgate-labs", 50)
        );
        let callers = settings.callers;
        assert!(callers.headers.peers.is_empty() && callers.scopes.hub.is_empty());
        assert_eq!(callers.scopes.notebook, [ScopeRule::User]);
        assert_eq!(callers.scopes.files, [ScopeRule::User]);
        assert!(callers.assertion.is_none() && callers.user_info.is_none());
        assert!(settings.identity.is_none());
    }

    #[test]
    fn callers_are_read_with_their_sources() {
        let more = "dialect = \"nublado\"
url = \"https://labs.example.com\"
trusted_peers = [\"10.0.0.0/8\"]
user_header = \"X-Forwarded-Preferred-Username\"
user_info = \"https://hub.example.com/auth/api/v1/user-info\"
scopes = { notebook = [\"group:science\"], hub = [\"claim:azp=jupyterhub\", \"proxy\"] }
claims = { uid = \"uidNumber\" }
assertion = { jwks = \"https://hub.example.com/.ludgate/jwks.json\" }
helper_image = \"registry.example.com:5000/helper:1.0\"
";
        let settings = read(YAML, more).expect("settings");
        assert_eq!(settings.dialect, Dialect::Nublado);
        assert_eq!(settings.urls.base, "https://labs.example.com");
        let helper = settings.helper_image.expect("an image");
        assert_eq!(helper.repository, "registry.example.com:5000/helper");
        assert_eq!(helper.tag, "1.0");
        let callers = settings.callers;
        assert_eq!(callers.headers.user, "x-forwarded-preferred-username");
        assert_eq!(callers.scopes.files, callers.scopes.notebook);
        assert_eq!(callers.scopes.hub.len(), 2);
        assert!(callers.scopes.admin.is_empty());
        assert_eq!(callers.claims.uid, "uidNumber");
        assert_eq!(callers.claims.gid, "gid");
        let assertion = callers.assertion.expect("an assertion");
        assert_eq!(assertion.issuer.as_str(), "https://hub.example.com");
        assert_eq!(assertion.audience, "labs");
    }

    #[test]
    fn the_pods_of_a_gateway_that_serves_labs_are_let_in_to_them() {
        let peer = |namespace: &str, pod: &str| {
            json!({
                "namespaceSelector": { "matchLabels": { NAMESPACE_LABEL: namespace } },
                "podSelector": { "matchLabels": { "app.kubernetes.io/name": pod } },
            })
        };
        let served = "gateway = {}
[identity]
issuer = \"http://127.0.0.1:9700\"
client_id = \"ludgate\"
";
        let own = "proxy_pod_labels = [\"app.kubernetes.io/name=front\"]
proxy_namespace_labels = [\"kubernetes.io/metadata.name=edge\"]
";
        for (more, wanted) in [
            ("", vec![]),
            (served, vec![peer("hub", "ludgate")]),
            (own, vec![peer("edge", "front")]),
            ("proxy_pod_labels = []", vec![]),
        ] {
            let settings = read(YAML, more).unwrap_or_else(|errors| panic!("{more}: {errors}"));
            assert_eq!(settings.peers, wanted, "{more}");
        }
    }

    #[test]
    fn replicas_share_a_store_with_keys_of_its_own() {
        let settings = read(YAML, "store = \"memory\"").expect("settings");
        assert!(settings.store.is_none());
        let more = "store = \"redis://:CANARY@redis.example.com/3\"\nkeys_file = \"keys\"";
        let settings = read(YAML, more).expect("settings");
        assert!(!format!("{settings:?}").contains("CANARY"));
        let store = settings.store.expect("a store");
        assert_eq!(store.redis.database, 3);
        let warning = store.warning.expect("a warning");
        assert!(
            warning.contains("labs.store redis.example.com"),
            "{warning}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (more, key) in [
            ("dialect = \"sqr\"", "labs.dialect"),
            ("user_info = \"http://hub.example.com/\"", "labs.user_info"),
            ("trusted_peers = [\"0.0.0.0/0\"]", "labs.trusted_peers"),
            ("user_header = \"a b\"", "labs.user_header"),
            ("operations = 0", "labs.operations"),
            ("scopes = { hub = [\"all\"] }", "labs.scopes.hub"),
            ("scopes = { hub = [\"proxy\"] }", "labs.scopes"),
            ("scopes = { hubs = [] }", "labs.scopes.hubs"),
            ("assertion = {}", "labs.assertion.jwks"),
            ("claims = { uid = \"\" }", "labs.claims.uid"),
            ("store = \"redis://h\"", "labs.store"),
            ("store = \"http://h\"", "labs.store"),
            ("store_file = \"absent\"", "labs.store_file"),
            ("store_ca = \"absent\"", "labs.store_ca"),
            ("keys_file = \"keys\"", "labs.keys_file"),
            ("helper_image = \"host:5000/helper\"", "labs.helper_image"),
            ("proxy_pod_labels = [\"a\"]", "labs.proxy_pod_labels"),
        ] {
            let errors = read(YAML, more).expect_err(more);
            assert!(errors.to_string().contains(key), "{more}: {errors}");
        }
    }

    #[test]
    fn problems_of_the_yaml_file_are_problems_of_the_key() {
        let errors = read("lab: {}\n", "").expect_err("problems").to_string();
        assert!(
            errors.contains("labs.config") && errors.contains("images"),
            "{errors}"
        );
        let prefixed = format!("{YAML}pathPrefix: /discovery\n");
        let errors = read(&prefixed, "").expect_err("a problem").to_string();
        assert!(errors.contains("pathPrefix"), "{errors}");
    }
}
