//! The ids of apps. Each kind of app has a grammar that no other kind shares.

use std::{borrow::Borrow, fmt, sync::Arc};

use aws_lc_rs::digest;

use crate::{dns, hex, uuid::Uuid};

/// The id of an app: `[a-z0-9]([a-z0-9-]{0,57}[a-z0-9])?`, so that a Service `app-<id>` is a DNS
/// label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(Arc<str>);

impl AppId {
    /// `None` when the text does not follow the grammar.
    pub fn new(text: &str) -> Option<AppId> {
        is_app_id(text.as_bytes()).then(|| AppId(text.into()))
    }

    /// The id of one published port. No app id holds a colon, so it cannot collide with one.
    pub fn with_port(&self, port: u16) -> AppId {
        AppId(format!("{}:{port}", self.0).into())
    }

    /// The id of one port of a container.
    pub fn for_container(container: &Uuid, port: u16) -> AppId {
        AppId(format!("{container}:{port}").into())
    }

    /// The id of a viewer of volumes: `<namespace>/<name>`. Other ids with a slash begin with the
    /// slash, or with `hub:`. `None` when one of the names cannot be that of a viewer.
    pub fn for_viewer(namespace: &str, name: &str) -> Option<AppId> {
        is_viewer_id(namespace.as_bytes(), name.as_bytes())
            .then(|| AppId(format!("{namespace}/{name}").into()))
    }

    /// Whether it is the id of a viewer.
    pub fn is_viewer(&self) -> bool {
        self.0.contains('/') && !self.is_installation() && self.hub_route_path().is_none()
    }

    /// The id of an app that was installed from a chart: `/<namespace>/<name>`. No other id begins
    /// with a slash. `None` when one of the names is none of a published installation.
    pub fn for_installation(namespace: &str, name: &str) -> Option<AppId> {
        is_installation_id(namespace.as_bytes(), name.as_bytes())
            .then(|| AppId(format!("/{namespace}/{name}").into()))
    }

    /// Whether it is the id of an app that was installed from a chart.
    pub fn is_installation(&self) -> bool {
        self.0.starts_with('/')
    }

    /// The id of a person's lab: `lab:<username>`. Ids of ports have digits only after the colon,
    /// and a username has a letter. `None` when the text is no username of a lab.
    pub fn for_lab(username: &str) -> Option<AppId> {
        is_lab_username(username.as_bytes()).then(|| AppId(format!("{LAB}{username}").into()))
    }

    /// Whose lab it is, if it is one.
    pub fn lab_username(&self) -> Option<&str> {
        let username = self.0.strip_prefix(LAB)?;
        is_lab_username(username.as_bytes()).then_some(username)
    }

    /// The id of a route that a hub added: `hub:` and its path, which begins with a slash. A path
    /// that is too long for a record is replaced by its hash.
    pub fn for_hub_route(path: &str) -> AppId {
        if HUB_ROUTE.len() + path.len() <= MAX_RECORD {
            return AppId(format!("{HUB_ROUTE}{path}").into());
        }
        let hash = digest::digest(&digest::SHA256, path.as_bytes());
        AppId(format!("{HUB_ROUTE}#{}", hex::encode(hash.as_ref())).into())
    }

    /// The path of a hub's route, if it is one and the path fits into an id.
    pub fn hub_route_path(&self) -> Option<&str> {
        let path = self.0.strip_prefix(HUB_ROUTE)?;
        path.starts_with('/').then_some(path)
    }

    /// An id from a record that Ludgate wrote; `None` unless it has 1 to 128 bytes.
    pub fn from_record(text: &str) -> Option<AppId> {
        (1..=MAX_RECORD)
            .contains(&text.len())
            .then(|| AppId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Longest id in a record, in bytes.
const MAX_RECORD: usize = 128;
/// Begins the id of a hub's route. The ids of ports of an app with the id `hub` go on with a digit.
const HUB_ROUTE: &str = "hub:";

/// Longest app id, in bytes: `app-<id>` must be a DNS label.
const MAX_ID: usize = dns::MAX_LABEL - "app-".len();

/// Whether the bytes are an app id. Does not allocate.
pub fn is_app_id(bytes: &[u8]) -> bool {
    dns::is_label(bytes, MAX_ID)
}

/// Longest name of a viewer, in bytes: `pvcviewer-<name>` must be a DNS label.
const MAX_VIEWER: usize = dns::MAX_LABEL - "pvcviewer-".len();

/// Whether the bytes are the namespace and the name of a viewer. Does not allocate.
pub fn is_viewer_id(namespace: &[u8], name: &[u8]) -> bool {
    dns::is_label(namespace, dns::MAX_LABEL) && dns::is_label(name, MAX_VIEWER)
}

/// Whether the bytes are the namespace and the name of a published installation: two labels. Does
/// not allocate.
pub fn is_installation_id(namespace: &[u8], name: &[u8]) -> bool {
    dns::is_label(namespace, dns::MAX_LABEL) && dns::is_label(name, dns::MAX_LABEL)
}

/// Begins the id of a lab.
const LAB: &str = "lab:";

/// Whether the bytes are a username that a lab can have: a DNS label with a letter. Does not
/// allocate.
pub fn is_lab_username(bytes: &[u8]) -> bool {
    dns::is_label(bytes, dns::MAX_LABEL) && bytes.iter().any(u8::is_ascii_lowercase)
}

impl Borrow<str> for AppId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
