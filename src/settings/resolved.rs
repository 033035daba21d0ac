//! The settings of a gateway, resolved into the types of each room.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use super::{resolve_api::ApiService, resolve_kubernetes::KubernetesSettings};
use crate::{
    forward,
    hub_proxy::HubProxySettings,
    identity::{assertion::AssertionKeys, oidc, service_tokens::ServiceTokenSettings},
    integrations::arvados,
    listener,
    model::{
        app::AppSpec,
        site::{Site, WebOrigin},
    },
    ops::{self, logging, metrics::AppLabels},
    peer,
    session::{self, keys::KeyRing},
};

/// All settings of a gateway.
#[derive(Debug)]
pub struct Settings {
    /// The first public listener.
    pub listen: listener::ListenerSettings,
    /// Further public listeners.
    pub more_listeners: Vec<listener::ListenerSettings>,
    /// Proxies in front of the first listener whose forwarded headers are trusted.
    pub peers: peer::PeerSettings,
    /// The admin listener.
    pub admin: ops::admin::AdminSettings,
    /// The public origin and its paths.
    pub site: Arc<Site>,
    /// The identity provider; `None`: public apps only.
    pub identity: Option<oidc::OidcSettings>,
    /// Lifetimes and store of sessions.
    pub session: session::SessionSettings,
    /// Where service tokens are; `None`: there are none.
    pub service_tokens: Option<ServiceTokenSettings>,
    /// Keys that seal cookies and tickets.
    pub keys: Arc<KeyRing>,
    /// Keys that sign identities for apps.
    pub assertion_keys: Option<Arc<AssertionKeys>>,
    /// Deadlines and limits towards apps.
    pub forward: forward::ForwardSettings,
    /// New connections are accepted for this long after SIGTERM.
    pub stop_grace: Duration,
    /// Burst of sign-ins per client.
    pub sign_ins: NonZeroU32,
    /// Anonymous requests count as uses of an idle app at most once in this time; `None`: never.
    pub anonymous_use_interval: Option<Duration>,
    /// Log level, and whether requests are logged.
    pub log: logging::LogSettings,
    /// Whether metrics of upstreams name their apps.
    pub app_labels: AppLabels,
    /// The apps of the configuration file.
    pub apps: Vec<AppSpec>,
    /// The Arvados cluster whose containers are apps.
    pub arvados: Option<arvados::ArvadosSettings>,
    /// The KubernetesSettings cluster whose PhApplications are apps.
    pub kubernetes: Option<KubernetesSettings>,
    /// The API, if this process serves it.
    pub api: Option<ApiService>,
    /// The routes of a JupyterHub, if one may add them.
    pub hub_proxy: Option<HubProxySettings>,
    /// Warnings about valid but unsafe settings; shown at start-up and by `config check`.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Adds the demo's welcome to the launcher, and redirects the other loopback name to the site.
    pub fn demo_site(&mut self, welcome: &str) {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.welcome = Some(welcome.into());
            let other = if &*site.origin.host == "localhost" {
                "127.0.0.1"
            } else {
                "localhost"
            };
            site.alias = Some(WebOrigin::new(site.origin.secure, other, site.origin.port));
        }
    }
}
