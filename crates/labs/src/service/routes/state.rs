//! What all requests share.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::header;
use ludgate_ops::drain::DrainWatcher;
use serde_json::{Value, json};

use super::failure::LabFailure;
use crate::{
    config::LabsConfig,
    dialect::Dialect,
    error::LabError,
    images::ImageCatalog,
    service::{
        callers::IdentifyCaller, file_servers::FileOperations, metrics::LabRequestMetrics,
        operations::LabOperations,
    },
};

/// The state, as handlers get it.
pub(super) type Shared = State<Arc<Routes>>;
/// What handlers return.
pub(super) type Answer = Result<Response, LabFailure>;

/// What all requests share.
pub struct LabsState {
    /// The labs.
    pub service: Arc<dyn LabOperations>,
    /// Reads the images of this moment.
    pub catalog: Box<dyn Fn() -> Arc<ImageCatalog> + Send + Sync>,
    /// Who calls.
    pub callers: Arc<dyn IdentifyCaller>,
    /// The configuration.
    pub config: Arc<LabsConfig>,
    /// The form of answers.
    pub dialect: Dialect,
    /// Where people and hubs reach the service.
    pub urls: LabsUrls,
    /// Metrics of requests.
    pub metrics: LabRequestMetrics,
    /// File servers and the pod for administrators, in the dialect of Nublado.
    pub files: FileOperations,
    /// Ends event streams when the process stops.
    pub drain: DrainWatcher,
}

/// Where people and hubs reach the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabsUrls {
    /// The origin in front of the path prefix, without a slash at the end.
    pub base: String,
    /// Where people sign out.
    pub sign_out: String,
}

impl LabsUrls {
    /// The URL of the API, without the version.
    pub fn api(&self, config: &LabsConfig) -> String {
        format!("{}{}", self.base, config.path_prefix)
    }
}

/// What the handlers share.
pub(super) struct Routes {
    pub(super) state: LabsState,
}

impl Routes {
    /// The answer about a lab.
    pub(super) fn lab(&self, username: &str) -> Result<Response, LabError> {
        let state = &self.state;
        let lab = state.service.get(username)?;
        let events = match state.dialect {
            Dialect::Sqr066 => state.service.history(username),
            Dialect::Nublado => Vec::new(),
        };
        Ok(json_answer(&lab.to_json(&events, state.dialect)))
    }

    /// What the service says about itself.
    pub(super) fn metadata(&self) -> Value {
        json!({
            "name": self.state.config.name,
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Starts and stops JupyterLab for people",
            "repository_url": env!("CARGO_PKG_REPOSITORY"),
        })
    }
}

/// 200 with a JSON body.
pub(super) fn json_answer(body: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, body.to_string()).into_response()
}
