//! Calls to the identity provider and to APIs, not to apps: bounded in time, size and number,
//! without redirects, by https or by http on loopback.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::Semaphore;

use ludgate_model::site::is_loopback_host;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

use crate::{
    metrics::Registry,
    tls_client::{self, NoCertificate},
};

/// Deadline of one call.
const DEADLINE: Duration = Duration::from_secs(5);
/// Largest response body, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Calls at the same time; further ones wait within their deadline.
const MAX_CALLS: usize = 64;

/// The reasons for a failed call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The URL is plain http to another machine.
    #[error("{0} is neither https nor on loopback")]
    Insecure(String),
    /// The connection failed.
    #[error("the server cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No complete response within the deadline.
    #[error("the server did not answer within 5 s")]
    Timeout,
    /// The body is broken or larger than the limit.
    #[error("the server's answer is broken or larger than 1 MiB")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Labels of [`CallCounter`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    endpoint: &'static str,
    result: &'static str,
}

/// Counts the calls to one server by endpoint and result. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct CallCounter(Family<CallLabels, Counter>);

impl CallCounter {
    /// A counter in the registry.
    pub fn register(registry: &Registry, name: &'static str, help: &'static str) -> CallCounter {
        let counter = CallCounter::default();
        registry.register(name, help, counter.0.clone());
        counter
    }

    fn count(&self, endpoint: &'static str, result: &'static str) {
        self.0.get_or_create(&CallLabels { endpoint, result }).inc();
    }
}

/// The client for all calls to one server.
#[derive(Debug)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    permits: Semaphore,
    calls: CallCounter,
}

impl HttpClient {
    /// A client that trusts the given CA, or the system's.
    ///
    /// # Errors
    /// When the CA file holds no certificate.
    pub fn new(ca: Option<&[u8]>, calls: CallCounter) -> Result<HttpClient, NoCertificate> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(15))
            .build(connector(ca)?);
        Ok(HttpClient {
            client,
            permits: Semaphore::new(MAX_CALLS),
            calls,
        })
    }

    /// One call; `endpoint` names it in the metrics.
    ///
    /// # Errors
    /// See [`CallError`]. A status that is not 2xx is no error here.
    pub async fn call(
        &self,
        endpoint: &'static str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let result = match tokio::time::timeout(DEADLINE, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Timeout),
        };
        let word = match &result {
            Ok(response) if response.status().is_success() => "ok",
            Ok(_) => "refused",
            Err(CallError::Timeout) => "timeout",
            Err(CallError::Insecure(_) | CallError::Unreachable(_) | CallError::Answer(_)) => {
                "error"
            }
        };
        self.calls.count(endpoint, word);
        result
    }

    async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, CallError> {
        check_uri(request.uri())?;
        // The semaphore is never closed; an error would mean the process ends.
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| CallError::Timeout)?;
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| CallError::Unreachable(error.into()))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER)
            .collect()
            .await
            .map_err(CallError::Answer)?;
        Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
    }
}

/// Connects by HTTP/1.1 with and without TLS, and trusts a CA file or the system's CAs.
///
/// # Errors
/// When the CA file holds no certificate.
pub fn connector(ca: Option<&[u8]>) -> Result<HttpsConnector<HttpConnector>, NoCertificate> {
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config((*tls_client::client_config(ca)?).clone())
        .https_or_http()
        .enable_http1()
        .build())
}

/// An error with its causes, for the log.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Plain http is for loopback only: calls carry secrets and codes.
fn check_uri(uri: &Uri) -> Result<(), CallError> {
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => Ok(()),
        (Some("http"), Some(host)) if is_loopback_host(host) => Ok(()),
        (_, _) => Err(CallError::Insecure(uri.to_string())),
    }
}
