//! Where charts come from: http and OCI registries, and git repositories.
//!
//! [`download`] leaves a checked archive of the chart in a folder, and Helm gets that archive. So
//! no password is on a command line, and every size, name and digest is checked before Helm reads
//! a byte. The modules from `chart_yaml` to `version` are without IO.

mod archive;
mod chart_source;
mod chart_yaml;
mod checksum;
mod credentials;
mod dependencies;
mod download;
mod error;
mod git;
mod host_rules;
mod http;
mod message;
mod oci;
mod registry_config;
mod repository;
mod repository_path;
mod resolve;
mod settings;
mod version;
mod yaml;

pub use archive::{ChartFolder, unpack_chart};
pub use chart_source::{ChartSource, GitRevision};
pub use credentials::{Credentials, GitLogin, HelmLogin, HostKeys};
pub use download::{DownloadedChart, download};
pub use error::{SourceError, SourceErrorClass};
pub use host_rules::{HostPattern, HostRules, InvalidHostPattern};
pub use settings::{GitSettings, SourceLimits, SourceSettings};
