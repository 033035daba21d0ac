//! Whether calls to an issuer succeed. A change is logged.

use std::{error::Error, time::Instant};

use http::{Response, StatusCode};
use openidconnect::IssuerUrl;

use crate::{
    model::upstream_health::{UpstreamFailure, UpstreamHealth},
    ops::http_client::{CallError, result_label},
};

/// The health of an issuer, as the calls to it show it.
#[derive(Debug)]
pub struct ProviderHealth {
    issuer: IssuerUrl,
    calls: UpstreamHealth,
}

/// A response that says that the server cannot serve the request now.
#[derive(Debug, thiserror::Error)]
#[error("status {0}")]
struct ServerError(StatusCode);

impl ProviderHealth {
    /// Of an issuer that was not called yet.
    pub fn new(issuer: IssuerUrl) -> ProviderHealth {
        ProviderHealth {
            issuer,
            calls: UpstreamHealth::default(),
        }
    }

    /// The last failure, and the time of the first one. `None`: the last call got an answer, or
    /// there was none. A refusal is an answer, a status of 500 and above is none.
    pub fn failure(&self) -> Option<(UpstreamFailure, Instant)> {
        self.calls.failure()
    }

    /// Records the result of a call. Failures are logged when they begin, at most once a minute,
    /// and when they end.
    pub(super) fn record(
        &self,
        endpoint: &'static str,
        result: &Result<Response<Vec<u8>>, CallError>,
    ) {
        match result {
            Ok(response) if response.status().is_server_error() => {
                self.fail(
                    endpoint,
                    result_label(result),
                    &ServerError(response.status()),
                );
            }
            Ok(_) => self.recover(),
            Err(error) => self.fail(endpoint, result_label(result), error),
        }
    }

    fn fail(&self, endpoint: &'static str, result: &'static str, error: &dyn Error) {
        self.calls.record_cause(result, error);
        let Some(failure) = self.calls.fail(result, &error, Instant::now()) else {
            return;
        };
        tracing::warn!(
            issuer = self.issuer.as_str(), endpoint, result = failure.outcome,
            error = %failure.cause, "calls to the identity provider fail"
        );
    }

    fn recover(&self) {
        let Some(recovery) = self.calls.recover(Instant::now()) else {
            return;
        };
        tracing::info!(
            issuer = self.issuer.as_str(),
            failed_for_s = recovery.failed_for.as_secs(),
            "the identity provider answers again"
        );
    }
}
