//! One health check: a connection of its own, one request, and the status of the response.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Version, header};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig,
    pki_types::{InvalidDnsNameError, ServerName},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{
    model::{
        app::{App, Protocol, Upstream, UpstreamScheme},
        health_check::HealthCheck,
    },
    proxy_protocol,
};

/// The name of the client in the app's log.
const USER_AGENT: &str = "ludgate-health-check";
/// Largest response head, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// One upstream of an app, and how it is checked.
pub(super) struct Probe {
    pub(super) app: Arc<App>,
    /// Index of the upstream.
    pub(super) index: usize,
    pub(super) check: HealthCheck,
    /// `None` without TLS.
    pub(super) tls: Result<Option<Arc<ClientConfig>>, String>,
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error("no connection")]
    Connect(#[from] io::Error),
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    #[error("the host of the upstream is no server name")]
    Name(#[from] InvalidDnsNameError),
    #[error("the request is not valid")]
    Request(#[from] http::Error),
    #[error("no valid response")]
    Response(#[from] hyper::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("this kind of upstream cannot be checked")]
    NotSupported,
}

impl Probe {
    /// Checks the upstream once. Any status from 200 to 399 is a success.
    ///
    /// Cancel safety: dropping the future closes the connection.
    pub(super) async fn run(&self) -> Result<(), ProbeError> {
        let limit = self.check.timeout;
        let status = timeout(limit, self.status()).await;
        let status = status.map_err(|_| ProbeError::Timeout(limit))??;
        if status.is_success() || status.is_redirection() {
            Ok(())
        } else {
            Err(ProbeError::Status(status))
        }
    }

    async fn status(&self) -> Result<StatusCode, ProbeError> {
        let upstream = self.app.upstream_at(self.index);
        match &upstream.scheme {
            UpstreamScheme::Unix(path) => {
                let socket = self
                    .send_proxy_header(UnixStream::connect(path).await?)
                    .await?;
                self.exchange(socket, upstream).await
            }
            UpstreamScheme::Http => {
                let tcp = self
                    .send_proxy_header(connect_host(upstream).await?)
                    .await?;
                self.exchange(tcp, upstream).await
            }
            UpstreamScheme::Https => {
                let config = self.tls.clone().map_err(ProbeError::Tls)?;
                let config = config.ok_or(ProbeError::NotSupported)?;
                let name = match &self.app.spec.tls.server_name {
                    Some(name) => name.clone(),
                    None => ServerName::try_from(upstream.host.to_string())?,
                };
                let tcp = self
                    .send_proxy_header(connect_host(upstream).await?)
                    .await?;
                let stream = TlsConnector::from(config).connect(name, tcp).await?;
                self.exchange(stream, upstream).await
            }
            UpstreamScheme::Pods(_) | UpstreamScheme::Attested(_) => Err(ProbeError::NotSupported),
        }
    }

    /// Sends a PROXY header without a client to an app that expects one.
    async fn send_proxy_header<S: AsyncWrite + Unpin>(&self, mut stream: S) -> io::Result<S> {
        if self.app.spec.proxy_protocol {
            let header = proxy_protocol::write::local_header();
            stream.write_all(&header).await?;
        }
        Ok(stream)
    }

    async fn exchange<S>(&self, stream: S, upstream: &Upstream) -> Result<StatusCode, ProbeError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request = self.request(upstream)?;
        let io = TokioIo::new(stream);
        // Dropping the set ends the task of the connection, which closes the connection.
        let mut connections = JoinSet::new();
        let response = match self.app.spec.protocol {
            Protocol::Http1 => {
                let (mut sender, connection) = http1::Builder::new()
                    .max_buf_size(MAX_HEAD)
                    .handshake::<_, Empty<Bytes>>(io)
                    .await?;
                connections.spawn(async move { drop(connection.await) });
                sender.send_request(request).await?
            }
            Protocol::Http2 => {
                let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .handshake::<_, Empty<Bytes>>(io)
                    .await?;
                connections.spawn(async move { drop(connection.await) });
                sender.send_request(request).await?
            }
        };
        Ok(response.status())
    }

    fn request(&self, upstream: &Upstream) -> http::Result<Request<Empty<Bytes>>> {
        let path = self.check.path.as_str();
        let request = match self.app.spec.protocol {
            Protocol::Http1 => Request::get(path)
                .header(header::HOST, upstream.authority())
                .header(header::CONNECTION, "close"),
            Protocol::Http2 => {
                let uri = format!("{}{path}", upstream.origin());
                Request::get(uri).version(Version::HTTP_2)
            }
        };
        request
            .header(header::USER_AGENT, USER_AGENT)
            .body(Empty::new())
    }
}

async fn connect_host(upstream: &Upstream) -> io::Result<TcpStream> {
    TcpStream::connect((&*upstream.host, upstream.port)).await
}
