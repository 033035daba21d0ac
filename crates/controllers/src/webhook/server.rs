//! Serves the webhook: HTTPS, one path for each kind of review.
//!
//! The API server is the only client, but pods can reach the port too. So connections, bodies and
//! times are limited, and so are the reviews at one time: each may need a hundred times the memory
//! of its body. A review begins after its body, and one address has a share of the connections, so
//! that slow clients do not delay the API server. Only its long bodies may wait for theirs.
//! Responses reveal only the rules of validation, so clients need no certificate.

use std::{convert::Infallible, error::Error, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Body, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ludgate_model::concurrency_limit::{Holder, Limit, Load, LoadGuard, SlotKind};
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
/// Bodies of up to this size are read at once: on all connections together they need 8 MiB.
const SMALL_BODY: u64 = 64 << 10;
/// Longer bodies at the same time.
const MAX_LONG_BODIES: usize = 4;
/// Deadline of a body. The API server sends it at once.
const BODY_DEADLINE: Duration = Duration::from_secs(2);
/// Reviews at the same time.
const MAX_REVIEWS: usize = 2;
/// Deadline of a TLS handshake, of a request head, and of the wait for a review.
const DEADLINE: Duration = Duration::from_secs(10);
/// Connections at the same time. The API server keeps a few.
const MAX_CONNECTIONS: usize = 128;
/// The share of one address in the connections, in percent.
const CLIENT_SHARE: usize = 25;
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
    connections: Load,
    long_bodies: Semaphore,
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
            connections: Load::default(),
            long_bodies: Semaphore::new(MAX_LONG_BODIES),
            reviews: Semaphore::new(MAX_REVIEWS),
            namespaces,
            settings,
            others,
        }
    }

    /// Serves the listener until it is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(slot) = server.admit(peer.ip()) else {
                tracing::debug!(%peer, "the webhook has too many connections");
                continue;
            };
            let server = server.clone();
            tokio::spawn(async move {
                server.serve_connection(stream).await;
                drop(slot);
            });
        }
    }

    /// A slot for a connection from this address.
    fn admit(&self, peer: IpAddr) -> Option<LoadGuard> {
        let limit = Limit::new(MAX_CONNECTIONS, CLIENT_SHARE);
        let holder = Holder::new(None, Some(peer));
        self.connections
            .acquire(SlotKind::Connection, limit, holder)
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

    async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
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
        let body = request.into_body();
        let is_small = |length| length <= SMALL_BODY;
        let _long = match body.size_hint().upper().is_some_and(is_small) {
            true => None,
            // Held until the end of the review, as the body is.
            false => match timeout(DEADLINE, self.long_bodies.acquire()).await {
                Ok(Ok(permit)) => Some(permit),
                Ok(Err(_)) | Err(_) => return too_many(),
            },
        };
        let body = Limited::new(body, MAX_BODY).collect();
        let Ok(Ok(body)) = timeout(BODY_DEADLINE, body).await else {
            return text(
                StatusCode::BAD_REQUEST,
                "the body is too long or too late\n",
            );
        };
        let Ok(Ok(_permit)) = timeout(DEADLINE, self.reviews.acquire()).await else {
            return too_many();
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

fn too_many() -> Response<Full<Bytes>> {
    text(StatusCode::SERVICE_UNAVAILABLE, "too many reviews\n")
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        pin::Pin,
        task::{Context, Poll},
    };

    use futures_util::future::join_all;
    use hyper::body::{Frame, SizeHint};
    use serde_json::{Value, json};

    use super::*;

    fn server() -> WebhookServer {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let settings = ReviewedSettings {
            applications: None,
            viewers: None,
        };
        WebhookServer::new(Arc::default(), Arc::default(), settings, Vec::new())
    }

    /// A body of this length that never comes.
    struct Withheld(u64);

    impl Body for Withheld {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    fn post<B>(body: B) -> Request<B> {
        let request = Request::post("/validate").body(body);
        request.expect("a request")
    }

    #[tokio::test]
    async fn clients_that_withhold_their_bodies_delay_no_review() {
        let server = server();
        let slow = (0..64).map(|at| {
            let length = if at % 2 == 0 { 9 } else { 1 << 20 };
            server.respond(post(Withheld(length)))
        });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "1",
                "kind": { "group": "", "version": "v1", "kind": "Pod" },
                "resource": { "group": "", "version": "v1", "resource": "pods" },
                "operation": "CREATE",
                "userInfo": {},
                "namespace": "hub",
                "object": {},
            },
        });
        let good = server.respond(post(Full::from(review.to_string())));
        let response = tokio::select! {
            biased;
            _ = join_all(slow) => panic!("a slow client was answered first"),
            response = good => response,
        };
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.expect("a body");
        let answer: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        assert_eq!(answer["response"]["uid"], "1", "{answer}");
    }

    #[test]
    fn one_address_has_a_share_of_the_connections() {
        let server = server();
        let admit = |last| server.admit(Ipv4Addr::new(10, 0, 0, last).into());
        let held: Vec<_> = std::iter::from_fn(|| admit(1)).collect();
        assert!(held.len() < MAX_CONNECTIONS / 2, "{}", held.len());
        let other = admit(2);
        assert!(other.is_some());
        drop(held);
        assert!(admit(1).is_some());
    }
}
