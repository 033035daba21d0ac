//! A process that is no gateway: it has probes, metrics, logs, a route of its own and a drain, by
//! `ludgate-ops` alone.

#![allow(clippy::expect_used, reason = "a test's helper fails the test")]

use std::{net::SocketAddr, time::Duration};

use http::{Method, StatusCode};
use ludgate_model::secret::Secret;
use ludgate_ops::{
    admin, logging,
    process::Process,
    request_metrics::{DeadlineMetrics, RequestMetrics},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

struct Worker {
    process: Process,
    requests: RequestMetrics,
    admin: SocketAddr,
    work: JoinHandle<()>,
}

/// All that a kind of process writes by itself: its room's metrics, a condition for being ready, a
/// route, its work.
async fn start() -> Worker {
    logging::start(&logging::LogSettings {
        requests: false,
        level: "info".into(),
    });
    let process = Process::new();
    let requests = RequestMetrics::register(&process.registry, &["job"]);
    let _deadlines = DeadlineMetrics::register(&process.registry);
    let starting = process.ready.latch("the queue");
    let server = process
        .admin(Some(Secret::new("an-admin-token")))
        .route("/jobs", &[Method::GET], |_| async {
            admin::text(StatusCode::OK, "none\n")
        })
        .status("queue", || "empty".to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let admin = listener.local_addr().expect("an address");
    tokio::spawn(server.serve(listener));
    let mut drain = process.drain.watcher();
    let work = tokio::spawn(async move {
        starting.release();
        tracing::info!("the queue is open");
        drain.stopping().await;
    });
    Worker {
        process,
        requests,
        admin,
        work,
    }
}

async fn get(address: SocketAddr, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn a_process_without_a_gateway_has_probes_metrics_routes_and_a_drain() {
    let Worker {
        process,
        requests,
        admin,
        work,
    } = start().await;
    while !process.ready.waiting_for().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(get(admin, "/livez", "").await.starts_with("HTTP/1.1 200 "));
    assert!(get(admin, "/readyz", "").await.ends_with("ok\n"));
    let verbose = get(admin, "/readyz?verbose", "").await;
    assert!(
        verbose.ends_with("waiting for: nothing\ndegraded: nothing\nqueue: empty\n"),
        "{verbose}"
    );
    requests.count("job", 200);
    let metrics = get(admin, "/metrics", "").await;
    for line in [
        "ludgate_requests_total{class=\"job\",code=\"200\"} 1",
        "ludgate_config_last_reload_success 1",
        "ludgate_build_info{version=",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(
        !metrics.contains("ludgate_catalog_apps"),
        "nothing of a gateway:\n{metrics}"
    );
    assert!(get(admin, "/jobs", "").await.starts_with("HTTP/1.1 401 "));
    assert!(
        get(admin, "/jobs", "Authorization: Bearer an-admin-token\r\n")
            .await
            .ends_with("none\n")
    );
    assert!(
        get(admin, "/apps", "").await.starts_with("HTTP/1.1 404 "),
        "an unregistered route"
    );
    let not_ready = process.ready.latch("the queue");
    assert!(get(admin, "/readyz", "").await.starts_with("HTTP/1.1 503 "));
    not_ready.release();
    assert!(
        process.drain.stop(Duration::from_secs(10)).await,
        "the work ends with the process"
    );
    work.await.expect("no panic");
    assert!(
        get(admin, "/readyz?verbose", "")
            .await
            .contains("waiting for: draining")
    );
}

#[tokio::test]
async fn without_a_token_there_is_no_route() {
    let server = Process::new()
        .admin(None)
        .route("/jobs", &[Method::GET], |_| async {
            admin::text(StatusCode::OK, "none\n")
        });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(server.serve(listener));
    assert!(get(address, "/jobs", "").await.starts_with("HTTP/1.1 404 "));
}
