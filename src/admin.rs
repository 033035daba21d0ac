//! The admin listener: probes and metrics for everybody who reaches it; the rest needs a token.
//!
//! Never on the public listener. Runs on the control runtime; a slow scrape delays no request.

mod sessions;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    catalog::snapshot::{Problem, Snapshot},
    gateway::Gateway,
    lifecycle::{drain::Phase, ready::Ready},
    model::{access::Access, app::App, place::Place, secret::Secret},
};

/// Where the admin listener is, and what it may show.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address.
    pub address: SocketAddr,
    /// For everything beyond probes and metrics; absent: those routes do not exist.
    pub token: Option<Secret>,
}

/// A request head must be complete within this time.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// What the admin listener answers from.
#[derive(Debug)]
pub struct Admin {
    gateway: Arc<Gateway>,
    ready: Ready,
    stopping: watch::Receiver<Phase>,
    token: Option<Secret>,
}

impl Admin {
    /// Of one gateway.
    pub fn new(
        gateway: Arc<Gateway>,
        ready: Ready,
        stopping: watch::Receiver<Phase>,
        token: Option<Secret>,
    ) -> Arc<Admin> {
        Arc::new(Admin { gateway, ready, stopping, token })
    }

    /// Serves the listener until the process ends.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let admin = self.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let admin = admin.clone();
                    async move { Ok::<_, Infallible>(admin.answer(&request).await) }
                });
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_DEADLINE)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let is_of_sessions = path == "/sessions" && self.token.is_some();
        let reads = request.method() == Method::GET || request.method() == Method::HEAD;
        let ends = is_of_sessions && request.method() == Method::DELETE;
        if !(reads || ends) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        match path {
            "/sessions" if is_of_sessions => match self.admits(request) {
                true if reads => self.sessions(request).await,
                true => self.end_sessions(request).await,
                false => unauthorized(),
            },
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(request.uri().query() == Some("verbose")),
            "/metrics" => {
                let mut response = text(StatusCode::OK, self.gateway.metrics.render());
                let kind =
                    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            "/apps" if self.token.is_some() => match self.admits(request) {
                true => self.apps(),
                false => unauthorized(),
            },
            _ => text(StatusCode::NOT_FOUND, "nothing here\n"),
        }
    }

    /// The token, and a Host that no page of a browser can bring here by its own name (DNS rebinding).
    fn admits(&self, request: &Request<Incoming>) -> bool {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let is_address = host.is_some_and(|host| {
            host.parse::<SocketAddr>().is_ok() || host.parse::<std::net::IpAddr>().is_ok()
        });
        let presented = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = presented.and_then(|value| value.strip_prefix(b"Bearer "));
        is_address && matches!((&self.token, token), (Some(token), Some(given)) if token.matches(given))
    }

    fn readiness(&self, verbose: bool) -> Response<Full<Bytes>> {
        let mut waiting = self.ready.waiting_for();
        if *self.stopping.borrow() == Phase::Stopping {
            waiting.push("draining");
        }
        let status = if waiting.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        if !verbose {
            return text(status, if waiting.is_empty() { "ok\n" } else { "not ready\n" });
        }
        let provider = match &self.gateway.oidc {
            None => "not configured",
            Some(oidc) if oidc.is_ready() => "known",
            // Not a reason for being unready: everything but signing in works without it.
            Some(_) => "not known yet",
        };
        let apps = self.gateway.catalog.load().len();
        let configuration = match self.ready.configuration() {
            what if what.is_empty() => "as at the start".to_owned(),
            what => what,
        };
        let known = format!("identity provider: {provider}\napps: {apps}\nconfiguration: {configuration}\n");
        let waiting = if waiting.is_empty() { "nothing".to_owned() } else { waiting.join(", ") };
        text(status, format!("waiting for: {waiting}\n{known}"))
    }

    fn apps(&self) -> Response<Full<Bytes>> {
        let snapshot = self.gateway.catalog.load();
        let site = snapshot.site();
        let mut apps: Vec<_> = snapshot.apps().collect();
        apps.sort_by_key(|app| app.id().clone());
        let list: Vec<_> = apps
            .into_iter()
            .map(|app| {
                let problem = match &app.spec.access {
                    Access::Unknown(written) => {
                        Some(format!("access {written:?} is not understood: everybody is denied"))
                    }
                    Access::Public | Access::User | Access::Group(_) | Access::Owner(_) | Access::Admins => {
                        snapshot.note_on(app)
                    }
                };
                json!({
                    "id": app.id().as_str(),
                    "path": format!("{}/", app.mount),
                    "host": app.host.map(|label| site.url(&Place::Host(label), "/")),
                    "ports": ports(&snapshot, app),
                    "upstream": app.spec.upstream.to_string(),
                    "access": app.spec.access.to_string(),
                    "state": app.spec.state.as_str(),
                    "problem": problem,
                })
            })
            .collect();
        let problems: Vec<_> = snapshot
            .problems()
            .iter()
            .map(|Problem { id, object, what, kept }| {
                json!({ "id": id, "object": object, "problem": what, "still_published": kept })
            })
            .collect();
        let body = json!({ "apps": list, "problems": problems, "complete": snapshot.is_complete() });
        json_text(&body)
    }
}

/// The published ports of an app, each with its own rule.
fn ports(snapshot: &Snapshot, app: &App) -> Vec<serde_json::Value> {
    let ports = snapshot.ports_of(app).map(|(label, port)| {
        json!({
            "id": port.id().as_str(),
            "host": snapshot.site().url(&Place::Host(label), "/"),
            "upstream": port.spec.upstream.to_string(),
            "access": port.spec.access.to_string(),
        })
    });
    ports.collect()
}

fn unauthorized() -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
    let challenge = HeaderValue::from_static("Bearer realm=\"ludgate admin\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn json_text(body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::OK, body.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
