//! Sequential requests from a client to an app, all on one thread: direct, through bare hyper
//! without inspection of requests, and through Ludgate. The client and the app allocate nothing, so
//! all counted allocations are the proxy's.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc};

use divan::{AllocProfiler, Bencher};
use http::{Request, Response, header};
use hyper::{
    body::Incoming, client::conn::http1 as client, server::conn::http1 as server, service::service_fn,
};
use hyper_util::rt::TokioIo;
use ludgate::{
    body_budget::BodyBudget,
    caller::Callers,
    catalog::{Catalog, metrics::CatalogMetrics},
    forward::metrics::ForwardMetrics,
    gateway::{
        Gateway,
        metrics::{CLASSES, GatewayMetrics},
        sign_in_rate::SignInRate,
    },
    handler::{Handler, service::Service},
    listener::{accept, metrics::ListenerMetrics, connection_limit::ConnectionLimit},
    model::{policy_changes::PolicyChanges, clock::Clock},
    ops::{
        drain::Drain,
        line_sink::LineSink,
        metrics::{AppLabels, Registry},
        request_metrics::{DeadlineMetrics, RequestMetrics},
    },
    session::{self, metrics::SessionMetrics, Sessions},
};
use micro::sign_in;
use tikv_jemallocator::Jemalloc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle, LocalOptions, LocalRuntime},
    task::spawn_local,
};

#[global_allocator]
static ALLOCATOR: AllocProfiler<Jemalloc> = AllocProfiler::new(Jemalloc);

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: app\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\nok, as an app says it..\n";

fn main() {
    divan::main();
}

fn runtime() -> LocalRuntime {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).expect("a runtime")
}

/// An app that responds to every request with the same bytes.
async fn app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            spawn_local(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    if stream.write_all(ANSWER).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A connection that sends the same request again and again.
struct Client {
    stream: TcpStream,
    request: String,
}

impl Client {
    async fn new(address: SocketAddr, path: &str, cookies: &str) -> Client {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let _ = stream.set_nodelay(true);
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{cookies}\r\n");
        Client { stream, request }
    }

    async fn get(&mut self) {
        let mut buffer = [0; 4096];
        self.stream.write_all(self.request.as_bytes()).await.expect("written");
        let read = self.stream.read(&mut buffer).await.expect("read");
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200") && buffer[..read].ends_with(b"..\n"));
    }
}

fn run(bencher: Bencher, runtime: &LocalRuntime, mut client: Client) {
    runtime.block_on(async {
        for _ in 0..100 {
            client.get().await;
        }
    });
    bencher.bench_local(|| runtime.block_on(client.get()));
}

#[divan::bench]
fn direct(bencher: Bencher) {
    let runtime = runtime();
    let client = runtime.block_on(async { Client::new(app().await, "/x", "").await });
    run(bencher, &runtime, client);
}

/// Connections to the app that wait for a request.
type IdleConnections = Rc<RefCell<Vec<client::SendRequest<Incoming>>>>;

#[divan::bench]
fn through_bare_hyper(bencher: Bencher) {
    let runtime = runtime();
    let client = runtime.block_on(async {
        let (app, pool) = (app().await, IdleConnections::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let pool = pool.clone();
                let service = service_fn(move |request| forward(request, app, pool.clone()));
                let io = TokioIo::new(stream);
                spawn_local(server::Builder::new().auto_date_header(false).serve_connection(io, service));
            }
        });
        Client::new(address, "/x", "").await
    });
    run(bencher, &runtime, client);
}

async fn forward(
    mut request: Request<Incoming>,
    app: SocketAddr,
    pool: IdleConnections,
) -> Result<Response<Incoming>, hyper::Error> {
    request.headers_mut().remove(header::CONNECTION);
    let idle = pool.borrow_mut().pop();
    let mut sender = match idle {
        Some(sender) => sender,
        None => {
            let stream = TcpStream::connect(app).await.expect("the app");
            let _ = stream.set_nodelay(true);
            let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
            spawn_local(connection);
            sender
        }
    };
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    pool.borrow_mut().push(sender);
    Ok(response)
}

#[divan::bench]
fn through_ludgate_public(bencher: Bencher) {
    through_ludgate(bencher, false);
}

#[divan::bench]
fn through_ludgate_session(bencher: Bencher) {
    through_ludgate(bencher, true);
}

fn through_ludgate(bencher: Bencher, signed_in: bool) {
    let runtime = runtime();
    let client = runtime.block_on(async {
        let app = app().await;
        let settings = micro::settings(10, &format!("http://{app}"));
        let snapshot = ludgate::catalog::snapshot::Snapshot::new(settings.site.clone(), settings.apps);
        let (clock, policy_changes, registry) = (Clock::system(), PolicyChanges::new(), Registry::new());
        let deadlines = DeadlineMetrics::register(&registry);
        let requests = RequestMetrics::register(&registry, CLASSES);
        let session_metrics = SessionMetrics::register(&registry).into();
        let sessions =
            Sessions::new(session::SessionSettings::default(), clock.clone(), policy_changes.clone(), session_metrics);
        let (_, id, session) = sign_in(&sessions, &snapshot, "app-3");
        let names = &settings.site.cookies;
        let vhost = ludgate::model::vhost::VirtualHost::Site;
        let cookies = format!("Cookie: {}={id}; {}={session}\r\n", names.sign_in, names.app_at(&vhost));
        let sessions = Arc::new(sessions);
        let gateway = Gateway {
            callers: Callers::new(sessions.clone(), None, None, Vec::new(), clock.clone()),
            catalog: Catalog::new(
                snapshot,
                None,
                policy_changes.clone(),
                CatalogMetrics::register(&registry).into(),
            ),
            rechecks: None,
            assertions: None,
            logs: None,
            sessions,
            oidc: None,
            forms: BodyBudget::default(),
            sign_in_rate: SignInRate::new(settings.sign_ins, clock.clone()),
            anonymous_use_interval: None,
            started: clock.now(),
            clock,
            metrics: GatewayMetrics::register(&registry, requests.clone()).into(),
            forward_metrics: ForwardMetrics::register(&registry, deadlines.clone(), AppLabels::Off).into(),
            policy_changes,
            log: LineSink::off(),
            forward: settings.forward,
            control: Handle::current(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let handler = Handler::start(Arc::new(gateway));
        let service = Rc::new(Service { handler, peers: settings.peers, redirects: false });
        let metrics = Arc::new(ListenerMetrics::register(&registry, requests, deadlines));
        let limit = ConnectionLimit::new(&settings.listen, 1000, metrics.clone());
        let drain = Drain::new();
        let watcher = drain.watcher();
        std::mem::forget(drain);
        spawn_local(accept::accept(listener, false, Rc::new(settings.listen), service, limit, metrics, watcher));
        match signed_in {
            true => Client::new(address, "/apps/app-3/x", &cookies).await,
            false => Client::new(address, "/apps/open/x", "").await,
        }
    });
    run(bencher, &runtime, client);
}
