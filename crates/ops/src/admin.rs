//! The admin listener: probes and metrics without authentication, and routes of the process that
//! need a token.
//!
//! Never on the public listener. It runs on the control runtime, so a slow scrape delays no
//! request.

use std::{convert::Infallible, fmt, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ludgate_model::secret::Secret;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    dependency::DependencyStatus, drain::DrainPhase, metrics::Registry, readiness::Readiness,
};

/// Settings of the admin listener.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Bearer token for all routes except probes and metrics; `None`: they do not exist.
    pub token: Option<Secret>,
}

/// A response of the admin listener.
pub type Reply = Response<Full<Bytes>>;

type Pending = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A path with its methods and its handler.
struct Route {
    path: &'static str,
    methods: &'static [Method],
    handler: Box<dyn Fn(Request<()>) -> Pending + Send + Sync>,
}

/// One line of the verbose readiness probe.
struct Status {
    name: &'static str,
    read: Box<dyn Fn() -> Option<DependencyStatus> + Send + Sync>,
}

/// A request head must be complete within this time.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The admin server with the routes of its process.
pub struct AdminServer {
    registry: Registry,
    ready: Readiness,
    phase: watch::Receiver<DrainPhase>,
    token: Option<Secret>,
    routes: Vec<Route>,
    statuses: Vec<Status>,
}

impl AdminServer {
    /// A server with probes and metrics, and without routes of its own.
    pub fn new(
        registry: Registry,
        ready: Readiness,
        phase: watch::Receiver<DrainPhase>,
        token: Option<Secret>,
    ) -> AdminServer {
        AdminServer {
            registry,
            ready,
            phase,
            token,
            routes: Vec::new(),
            statuses: Vec::new(),
        }
    }

    /// Adds a route that needs the token. Without a token there is no such route. A route for GET
    /// serves HEAD too.
    #[must_use]
    pub fn route<F: Future<Output = Reply> + Send + 'static>(
        mut self,
        path: &'static str,
        methods: &'static [Method],
        handler: impl Fn(Request<()>) -> F + Send + Sync + 'static,
    ) -> AdminServer {
        if self.token.is_some() {
            let handler = Box::new(move |request| Box::pin(handler(request)) as Pending);
            self.routes.push(Route {
                path,
                methods,
                handler,
            });
        }
        self
    }

    /// Adds a line to the verbose readiness probe, without effect on readiness.
    #[must_use]
    pub fn status(
        mut self,
        name: &'static str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> AdminServer {
        self.statuses.push(Status {
            name,
            read: Box::new(move || Some(DependencyStatus::Fine(text()))),
        });
        self
    }

    /// Adds the line of a dependency to the verbose readiness probe, without effect on readiness.
    /// `None`: it is not configured, and there is no line.
    #[must_use]
    pub fn dependency(
        mut self,
        name: &'static str,
        read: impl Fn() -> Option<DependencyStatus> + Send + Sync + 'static,
    ) -> AdminServer {
        self.statuses.push(Status {
            name,
            read: Box::new(read),
        });
        self
    }

    /// Serves the listener until the process ends.
    pub async fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let server = server.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.answer(request.map(drop)).await) }
                });
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_DEADLINE)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }

    async fn answer(&self, request: Request<()>) -> Reply {
        let path = request.uri().path();
        let method = if request.method() == Method::HEAD {
            &Method::GET
        } else {
            request.method()
        };
        let route = self.routes.iter().find(|route| route.path == path);
        if *method != Method::GET && !route.is_some_and(|route| route.methods.contains(method)) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        match path {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(request.uri().query() == Some("verbose")),
            "/metrics" => {
                let mut response = text(StatusCode::OK, self.registry.render());
                let kind = HeaderValue::from_static(
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                );
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            _ => match route {
                Some(route) if self.admits(&request) => (route.handler)(request).await,
                Some(_) => unauthorized(),
                None => text(StatusCode::NOT_FOUND, "nothing here\n"),
            },
        }
    }

    /// Checks the token, and that Host is an IP address: a page that reaches this listener by DNS
    /// rebinding has a host name there.
    fn admits(&self, request: &Request<()>) -> bool {
        let host = request
            .headers()
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let is_address = host.is_some_and(|host| {
            host.parse::<SocketAddr>().is_ok() || host.parse::<std::net::IpAddr>().is_ok()
        });
        let presented = request
            .headers()
            .get(header::AUTHORIZATION)
            .map(HeaderValue::as_bytes);
        let token = presented.and_then(|value| value.strip_prefix(b"Bearer "));
        is_address
            && matches!((&self.token, token), (Some(token), Some(given)) if token.matches(given))
    }

    fn readiness(&self, verbose: bool) -> Reply {
        let mut waiting = self.ready.waiting_for();
        if *self.phase.borrow() == DrainPhase::Stopping {
            waiting.push("draining");
        }
        let status = if waiting.is_empty() {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        if !verbose {
            return text(
                status,
                if waiting.is_empty() {
                    "ok\n"
                } else {
                    "not ready\n"
                },
            );
        }
        let statuses = self.statuses.iter();
        let statuses = statuses.filter_map(|status| Some((status.name, (status.read)()?)));
        let statuses: Vec<(&str, DependencyStatus)> = statuses.collect();
        let degraded = statuses.iter().filter(|(_, status)| status.is_degraded());
        let degraded: Vec<&str> = degraded.map(|(name, _)| *name).collect();
        let lines = statuses
            .iter()
            .map(|(name, status)| format!("{name}: {}\n", status.text()));
        text(
            status,
            format!(
                "waiting for: {}\ndegraded: {}\n{}",
                listed(&waiting),
                listed(&degraded),
                lines.collect::<String>()
            ),
        )
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminServer")
    }
}

fn unauthorized() -> Reply {
    let mut response = text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
    let challenge = HeaderValue::from_static("Bearer realm=\"ludgate admin\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// 200 with `application/json`.
pub fn json(body: &serde_json::Value) -> Reply {
    let mut response = text(StatusCode::OK, body.to_string());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A response with `text/plain`.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
