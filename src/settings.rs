//! The configuration: the written file (`document`, `section`, `file`), the known keys (`keys`),
//! the resolved settings (`resolve` and its neighbours), and the generated reference (`reference`).
//!
//! All errors are collected and shown at once, with key path, line and a suggestion. Each room
//! defines its own small settings; only this room knows their source.

mod document;
mod error;
mod file;
pub mod keys;
pub mod reference;
mod resolve;
mod resolve_access;
mod resolve_api;
mod resolve_app_headers;
mod resolve_app_session;
mod resolve_apps;
mod resolve_arvados;
mod resolve_assertion_keys;
mod resolve_authentication;
mod resolve_bearer;
mod resolve_client;
mod resolve_controller;
mod resolve_datasets;
mod resolve_frames;
mod resolve_groups;
mod resolve_hosts;
mod resolve_hub_proxy;
mod resolve_identity;
mod resolve_idle;
mod resolve_installations;
pub(crate) mod resolve_kubernetes;
mod resolve_lab_callers;
mod resolve_labs;
mod resolve_listen;
mod resolve_pods;
mod resolve_process;
mod resolve_providers;
mod resolve_served_installs;
mod resolve_served_labs;
mod resolve_service_tokens;
mod resolve_session;
mod resolve_site;
mod resolve_store;
mod resolve_trusted_issuers;
mod resolve_upstream_tls;
mod resolve_upstreams;
mod resolve_viewers;
mod resolved;
mod section;
mod units;
pub mod values;

use std::path::Path;

pub use error::{ConfigError, ConfigErrors};
pub use resolve_api::{ApiService, ApiSettings};
pub use resolve_controller::{ControllerSettings, WebhookSettings};
pub use resolve_labs::{LabStoreSettings, LabsSettings};
pub use resolved::Settings;
pub use units::duration as parse_duration;

/// Reads a configuration file and the environment, for a gateway.
///
/// # Errors
/// All mistakes at once; an unreadable file is one.
pub fn load(path: &Path) -> Result<Settings, ConfigErrors> {
    let text = read_file(path)?;
    parse(&text, folder_of(path), std::env::vars())
}

/// Reads a configuration file and the environment, for `ludgate controller`.
///
/// # Errors
/// All mistakes at once; an unreadable file is one.
pub fn load_controller(path: &Path) -> Result<ControllerSettings, ConfigErrors> {
    let text = read_file(path)?;
    let folder = folder_of(path);
    file::ConfigFile::read(&text, std::env::vars(), |file| {
        resolve_controller::controller(file, folder)
    })
}

/// Reads a configuration file and the environment, for `ludgate api`.
///
/// # Errors
/// All mistakes at once; an unreadable file is one.
pub fn load_api(path: &Path) -> Result<ApiSettings, ConfigErrors> {
    let text = read_file(path)?;
    let folder = folder_of(path);
    file::ConfigFile::read(&text, std::env::vars(), |file| {
        resolve_api::api(file, folder)
    })
}

/// Reads a configuration file and the environment, for `ludgate labs`.
///
/// # Errors
/// All mistakes at once; an unreadable file is one.
pub fn load_labs(path: &Path) -> Result<LabsSettings, ConfigErrors> {
    let text = read_file(path)?;
    let folder = folder_of(path);
    file::ConfigFile::read(&text, std::env::vars(), |file| {
        resolve_labs::labs(file, folder)
    })
}

/// Reads a configuration text; files named in it are relative to `folder`, variables named
/// `LUDGATE_<SECTION>__<KEY>` override scalars. The tables of other processes are checked too.
///
/// # Errors
/// All mistakes at once.
pub fn parse(
    text: &str,
    folder: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Settings, ConfigErrors> {
    file::ConfigFile::read(text, environment, |file| {
        if file.has("controller") {
            resolve_controller::applications(file);
            resolve_viewers::viewers(file, folder);
            resolve_installations::installations(file, folder, None);
        }
        if file.has("labs") {
            resolve_labs::check(file);
        }
        resolve::resolve(file, folder)
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    std::fs::read_to_string(path).map_err(|error| {
        ConfigErrors(vec![ConfigError {
            key: "the file".into(),
            line: None,
            what: format!("cannot be read: {error}"),
            suggestion: None,
        }])
    })
}
