//! GET requests to the servers of charts.
//!
//! Each request has a connection of its own to an address that the rules permit. Redirects are
//! followed here, since each target is checked, and only the configured server gets credentials.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode, header,
    header::{AUTHORIZATION, LOCATION},
};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    client::conn::http1,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use ludgate_ops::tls_client;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tokio_rustls::TlsConnector;
use url::{Origin, Url};

use super::{
    error::SourceError,
    resolve::{bare, resolve},
    settings::SourceSettings,
};

/// An `Authorization` header, and the only origin that gets it.
#[derive(Clone, Debug)]
pub(crate) struct Authorization {
    pub(crate) origin: Origin,
    pub(crate) header: HeaderValue,
}

/// One file of a server.
#[derive(Clone, Debug)]
pub(crate) struct GetRequest<'r> {
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    pub(crate) authorization: Option<&'r Authorization>,
    /// Largest body.
    pub(crate) max_bytes: usize,
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Gets files within the settings.
#[derive(Debug)]
pub(crate) struct HttpSource<'s> {
    pub(crate) settings: &'s SourceSettings,
    tls: Arc<ClientConfig>,
}

impl<'s> HttpSource<'s> {
    /// A client; `insecure` accepts any certificate.
    ///
    /// # Errors
    /// Permanent, if the configured CA is no certificate.
    pub(crate) fn new(
        settings: &'s SourceSettings,
        insecure: bool,
    ) -> Result<HttpSource<'s>, SourceError> {
        let ca = settings.ca.as_deref().map(str::as_bytes);
        let tls = match insecure {
            true => tls_client::config_for_any_certificate(),
            false => tls_client::client_config(ca)
                .map_err(|error| SourceError::permanent(error.to_string()))?,
        };
        Ok(HttpSource { settings, tls })
    }

    /// Gets a file. A status that is not 2xx is no error here.
    ///
    /// # Errors
    /// When a host is refused, a server cannot be reached or does not answer in time, the body is
    /// too large, or there are too many redirects.
    pub(crate) async fn get(&self, request: GetRequest<'_>) -> Result<HttpAnswer, SourceError> {
        let mut url = request.url.clone();
        for _ in 0..=self.settings.limits.redirects {
            let answer = self.get_once(&request, &url).await?;
            if !answer.status.is_redirection() {
                return Ok(answer);
            }
            url = redirect_target(&url, &answer.headers)?;
        }
        Err(SourceError::permanent(format!(
            "{} redirects too often",
            shown(&request.url)
        )))
    }

    async fn get_once(
        &self,
        request: &GetRequest<'_>,
        url: &Url,
    ) -> Result<HttpAnswer, SourceError> {
        let deadline = self.settings.limits.request_deadline;
        let answer = timeout(deadline, self.exchange(request, url)).await;
        answer.unwrap_or_else(|_| {
            let seconds = deadline.as_secs_f32();
            let what = format!("{} did not answer within {seconds} s", shown(url));
            Err(SourceError::transient(what))
        })
    }

    async fn exchange(
        &self,
        request: &GetRequest<'_>,
        url: &Url,
    ) -> Result<HttpAnswer, SourceError> {
        let (host, port) = self.server_of(url)?;
        let addresses = resolve(host, port, &self.settings.hosts).await?;
        let unreachable = |error: io::Error| {
            tracing::info!(%error, url = shown(url), "cannot connect to the server of a chart");
            // rustls puts its own errors into this kind.
            let why = match error.kind() == io::ErrorKind::InvalidData {
                true => format!(": {error}"),
                false => String::new(),
            };
            SourceError::transient(format!("{} cannot be reached{why}", shown(url)))
        };
        let stream = connect(&addresses).await.map_err(unreachable)?;
        let get = http_request(request, url)?;
        let sent = match url.scheme() {
            "https" => {
                let name = ServerName::try_from(bare(host).to_owned())
                    .map_err(|_| SourceError::permanent(format!("{host:?} is no host name")))?;
                let connector = TlsConnector::from(self.tls.clone());
                let stream = connector.connect(name, stream).await.map_err(unreachable)?;
                send(TokioIo::new(stream), get, request.max_bytes).await
            }
            _ => send(TokioIo::new(stream), get, request.max_bytes).await,
        };
        sent.map_err(|error| error.into_source_error(url, request.max_bytes))
    }

    /// Host and port of a URL that may be called.
    fn server_of<'u>(&self, url: &'u Url) -> Result<(&'u str, u16), SourceError> {
        let is_allowed = match url.scheme() {
            "https" => true,
            "http" => self.settings.hosts.plain_http,
            other => {
                let what = format!("transport '{other}' not allowed");
                return Err(SourceError::permanent(what));
            }
        };
        if !is_allowed {
            let what = format!("{}: http is not allowed for sources", shown(url));
            return Err(SourceError::permanent(what));
        }
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => Ok((host, port)),
            (_, _) => Err(SourceError::permanent(format!(
                "{} has no host",
                shown(url)
            ))),
        }
    }
}

impl HttpAnswer {
    /// The body of a successful response; `url` names it in errors.
    ///
    /// # Errors
    /// Permanent for what a client must change, else transient.
    pub(crate) fn successful(self, url: &Url) -> Result<HttpAnswer, SourceError> {
        let status = self.status.as_u16();
        let what = |text: &str| format!("{} {text} (HTTP status {status})", shown(url));
        match status {
            200..=299 => Ok(self),
            401 | 403 => Err(SourceError::permanent(what("refuses access"))),
            404 | 410 => Err(SourceError::permanent(what("does not exist"))),
            408 | 429 | 500..=599 => Err(SourceError::transient(what("is not available"))),
            _ => Err(SourceError::permanent(what("cannot be used"))),
        }
    }
}

/// A URL for messages: without user, query and fragment.
pub(crate) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// The host of a URL, with its port if that is not the default.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether a URL has a user or a password in it.
pub(crate) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The URL of a redirect. One from https to http is refused: the content could be changed.
fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url, SourceError> {
    let invalid = || SourceError::permanent(format!("{} redirects to no URL", shown(from)));
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let target = from
        .join(location.ok_or_else(invalid)?)
        .map_err(|_| invalid())?;
    if has_user(&target) || (from.scheme() == "https" && target.scheme() != "https") {
        let what = format!(
            "{} redirects to {}, which is not followed",
            shown(from),
            shown(&target)
        );
        return Err(SourceError::permanent(what));
    }
    Ok(target)
}

/// In origin form, with the credentials only for their origin.
fn http_request(request: &GetRequest<'_>, url: &Url) -> Result<Request<Empty<Bytes>>, SourceError> {
    let query = url
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let target = format!("{}{query}", url.path());
    let mut builder = Request::get(target)
        .header(header::HOST, host_of(url))
        .header(header::USER_AGENT, "ludgate")
        .header(header::ACCEPT, request.accept);
    let authorization = request.authorization.filter(|it| it.origin == url.origin());
    if let Some(authorization) = authorization {
        builder = builder.header(AUTHORIZATION, &authorization.header);
    }
    let invalid = |_| SourceError::permanent(format!("{} cannot be requested", shown(url)));
    builder.body(Empty::new()).map_err(invalid)
}

async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Why there is no whole response.
enum ExchangeError {
    Broken(hyper::Error),
    Body(Box<dyn std::error::Error + Send + Sync>),
}

impl ExchangeError {
    fn into_source_error(self, url: &Url, limit: usize) -> SourceError {
        let url = shown(url);
        match self {
            ExchangeError::Body(error) if error.is::<LengthLimitError>() => {
                SourceError::permanent(format!("{url} is larger than {limit} bytes"))
            }
            ExchangeError::Body(error) => {
                SourceError::transient(format!("{url} was not sent to its end: {error}"))
            }
            ExchangeError::Broken(error) => {
                SourceError::transient(format!("{url} gave no HTTP response: {error}"))
            }
        }
    }
}

async fn send<T>(
    io: T,
    request: Request<Empty<Bytes>>,
    max_bytes: usize,
) -> Result<HttpAnswer, ExchangeError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(io).await.map_err(ExchangeError::Broken)?;
    // The task ends with the set, also if this future is dropped.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request).await;
    let (parts, body) = response.map_err(ExchangeError::Broken)?.into_parts();
    let body = Limited::new(body, max_bytes).collect().await;
    Ok(HttpAnswer {
        status: parts.status,
        headers: parts.headers,
        body: body.map_err(ExchangeError::Body)?.to_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn credentials_are_sent_to_their_origin_only() {
        let authorization = Authorization {
            origin: url("https://a.test/x").origin(),
            header: HeaderValue::from_static("Basic abc"),
        };
        for (target, wanted) in [
            ("https://a.test/charts/b?c=d", true),
            ("https://a.test:443/", true),
            ("https://a.test:8443/", false),
            ("http://a.test/", false),
            ("https://b.test/", false),
            ("https://a.test.b.test/", false),
        ] {
            let url = url(target);
            let request = GetRequest {
                url: url.clone(),
                accept: "*/*",
                authorization: Some(&authorization),
                max_bytes: 1,
            };
            let built = http_request(&request, &url).expect("a request");
            assert_eq!(
                built.headers().contains_key(AUTHORIZATION),
                wanted,
                "{target}"
            );
            assert_eq!(built.headers()[header::HOST], host_of(&url));
        }
    }

    #[test]
    fn redirects_stay_with_tls() {
        let target = |from: &str, location: &str| {
            let location = HeaderValue::from_str(location).expect("a header");
            let headers = HeaderMap::from_iter([(LOCATION, location)]);
            redirect_target(&url(from), &headers).map(|url| url.to_string())
        };
        for (from, location, wanted) in [
            ("https://a.test/x/y", "z?q", Some("https://a.test/x/z?q")),
            (
                "https://a.test/",
                "https://b.test/c",
                Some("https://b.test/c"),
            ),
            ("http://a.test/", "https://b.test/", Some("https://b.test/")),
            ("http://a.test/", "http://b.test/", Some("http://b.test/")),
            ("https://a.test/", "http://a.test/", None),
            ("https://a.test/", "file:///etc/passwd", None),
            ("https://a.test/", "https://u:p@b.test/", None),
            ("https://a.test/", "https://", None),
        ] {
            let found = target(from, location);
            assert_eq!(found.as_deref().ok(), wanted, "{from} {location}");
        }
        let none = redirect_target(&url("https://a.test/"), &HeaderMap::new());
        assert!(none.is_err());
    }

    #[test]
    fn a_status_says_whether_another_attempt_can_help() {
        use crate::source::error::SourceErrorClass::{Permanent, Transient};
        for (status, wanted) in [
            (200, None),
            (206, None),
            (304, Some(Permanent)),
            (400, Some(Permanent)),
            (401, Some(Permanent)),
            (404, Some(Permanent)),
            (408, Some(Transient)),
            (429, Some(Transient)),
            (500, Some(Transient)),
            (503, Some(Transient)),
        ] {
            let answer = HttpAnswer {
                status: StatusCode::from_u16(status).expect("a status"),
                headers: HeaderMap::new(),
                body: Vec::new(),
            };
            let class = answer.successful(&url("https://u:p@a.test/x?token=y"));
            let class = class.err().map(|error| {
                assert!(error.message().starts_with("https://a.test/x "), "{error}");
                error.class()
            });
            assert_eq!(class, wanted, "{status}");
        }
    }
}
