//! File descriptors run short (docs/behaviour.md#limits). The real binary in a process of its own,
//! with a limit of its own.

use std::{
    collections::HashSet,
    fs,
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStderr, Command},
};

use crate::support::{
    backend::Backend,
    message::PATIENCE,
    process::{gateway, gateway_with_files, with_files},
    raw::Raw,
    until::{assert_soon, until_async},
    world::free_port,
};

/// A configuration with the app `open`, and where it listens: for people, for operators.
fn configuration(backend: &Backend) -> (String, SocketAddr, SocketAddr) {
    let [listen, admin] =
        [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let text = format!(
        "[listen]\naddress = \"{listen}\"\n[admin]\naddress = \"{admin}\"\n[site]\nurl = \"http://{listen}\"\n\
         [[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    (text, listen, admin)
}

fn request(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")
}

async fn get_status(address: SocketAddr, path: &str) -> Option<u16> {
    let mut raw = Raw::connect(address).await;
    raw.send(request(address, path)).await;
    raw.answer().await.map(|answer| answer.status())
}

/// Waits until a new connection reaches the app.
async fn recovered(address: SocketAddr) {
    until_async("new connections are served again", async || {
        get_status(address, "/apps/open/").await == Some(200)
    })
    .await;
}

/// Waits until all data threads accept connections.
async fn until_ready(admin: &mut Raw, address: SocketAddr) {
    until_async("the process becomes ready", async || {
        admin.send(request(address, "/readyz")).await;
        let answer = admin.reader.message(false).await.expect("readable");
        answer.expect("an answer").status() == 200
    })
    .await;
}

async fn metric(admin: &mut Raw, address: SocketAddr, name: &str) -> u64 {
    admin.send(request(address, "/metrics")).await;
    let text = admin
        .reader
        .message(false)
        .await
        .expect("readable")
        .expect("an answer")
        .text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_take_the_descriptors_that_apps_and_operators_need() {
    let backend = Backend::start("app").await;
    let folder = tempfile::tempdir().expect("a folder");
    let (text, listen, admin) = configuration(&backend);
    let (room, threads) = (
        40,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    let files = 64 + 4 * threads + 2 * room;
    let _running = gateway_with_files(files, folder.path(), &text, listen.port()).await;
    recovered(listen).await;
    let mut operator = Raw::connect(admin).await;
    until_async("the probing connections are closed", async || {
        metric(&mut operator, admin, "ludgate_connections").await == 0
    })
    .await;
    let before = backend.count();
    // Each holds a connection to the app as well.
    let mut held = Vec::new();
    for count in 1..=room {
        let mut raw = Raw::connect(listen).await;
        raw.send(request(listen, "/apps/open/hang")).await;
        let reached = async {
            while backend.count() < before + count {
                tokio::task::yield_now().await
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "the app is reached by connection {count}");
        held.push(raw);
    }
    for _ in 0..20 {
        assert_eq!(
            get_status(listen, "/apps/open/").await,
            None,
            "over what there is room for"
        );
    }
    assert_eq!(
        get_status(admin, "/livez").await,
        Some(200),
        "the operator is answered"
    );
    assert_eq!(
        metric(&mut operator, admin, "ludgate_accept_failures_total").await,
        0
    );
    let refused = "ludgate_connections_refused_total{reason=\"limit\"}";
    assert_eq!(metric(&mut operator, admin, refused).await, 20);
    drop(held);
    recovered(listen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_descriptors_neither_ends_nor_spins_and_recovers_by_itself() {
    let backend = Backend::start("app").await;
    let folder = tempfile::tempdir().expect("a folder");
    let (text, listen, admin) = configuration(&backend);
    let mut running = gateway(folder.path(), &text, listen.port()).await;
    let process = i32::try_from(running.0.id()).expect("a process id");
    let mut operator = Raw::connect(admin).await;
    until_ready(&mut operator, admin).await;
    assert_eq!(
        metric(&mut operator, admin, "ludgate_accept_failures_total").await,
        0
    );
    // From now on only some more files, whatever the limit was when it started.
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("a process");
    let taken: HashSet<u64> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let files = (0..)
        .find(|number| !taken.contains(number))
        .expect("a free one")
        + 10;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let short = Rlimit {
        current: Some(files),
        maximum,
    };
    prlimit(Pid::from_raw(process), Resource::Nofile, short).expect("a lower limit");
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(Raw::connect(listen).await);
    }
    let failures = async |operator: &mut Raw, wanted: u64| {
        let counted = async {
            loop {
                let count = metric(operator, admin, "ludgate_accept_failures_total").await;
                if count >= wanted {
                    return count;
                }
            }
        };
        tokio::time::timeout(PATIENCE, counted)
            .await
            .expect("accepting fails")
    };
    // Before the first count: what fails until the last one must be explained by time that is
    // measured.
    let since = Instant::now();
    let first = failures(&mut operator, 1).await;
    // The open admin connection is still served.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = u64::try_from(threads).expect("a number");
    let more = failures(&mut operator, first + 4 * threads).await - first;
    let pauses = u64::try_from(since.elapsed().as_millis() / 50).expect("a number");
    // Each thread fails at once, and then once for every pause that is over; one more for the
    // clock.
    assert!(
        more <= threads * (pauses + 2),
        "{more} failures in {:?}: it spins",
        since.elapsed()
    );
    drop(held);
    let freed = Instant::now();
    recovered(listen).await;
    assert_soon(Duration::from_secs(1), freed.elapsed());
    assert!(
        running.0.try_wait().expect("a process").is_none(),
        "it did not end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_starts_with_all_its_data_threads_or_not_at_all() {
    let backend = Backend::start("app").await;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = HashSet::new();
    for files in (12..64 + 4 * threads).step_by(3) {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, ..) = configuration(&backend);
        let config = folder.path().join("ludgate.toml");
        fs::write(&config, text).expect("written");
        let mut command = Command::from(with_files(files));
        command
            .args(["gateway", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("a shell");
        let log = child.stderr.take().expect("a pipe");
        let is_listening = tokio::time::timeout(PATIENCE, says_listening(log)).await;
        if is_listening.expect("it ends or listens") {
            let process = child.id().expect("it runs");
            assert_eq!(data_threads(process), threads, "{files} files");
            outcomes.insert("started");
        } else {
            let status = child.wait().await.expect("a process");
            assert!(!status.success(), "{files} files");
            outcomes.insert("refused");
        }
    }
    assert_eq!(outcomes.len(), 2, "too few files, and enough");
}

/// Whether the process logs that it listens, before it ends.
async fn says_listening(log: ChildStderr) -> bool {
    let mut lines = BufReader::new(log).lines();
    while let Some(line) = lines.next_line().await.expect("readable") {
        if line.contains("\"message\":\"listening\"") {
            return true;
        }
    }
    false
}

fn data_threads(process: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("ludgate-data-"))
        .count()
}
