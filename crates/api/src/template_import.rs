//! Templates from URLs, for administrators.
//!
//! The API is inside the cluster and downloads what a person names. So it speaks only https, with
//! public addresses; it resolves a name once, follows no redirect, and reads little. `source`,
//! `address` and `document` decide that without I/O.

mod address;
mod document;
mod source;

use std::{net::IpAddr, time::Duration};

use http::StatusCode;
use ludgate_controllers::pod_policy::PodPolicy;
use ludgate_model::error_cause::chain_text;
use ludgate_ops::{
    http_client::{CallError, PinnedServer, get_pinned},
    public_address::is_public,
};
use tokio::{net::lookup_host, task::spawn_blocking, time::timeout};

pub use document::ImportedTemplate;

use crate::error::OperationError;
use source::TemplateSource;

/// Deadline of a download, with the resolution of the name.
const DEADLINE: Duration = Duration::from_secs(8);

/// How templates are imported.
#[derive(Clone, Debug)]
pub struct ImportSettings {
    /// The rights that the pods of templates may ask for.
    pub pods: PodPolicy,
    /// The CAs of servers (PEM); `None`: the system's.
    pub ca: Option<Vec<u8>>,
    /// Whether a server may have an address. Tests permit loopback.
    pub is_permitted: fn(IpAddr) -> bool,
}

impl ImportSettings {
    /// Imports templates from public servers.
    pub fn new(pods: PodPolicy) -> ImportSettings {
        ImportSettings {
            pods,
            ca: None,
            is_permitted: is_public,
        }
    }

    /// Loads and checks the template at a URL.
    ///
    /// # Errors
    /// [`OperationError::Invalid`], or [`OperationError::Unavailable`] if the server does not
    /// answer.
    pub async fn load(&self, url: &str) -> Result<ImportedTemplate, OperationError> {
        let source = TemplateSource::parse(url)?;
        let downloaded = timeout(DEADLINE, self.download(&source)).await;
        let late = || OperationError::Unavailable("url: the server did not answer in time".into());
        let text = downloaded.unwrap_or_else(|_| Err(late()))?;
        let pods = self.pods.clone();
        // A long document must not delay other requests.
        let parsed = spawn_blocking(move || document::parse(&text, &pods)).await;
        let failed = |_| OperationError::Unavailable("url: the check failed".to_owned());
        parsed.map_err(failed)?
    }

    async fn download(&self, source: &TemplateSource) -> Result<Vec<u8>, OperationError> {
        let found = lookup_host((source.host.as_str(), source.port)).await;
        let found = found.map_err(|error| {
            tracing::info!(%error, host = source.host, "cannot resolve the host of a template");
            OperationError::Invalid("url: the host is not known".to_owned())
        })?;
        let server = PinnedServer {
            host: &source.host,
            address: address::choose(found, self.is_permitted)?,
        };
        let answer = get_pinned(server, &source.path, self.ca.as_deref()).await?;
        match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            status => {
                let status = status.as_u16();
                let hint = match status {
                    300..400 => "; redirects are not followed",
                    _ => "",
                };
                Err(OperationError::Invalid(format!(
                    "url: the server answered with HTTP status {status}{hint}"
                )))
            }
        }
    }
}

impl From<CallError> for OperationError {
    fn from(error: CallError) -> OperationError {
        tracing::info!(error = chain_text(&error), "cannot download a template");
        let text = format!("url: {error}");
        match error {
            CallError::Unreachable(_) | CallError::Timeout(_) => OperationError::Unavailable(text),
            CallError::Insecure(_) | CallError::Answer { .. } => OperationError::Invalid(text),
        }
    }
}
