//! The configuration: what was written (`file`), what can be written (`keys`), what it means
//! (`resolve` and its neighbours), and how it is explained (`reference`).
//!
//! Every mistake is collected and shown at once, with key path, line and a suggestion. Each room
//! defines its own small settings; only this room knows where they come from.

pub mod file;
pub mod keys;
pub mod reference;
pub mod resolve;
pub mod resolve_apps;
pub mod resolve_hosts;
pub mod resolve_kubernetes;
pub mod resolve_listen;
pub mod resolve_session;
pub mod resolve_upstream_tls;
pub mod units;
pub mod values;

use std::{fmt, num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use crate::{
    forward,
    identity::oidc,
    integrations::arvados,
    listener,
    model::{
        app::AppSpec,
        site::{Site, WebOrigin},
    },
    ops::{self, logging},
    peer,
    session::{self, keys::KeyRing},
};

/// Everything the gateway needs, resolved.
#[derive(Debug)]
pub struct Settings {
    /// Where people connect.
    pub listen: listener::ListenerSettings,
    /// Where else.
    pub more_listeners: Vec<listener::ListenerSettings>,
    /// Whose forwarded headers are believed.
    pub peers: peer::PeerSettings,
    /// Where operators connect.
    pub admin: ops::admin::AdminSettings,
    /// The public origin and its paths.
    pub site: Arc<Site>,
    /// The identity provider; `None`: public apps only.
    pub identity: Option<oidc::OidcSettings>,
    /// How long sessions last.
    pub session: session::SessionSettings,
    /// Keys for what browsers carry.
    pub keys: Arc<KeyRing>,
    /// Deadlines towards apps.
    pub forward: forward::ForwardSettings,
    /// How long a process that is told to stop still takes connections.
    pub stop_grace: Duration,
    /// Sign-ins that one client may begin or complete at once.
    pub sign_ins: NonZeroU32,
    /// What is logged.
    pub log: logging::LogSettings,
    /// The static catalogue.
    pub apps: Vec<AppSpec>,
    /// The Arvados cluster whose containers are apps.
    pub arvados: Option<arvados::ArvadosSettings>,
    /// The Kubernetes cluster whose PhApplications are apps.
    pub kubernetes: Option<resolve_kubernetes::Kubernetes>,
    /// What is allowed and yet worse than it could be; said at the start and by `config check`.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Adds what only the demo has: a welcome on the launcher, and the other loopback name sent on
    /// to the site.
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

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where, such as `apps[2].access`.
    pub key: String,
    /// The line in the file, from 1; `None` for something that is missing or comes from the
    /// environment.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub suggestion: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}: {}", self.key, self.what)?,
            None => write!(f, "{}: {}", self.key, self.what)?,
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "\n    {suggestion}"),
            None => Ok(()),
        }
    }
}

/// A configuration that cannot be used, with everything that is wrong with it.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "{mistake}")?;
        }
        let plural = if self.0.len() == 1 {
            "mistake"
        } else {
            "mistakes"
        };
        write!(f, "{} {plural}", self.0.len())
    }
}

/// Reads a configuration file and the environment.
///
/// # Errors
/// All mistakes at once; an unreadable file is one.
pub fn load(path: &Path) -> Result<Settings, Mistakes> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let what = format!("cannot be read: {error}");
        Mistakes(vec![Mistake {
            key: path.display().to_string(),
            line: None,
            what,
            suggestion: None,
        }])
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&text, folder, std::env::vars())
}

/// Reads a configuration text; files named in it are relative to `folder`, variables named
/// `LUDGATE_<SECTION>__<KEY>` override scalars.
///
/// # Errors
/// All mistakes at once.
pub fn parse(
    text: &str,
    folder: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Settings, Mistakes> {
    file::File::read(text, environment, |file| resolve::resolve(file, folder))
}
