//! The gateway beside a container, as crunch-run has it: it proves itself, checks the caller, and
//! relays to a port inside.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use aws_lc_rs::hmac;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use super::certificates::SelfSigned;

pub const AUTHORIZATION: HeaderName = HeaderName::from_static("x-arvados-authorization");
pub const PROOF: HeaderName = HeaderName::from_static("x-arvados-authorization-response");
pub const CONTAINER: HeaderName = HeaderName::from_static("x-arvados-container-gateway-uuid");
pub const PORT: HeaderName = HeaderName::from_static("x-arvados-container-target-port");

/// How an impostor may answer in place of a container's gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Reaches the app, and proves with a key that it made up.
    WrongProof,
    /// Reaches the app, and proves nothing.
    NoProof,
    /// Reaches the app, and sends back the authorization that it was given.
    EchoedProof,
    /// Reaches the app, and gives a wrong proof before the right one.
    TwoProofs,
    /// A man in the middle: shows its own certificate and forwards requests to the true gateway,
    /// which refuses them, since the authorization is for another certificate.
    OtherCertificate,
}

/// What outlives the gateway when its container stops and runs again.
pub struct Door {
    pub handshakes: AtomicUsize,
    pub lie: Mutex<Option<Lie>>,
    container: String,
    /// The text that is the key of both proofs.
    key: String,
    own: SelfSigned,
    strangers: SelfSigned,
    ports: HashMap<u16, SocketAddr>,
}

/// A listening gateway. Dropping it is what happens when crunch-run ends: the listener and every
/// connection, tunnels too, are closed.
pub struct ContainerGateway {
    pub address: SocketAddr,
    _alive: watch::Sender<()>,
}

type Body = BoxBody<Bytes, hyper::Error>;

impl Door {
    pub fn new(container: &str, root_token: &str, ports: &[(u16, SocketAddr)]) -> Door {
        Door {
            handshakes: AtomicUsize::new(0),
            lie: Mutex::new(None),
            container: container.to_owned(),
            key: keyed_hash(root_token, container.as_bytes()),
            own: SelfSigned::new(),
            strangers: SelfSigned::new(),
            ports: ports.iter().copied().collect(),
        }
    }

    /// Listens on a port of its own choice.
    pub fn open(self: Arc<Door>) -> ContainerGateway {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("a runtime");
        let address = listener.local_addr().expect("an address");
        let (alive, dead) = watch::channel(());
        tokio::spawn(until(dead.clone(), async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(until(
                    dead.clone(),
                    Arc::clone(&self).serve(stream, dead.clone()),
                ));
            }
        }));
        ContainerGateway {
            address,
            _alive: alive,
        }
    }

    async fn serve(self: Arc<Door>, stream: TcpStream, dead: watch::Receiver<()>) {
        let shown = match self.lie() {
            Some(Lie::OtherCertificate) => &self.strangers,
            _ => &self.own,
        };
        let _ = stream.set_nodelay(true);
        let Ok(stream) = TlsAcceptor::from(Arc::clone(&shown.server))
            .accept(stream)
            .await
        else {
            return;
        };
        self.handshakes.fetch_add(1, Ordering::SeqCst);
        let answers = service_fn(|request| {
            let (door, dead) = (Arc::clone(&self), dead.clone());
            async move { Ok::<_, hyper::Error>(door.answer(request, dead).await) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(stream), answers)
            .with_upgrades()
            .await;
    }

    fn lie(&self) -> Option<Lie> {
        *self.lie.lock().expect("no panic")
    }

    /// The checks in the order of crunch-run's. Before the caller has proved itself, nothing is
    /// proved to it.
    async fn answer(
        &self,
        request: Request<Incoming>,
        dead: watch::Receiver<()>,
    ) -> Response<Body> {
        let given = |name| {
            request
                .headers()
                .get(name)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
        };
        let meant_for = given(CONTAINER);
        if meant_for != self.container {
            let own = &self.container;
            let text =
                format!("misdirected request: meant for {meant_for:?}, received by {own:?}\n");
            return refusal(StatusCode::BAD_GATEWAY, text);
        }
        let authorization = given(AUTHORIZATION).to_owned();
        if authorization != keyed_hash(&self.key, &self.own.certificate) {
            return refusal(
                StatusCode::UNAUTHORIZED,
                format!("bad {AUTHORIZATION} header\n"),
            );
        }
        let mut response = match given(PORT) {
            "" => refusal(StatusCode::NOT_FOUND, "path not found\n".to_owned()),
            port => match port
                .parse()
                .ok()
                .and_then(|port: u16| self.ports.get(&port))
            {
                Some(app) => relay(request, *app, dead).await.unwrap_or_else(|error| {
                    refusal(
                        StatusCode::BAD_GATEWAY,
                        format!("the app at this port: {error}\n"),
                    )
                }),
                None => refusal(
                    StatusCode::BAD_GATEWAY,
                    format!("connection refused: port {port}\n"),
                ),
            },
        };
        response.headers_mut().remove(PROOF);
        for proof in self.proofs(authorization) {
            let proof = HeaderValue::try_from(proof).expect("a text");
            response.headers_mut().append(PROOF, proof);
        }
        response
    }

    fn proofs(&self, authorization: String) -> Vec<String> {
        let right = keyed_hash(&self.key, authorization.as_bytes());
        let wrong = keyed_hash("a made-up key", authorization.as_bytes());
        match self.lie() {
            None | Some(Lie::OtherCertificate) => vec![right],
            Some(Lie::WrongProof) => vec![wrong],
            Some(Lie::NoProof) => Vec::new(),
            Some(Lie::EchoedProof) => vec![authorization],
            Some(Lie::TwoProofs) => vec![wrong, right],
        }
    }
}

/// HMAC-SHA256 in small hexadecimal digits.
fn keyed_hash(key: &str, message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), message);
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn refusal(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::from(text).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Sends the request to the app without the four headers, and brings its answer or a tunnel back.
/// One connection for each request: what the app sees depends on nothing that came before.
async fn relay(
    mut request: Request<Incoming>,
    app: SocketAddr,
    dead: watch::Receiver<()>,
) -> Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>> {
    let own = [AUTHORIZATION, PROOF, CONTAINER, PORT];
    // Written anew instead of removed, because a removal changes the order of the others.
    let mut headers = HeaderMap::new();
    for (name, value) in request
        .headers()
        .iter()
        .filter(|(name, _)| !own.contains(name))
    {
        headers.append(name, value.clone());
    }
    *request.headers_mut() = headers;
    let near = hyper::upgrade::on(&mut request);
    let stream = TcpStream::connect(app).await?;
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await?;
    let connection = connection.with_upgrades();
    tokio::spawn(until(dead.clone(), async {
        connection.await.unwrap_or_default()
    }));
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let far = hyper::upgrade::on(&mut response);
        tokio::spawn(until(dead, async {
            if let (Ok(near), Ok(far)) = tokio::join!(near, far) {
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(near), &mut TokioIo::new(far))
                        .await;
            }
        }));
    }
    Ok(response.map(BodyExt::boxed))
}

/// Does the work until the gateway is gone.
async fn until(mut dead: watch::Receiver<()>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = dead.changed() => {}
    }
}
