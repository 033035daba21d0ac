//! The configuration, in the YAML form of Nublado's controller.
//!
//! Keys may also be written with underscores. What SQR-066 writes differently is understood too.

mod affinity;
mod containers;
mod decode;
mod egress;
mod files;
mod home;
mod images;
mod lab;
mod scalars;
mod value;
mod volumes;

use std::{fmt, time::Duration};

use ludgate_model::path_prefix::below;

pub use containers::{ContainerImage, InitContainer, PullPolicy};
pub use decode::LabsConfigProblem;
pub use egress::EgressLimits;
pub use files::{FileServers, FilesystemAdmin};
pub use home::HomeLayout;
pub use images::{ImageSource, ImagesConfig};
pub use lab::{EmptyDirMedium, LabConfig, LabSecret, NameServiceFiles};
pub use volumes::{ClaimTemplate, LabVolume, VolumeMount, VolumeSource};

use crate::images::DropdownFilter;
use decode::{Decode, Place, Section, decode_word};
pub(crate) use lab::{DISCOVERY_KEY, TOKEN_KEY, file_key, file_name, render_annotation};
use value::ConfigValue;
use volumes::check_mounts;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct LabsConfig {
    /// URL of the site. Labs get it as `EXTERNAL_INSTANCE_URL`.
    pub base_url: String,
    /// Name of the service, in its metadata.
    pub name: String,
    /// Path below which the API is served.
    pub path_prefix: String,
    /// Whether details are logged.
    pub log_debug: bool,
    /// Labs.
    pub lab: LabConfig,
    /// Their images.
    pub images: ImagesConfig,
    /// Which images the drop-down list of the form shows.
    pub dropdown_menu: DropdownFilter,
    /// File servers of people, if they are switched on.
    pub fileserver: Option<FileServers>,
    /// The pod for administrators of file systems.
    pub fsadmin: FilesystemAdmin,
    /// After this time a watch is opened again.
    pub watch_reconnect: Duration,
}

/// All problems of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabsConfigError(pub Vec<LabsConfigProblem>);

impl fmt::Display for LabsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LabsConfigError {}

impl LabsConfig {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// All problems with the paths of their keys, or that the text is no YAML.
    pub fn from_yaml(text: &str) -> Result<LabsConfig, LabsConfigError> {
        let no_path = |problem: String| {
            LabsConfigError(vec![LabsConfigProblem {
                path: String::new(),
                problem,
            }])
        };
        let value: ConfigValue =
            serde_saphyr::from_str(text).map_err(|error| no_path(error.to_string()))?;
        let mut problems = Vec::new();
        let place = Place {
            path: String::new(),
            problems: &mut problems,
        };
        match LabsConfig::decode(&value, place) {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(LabsConfigError(problems)),
        }
    }
}

impl Decode for LabsConfig {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabsConfig> {
        let mut section = Section::open(value, place)?;
        section.ignore(&[
            "logProfile",
            "metadataPath",
            "metrics",
            "slackAlerts",
            "slackWebhook",
        ]);
        let base_url = section.or("baseUrl", "http://127.0.0.1:8080".to_owned());
        let name = section.or("name", "Nublado".to_owned());
        let path_prefix: String = section.or("pathPrefix", "/nublado".to_owned());
        let log_debug = log_debug(&mut section);
        let lab: Option<LabConfig> = section.required("lab");
        let images = section.required("images");
        let dropdown_menu = section.or("dropdownMenu", DropdownFilter::default());
        let fileserver = match section.value("fileserver") {
            Some(value) => files::decode_servers(value, section.at("fileserver")),
            None => None,
        };
        let fsadmin = section.or("fsadmin", FilesystemAdmin::default());
        let watch_reconnect = section.or("watchReconnectTimeout", Duration::from_secs(180));
        if !path_prefix.starts_with('/') || path_prefix.ends_with('/') {
            let problem = "must start with a slash and not end with one";
            section.at("pathPrefix").complain(problem);
        }
        if let Some(servers) = &fileserver
            && !can_be_mounted(&servers.path_prefix, &path_prefix)
        {
            let problem = "must be a plain path like /files, outside of the API's own paths";
            section.at("fileserver.pathPrefix").complain(problem);
        }
        if let Some(lab) = &lab {
            let servers: &[VolumeMount] = fileserver
                .as_ref()
                .map_or(&[], |servers: &FileServers| &servers.volume_mounts);
            check_mounts(
                &mut section.at("fileserver.volumeMounts"),
                servers,
                &lab.volumes,
            );
            let volumes: Vec<LabVolume> = lab
                .volumes
                .iter()
                .chain(&fsadmin.extra_volumes)
                .cloned()
                .collect();
            let mounts = &fsadmin.extra_volume_mounts;
            check_mounts(
                &mut section.at("fsadmin.extraVolumeMounts"),
                mounts,
                &volumes,
            );
        }
        section.finish();
        Some(LabsConfig {
            base_url,
            name,
            path_prefix,
            log_debug,
            lab: lab?,
            images: images?,
            dropdown_menu,
            fileserver,
            fsadmin,
            watch_reconnect,
        })
    }
}

/// Paths that the service has on its root, besides the API.
const ROOT_PATHS: [&str; 2] = ["/discovery", "/openapi.json"];

/// Whether file servers can have this path beside the API.
fn can_be_mounted(path: &str, api: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    let contains = |outer: &str, inner: &str| below(inner, outer).is_some();
    path.starts_with('/')
        && !path.ends_with('/')
        && !path.contains("//")
        && path.bytes().all(allowed)
        && !contains(path, api)
        && !contains(api, path)
        && !ROOT_PATHS.iter().any(|own| contains(path, own))
}

fn log_debug(section: &mut Section<'_, '_>) -> bool {
    let levels = [
        ("DEBUG", true),
        ("INFO", false),
        ("WARNING", false),
        ("ERROR", false),
        ("CRITICAL", false),
    ];
    let Some(value) = section.value("logLevel") else {
        return false;
    };
    // Nublado takes the words in any case.
    let level = value.as_text().map(str::to_ascii_uppercase);
    let known = levels
        .iter()
        .find(|(word, _)| level.as_deref() == Some(word));
    if let Some((_, is_debug)) = known {
        return *is_debug;
    }
    decode_word(value, section.at("logLevel"), &levels).unwrap_or_default()
}

#[cfg(test)]
mod tests;
