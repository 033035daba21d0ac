//! A server that answers as the test says, and records what it was asked.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    response::Response,
    serve::Listener,
};
use http::{HeaderMap, header::AUTHORIZATION};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// A request that a server got.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl SeenRequest {
    /// A header as text, empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name);
        let text = value.map(|value| value.to_str().expect("text").to_owned());
        text.unwrap_or_default()
    }

    pub(crate) fn authorization(&self) -> String {
        self.header(AUTHORIZATION.as_str())
    }
}

/// A server on loopback. It ends with the runtime of its test.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    /// The certificate of a server with TLS (PEM).
    pub(crate) certificate: String,
}

impl FakeServer {
    /// A server without TLS. The answer may need the server's own `host:port`.
    pub(crate) async fn start(
        answer: impl Fn(&SeenRequest, &str) -> Response + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (router, seen) = recorded(address, answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        FakeServer {
            address,
            seen,
            certificate: String::new(),
        }
    }

    /// A server with a certificate for 127.0.0.1 that signs itself.
    pub(crate) async fn start_tls(
        answer: impl Fn(&SeenRequest, &str) -> Response + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (router, seen) = recorded(address, answer);
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate and its key");
        let listener = TlsListener {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        tokio::spawn(async move { axum::serve(listener, router).await });
        FakeServer {
            address,
            seen,
            certificate: made.cert.pem(),
        }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Methods and targets of all requests so far.
    pub(crate) fn targets(&self) -> Vec<String> {
        let seen = self.seen().into_iter();
        seen.map(|request| format!("{} {}", request.method, request.target))
            .collect()
    }
}

type Seen = Arc<Mutex<Vec<SeenRequest>>>;

fn recorded(
    address: SocketAddr,
    answer: impl Fn(&SeenRequest, &str) -> Response + Send + Sync + 'static,
) -> (Router, Seen) {
    let seen = Seen::default();
    let (recorder, answer) = (seen.clone(), Arc::new(answer));
    let own = address.to_string();
    let router = Router::new().fallback(move |request: Request| {
        let (recorder, answer, own) = (recorder.clone(), answer.clone(), own.clone());
        async move {
            let request = seen_request(request).await;
            let response = answer(&request, &own);
            recorder.lock().expect("no panic").push(request);
            response
        }
    });
    (router, seen)
}

pub(crate) async fn seen_request(request: Request) -> SeenRequest {
    let (parts, body) = request.into_parts();
    SeenRequest {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        headers: parts.headers,
        body: to_bytes(body, 64 << 20).await.expect("a body"),
    }
}

/// An answer with these headers.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).expect("an answer")
}

/// Connections whose handshake fails are dropped.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.expect("a connection");
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
