//! Serves the webhook: HTTPS, one path for each kind of review.
//!
//! The API server is the only client, but pods can reach the port too. So connections, bodies and
//! times are limited, and so are the reviews at one time: each may need a hundred times the memory
//! of its body. Responses reveal only the rules of validation, so clients need no
//! certificate.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    certificate_store::CurrentCertificate,
    object_rules::RulesSource,
    review::{AdmissionRules, ReviewKind, read_request, respond},
};
use crate::{application::settings::ApplicationSettings, viewer::settings::ViewerSettings};

/// The object twice, each up to etcd's limit of 1.5 MiB.
const MAX_BODY: usize = 4 << 20;
/// Reviews at the same time.
const MAX_REVIEWS: usize = 2;
/// Deadline of a TLS handshake, of a request head, and of a body.
const DEADLINE: Duration = Duration::from_secs(10);
/// Connections at the same time. The API server keeps a few.
const MAX_CONNECTIONS: usize = 128;
/// A connection ends after this time, also one whose client does not read.
const MAX_LIFETIME: Duration = Duration::from_secs(120);
/// Pause after a failed accept, such as without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where the settings in force are read; `None`: that controller is off.
pub struct ReviewedSettings {
    /// The settings of the controller of apps.
    pub applications: Option<watch::Receiver<Arc<ApplicationSettings>>>,
    /// The settings of the controller of viewers.
    pub viewers: Option<watch::Receiver<Arc<ViewerSettings>>>,
}

/// The webhook's server.
pub struct WebhookServer {
    acceptor: TlsAcceptor,
    reviews: Semaphore,
    namespaces: Arc<[String]>,
    settings: ReviewedSettings,
    others: Vec<Box<dyn RulesSource>>,
}

impl WebhookServer {
    /// Serves the certificate that was read last, and decides on objects of these
    /// namespaces by the settings in force. `others` decide on the objects that they cover.
    pub fn new(
        certificate: Arc<CurrentCertificate>,
        namespaces: Arc<[String]>,
        settings: ReviewedSettings,
        others: Vec<Box<dyn RulesSource>>,
    ) -> WebhookServer {
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        WebhookServer {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            reviews: Semaphore::new(MAX_REVIEWS),
            namespaces,
            settings,
            others,
        }
    }

    /// Serves the listener until it is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let server = server.clone();
            tokio::spawn(async move {
                server.serve_connection(stream).await;
                drop(slot);
            });
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let Ok(Ok(stream)) = timeout(DEADLINE, self.acceptor.accept(stream)).await else {
            return;
        };
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.respond(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(DEADLINE)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        if timeout(MAX_LIFETIME, connection.as_mut()).await.is_err() {
            // A request in progress is still answered.
            connection.as_mut().graceful_shutdown();
            let _ = timeout(DEADLINE, connection).await;
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let kind = match request.uri().path() {
            "/validate" => ReviewKind::Validate,
            "/default" => ReviewKind::Default,
            _ => {
                return text(
                    StatusCode::NOT_FOUND,
                    "the paths are /validate and /default\n",
                );
            }
        };
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "POST only\n");
        }
        // Before the body, which is in memory as long as the review lasts.
        let Ok(Ok(_permit)) = timeout(DEADLINE, self.reviews.acquire()).await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "too many reviews\n");
        };
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let Ok(Ok(body)) = timeout(DEADLINE, body).await else {
            return text(
                StatusCode::BAD_REQUEST,
                "the body is too long or too late\n",
            );
        };
        self.review(kind, body.to_bytes()).await
    }

    /// Reviews run in threads of their own: reconciles and the renewal of the lease must not wait
    /// for them.
    async fn review(&self, kind: ReviewKind, body: Bytes) -> Response<Full<Bytes>> {
        let request = match spawn_blocking(move || read_request(&body)).await {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return text(StatusCode::BAD_REQUEST, "the review has no request\n"),
            Ok(Err(error)) => {
                return text(
                    StatusCode::BAD_REQUEST,
                    format!("no AdmissionReview of admission.k8s.io/v1: {error}\n"),
                );
            }
            Err(_) => return text(StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n"),
        };
        let source = self.others.iter().find(|source| source.covers(&request));
        let others = match source {
            None => None,
            Some(source) => match source.rules(&request).await {
                Ok(rules) => Some(rules),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the object that a review depends on");
                    // The failure policy of the webhook decides then.
                    let reason = "the cluster did not answer\n";
                    return text(StatusCode::SERVICE_UNAVAILABLE, reason);
                }
            },
        };
        let rules = AdmissionRules {
            namespaces: self.namespaces.clone(),
            applications: current(self.settings.applications.as_ref()),
            viewers: current(self.settings.viewers.as_ref()),
        };
        let reviewed = spawn_blocking(move || {
            let review = respond(kind, &request, &rules, others.as_deref());
            serde_json::to_vec(&review)
        });
        let Ok(Ok(body)) = reviewed.await else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n");
        };
        let mut response = Response::new(Full::new(body.into()));
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

/// The settings in force, if their controller is on.
fn current<S>(settings: Option<&watch::Receiver<Arc<S>>>) -> Option<Arc<S>> {
    settings.map(|settings| settings.borrow().clone())
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
