//! Calls to the identity provider and to APIs, not to apps: bounded in time, size and number,
//! without redirects, by https or by http on loopback.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri, header, uri::Scheme};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
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
use rustls::pki_types::ServerName;

use crate::{
    metrics::Registry,
    tls_client::{self, NoCertificate},
};

/// Calls at the same time; further ones wait within their deadline.
const MAX_CALLS: usize = 64;

/// Bounds of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Deadline, with the wait until other calls are done.
    pub deadline: Duration,
    /// Largest response body, in bytes: whole MiB.
    pub max_answer: usize,
}

impl Default for CallLimits {
    /// Five seconds and 1 MiB.
    fn default() -> Self {
        CallLimits {
            deadline: Duration::from_secs(5),
            max_answer: 1 << 20,
        }
    }
}

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
    #[error("the server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The body is broken or larger than the limit.
    #[error("the server's answer is broken or larger than {} MiB", .limit >> 20)]
    Answer {
        /// Largest body that was accepted, in bytes.
        limit: usize,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
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
        Ok(HttpClient::with_connector(connector(ca)?, calls))
    }

    fn with_connector(connector: HttpsConnector<HttpConnector>, calls: CallCounter) -> HttpClient {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(15))
            .build(connector);
        HttpClient {
            client,
            permits: Semaphore::new(MAX_CALLS),
            calls,
        }
    }

    /// One call within the usual limits; `endpoint` names it in the metrics.
    ///
    /// # Errors
    /// See [`CallError`]. A status that is not 2xx is no error here.
    pub async fn call(
        &self,
        endpoint: &'static str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, CallError> {
        self.call_within(endpoint, request, CallLimits::default())
            .await
    }

    /// One call, as [`HttpClient::call`], within limits of its own.
    ///
    /// # Errors
    /// See [`CallError`]. A status that is not 2xx is no error here.
    pub async fn call_within(
        &self,
        endpoint: &'static str,
        request: Request<Vec<u8>>,
        limits: CallLimits,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let exchange = self.exchange(request, limits);
        let result = match tokio::time::timeout(limits.deadline, exchange).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Timeout(limits.deadline)),
        };
        self.calls.count(endpoint, result_label(&result));
        result
    }

    async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        limits: CallLimits,
    ) -> Result<Response<Vec<u8>>, CallError> {
        check_uri(request.uri())?;
        // The semaphore is never closed; an error would mean the process ends.
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| CallError::Timeout(limits.deadline))?;
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| CallError::Unreachable(error.into()))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, limits.max_answer)
            .collect()
            .await
            .map_err(|source| CallError::Answer {
                limit: limits.max_answer,
                source,
            })?;
        Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
    }
}

/// The result of a call in one word, as [`CallCounter`] counts it.
pub fn result_label(result: &Result<Response<Vec<u8>>, CallError>) -> &'static str {
    match result {
        Ok(response) if response.status().is_success() => "ok",
        Ok(_) => "refused",
        Err(CallError::Timeout(_)) => "timeout",
        Err(CallError::Insecure(_) | CallError::Unreachable(_) | CallError::Answer { .. }) => {
            "error"
        }
    }
}

/// A server of another site, at an address that the caller has checked.
#[derive(Clone, Copy, Debug)]
pub struct PinnedServer<'s> {
    /// Its host name, which its certificate must have.
    pub host: &'s str,
    /// Its address. The name is not resolved again, so it cannot lead elsewhere meanwhile.
    pub address: SocketAddr,
}

/// Gets a path of a server by https, on a connection of its own.
///
/// # Errors
/// See [`CallError`]. A status that is not 2xx is no error here.
pub async fn get_pinned(
    server: PinnedServer<'_>,
    path_and_query: &str,
    ca: Option<&[u8]>,
) -> Result<Response<Vec<u8>>, CallError> {
    let connector = pinned_connector(server.host, ca).map_err(CallError::Unreachable)?;
    let request = pinned_request(server, path_and_query)
        .map_err(|error| CallError::Unreachable(error.into()))?;
    let client = HttpClient::with_connector(connector, CallCounter::default());
    client.call("pinned", request).await
}

fn pinned_connector(
    host: &str,
    ca: Option<&[u8]>,
) -> Result<HttpsConnector<HttpConnector>, Box<dyn std::error::Error + Send + Sync>> {
    let name = ServerName::try_from(host.to_owned())?;
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config((*tls_client::client_config(ca)?).clone())
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .build())
}

/// The URI has the address, and so the connector resolves nothing; `Host` has the name.
fn pinned_request(
    server: PinnedServer<'_>,
    path_and_query: &str,
) -> Result<Request<Vec<u8>>, http::Error> {
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(server.address.to_string())
        .path_and_query(path_and_query)
        .build()?;
    let host = match server.address.port() {
        443 => server.host.to_owned(),
        port => format!("{}:{port}", server.host),
    };
    Request::get(uri)
        .header(header::HOST, host)
        .body(Vec::new())
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

/// Plain http is for loopback only: calls carry secrets and codes.
fn check_uri(uri: &Uri) -> Result<(), CallError> {
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => Ok(()),
        (Some("http"), Some(host)) if is_loopback_host(host) => Ok(()),
        (_, _) => Err(CallError::Insecure(uri.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_request_goes_to_an_address_and_names_the_host() {
        for (address, uri, host) in [
            (
                "192.0.2.1:443",
                "https://192.0.2.1:443/a?b=c",
                "example.com",
            ),
            (
                "192.0.2.1:8443",
                "https://192.0.2.1:8443/a?b=c",
                "example.com:8443",
            ),
            (
                "[2001:db8::1]:443",
                "https://[2001:db8::1]:443/a?b=c",
                "example.com",
            ),
        ] {
            let server = PinnedServer {
                host: "example.com",
                address: address.parse().expect("an address"),
            };
            let request = pinned_request(server, "/a?b=c").expect("a request");
            assert_eq!(request.uri().to_string(), uri);
            assert_eq!(request.headers()[header::HOST], host);
            assert!(check_uri(request.uri()).is_ok());
        }
    }
}
