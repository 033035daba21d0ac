//! A recording app of HTTP/2: hyper's server, with the same verbs as the app of HTTP/1.1 where they
//! have a meaning.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
};
use tokio_rustls::TlsAcceptor;

pub type Answer = UnsyncBoxBody<Bytes, Infallible>;
type Answering = Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;
/// What an app does with a request.
pub type Handler = Arc<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

/// A request as it came: head, body, trailers.
pub type Seen = (Parts, Bytes, Option<HeaderMap>);

/// A recording app. Cloning gives the same one.
#[derive(Clone)]
pub struct Http2App {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    handler: Option<Handler>,
}

impl Http2App {
    /// Without TLS.
    pub async fn start() -> Http2App {
        Http2App::answering(None).await
    }

    /// One that does something else.
    pub async fn answering(handler: Option<Handler>) -> Http2App {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let app = Http2App::at(listener.local_addr().expect("an address"), handler);
        let serving = app.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket");
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        app
    }

    /// In TLS.
    pub async fn secure(config: Arc<ServerConfig>) -> Http2App {
        let mut config = ServerConfig::clone(&config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let app = Http2App::at(listener.local_addr().expect("an address"), None);
        let serving = app.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, serving) = (acceptor.clone(), serving.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serving.serve(stream).await;
                    }
                });
            }
        });
        app
    }

    /// At a unix socket.
    pub fn at_socket(path: &Path) -> Http2App {
        let listener = UnixListener::bind(path).expect("a socket");
        let app = Http2App::at(SocketAddr::from(([0, 0, 0, 0], 0)), None);
        let serving = app.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        app
    }

    fn at(address: SocketAddr, handler: Option<Handler>) -> Http2App {
        Http2App {
            address,
            seen: Arc::default(),
            connections: Arc::default(),
            handler,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let service = service_fn(move |request| {
            let app = self.clone();
            async move { Ok::<_, Infallible>(app.answer(request).await) }
        });
        let _ = http2::Builder::new(TokioExecutor::new())
            .enable_connect_protocol()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Answer> {
        if let Some(handler) = &self.handler {
            return handler(request).await;
        }
        if request.method() == http::Method::CONNECT {
            let upgrade = hyper::upgrade::on(&mut request);
            self.record(request.into_parts().0, Bytes::new(), None);
            tokio::spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let (mut stream, mut buffer) = (TokioIo::new(upgraded), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
            return Response::new(Empty::new().boxed_unsync());
        }
        let (parts, body) = request.into_parts();
        let verb = parts
            .uri
            .path()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        // A body that ends before its end is recorded with what came of it.
        let collected = body.collect().await;
        let Ok(collected) = collected else {
            self.record(parts, Bytes::from_static(b"cut"), None);
            return status(StatusCode::BAD_REQUEST);
        };
        let trailers = collected.trailers().cloned();
        let body = collected.to_bytes();
        let kind = parts.headers.get("content-type").cloned();
        self.record(parts, body.clone(), trailers);
        match verb.as_str() {
            "chunked" => frames(["abc", "def"].map(|part| Frame::data(part.into())).into()),
            "sse" => {
                let first = stream::iter([Ok(Frame::data(Bytes::from_static(b"data: 1\n\n")))]);
                let forever = futures_util::StreamExt::chain(first, stream::pending());
                let mut response = Response::new(StreamBody::new(forever).boxed_unsync());
                response.headers_mut().insert(
                    "content-type",
                    HeaderValue::from_static("text/event-stream"),
                );
                response
            }
            "call" => {
                let mut end = HeaderMap::new();
                end.insert("grpc-status", HeaderValue::from_static("0"));
                let mut response = frames(vec![Frame::data(body), Frame::trailers(end)]);
                if let Some(kind) = kind {
                    response.headers_mut().insert("content-type", kind);
                }
                response
            }
            _ => {
                let mut response = frames(vec![Frame::data(body.clone())]);
                response
                    .headers_mut()
                    .insert("content-length", HeaderValue::from(body.len()));
                response
            }
        }
    }

    fn record(&self, parts: Parts, body: Bytes, trailers: Option<HeaderMap>) {
        self.seen
            .lock()
            .expect("no panic")
            .push((parts, body, trailers));
    }
}

pub fn status(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = status;
    response
}

pub fn frames(frames: Vec<Frame<Bytes>>) -> Response<Answer> {
    Response::new(StreamBody::new(stream::iter(frames.into_iter().map(Ok))).boxed_unsync())
}
