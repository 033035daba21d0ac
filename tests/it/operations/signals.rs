//! SIGTERM and SIGHUP at any time, also right after the start and under load; and memory that
//! cannot be dumped.

use std::{
    io::ErrorKind,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    backend::Backend,
    message::PATIENCE,
    process::{Running, ended, program},
    until::{in_time, until, until_async},
    world::free_port,
};

fn start(folder: &tempfile::TempDir, port: u16, more: &str) -> Running {
    configure(folder, port, more);
    Running(command(folder).spawn().expect("the binary runs"))
}

fn configure(folder: &tempfile::TempDir, port: u16, more: &str) {
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [site]\nurl = \"http://127.0.0.1:{port}\"\n[limits]\nstop_grace = \"0s\"\n[log]\nlevel = \"error\"\nrequests = false\n{more}"
    );
    std::fs::write(folder.path().join("ludgate.toml"), text).expect("written");
}

fn command(folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(program());
    command
        .args(["gateway", "--config"])
        .arg(folder.path().join("ludgate.toml"))
        .stdout(Stdio::null());
    command
}

fn signal(process: &Child, signal: Signal) {
    let id = i32::try_from(process.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("it runs");
    kill_process(id, signal).expect("told");
}

async fn listens(port: u16) {
    // Without a pause: the tests signal a process that has just begun to listen.
    let listening = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    in_time("the process listens", listening).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_just_begun_to_listen_stops_in_order_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..100 {
        let port = free_port();
        let process = start(&folder, port, "");
        listens(port).await;
        signal(&process.0, Signal::HUP);
        signal(&process.0, Signal::TERM);
        let status = ended(process).await;
        assert_eq!(status.code(), Some(0), "round {round}: {status}");
    }
}

/// What one request on a connection of its own came to.
enum Came {
    Answered,
    /// The listener is closed.
    Refused,
    Lost(String),
}

async fn request_once(port: u16) -> Came {
    let mut stream = match TcpStream::connect(("127.0.0.1", port)).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Came::Refused,
        Err(error) => return Came::Lost(format!("connecting: {error}")),
    };
    let request =
        format!("GET /apps/one/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let exchanged = async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    match in_time("an answer or the end", exchanged).await {
        Ok(_) if answer.starts_with(b"HTTP/1.1 200 ") => Came::Answered,
        Ok(_) => Came::Lost(format!("answered {:?}", String::from_utf8_lossy(&answer))),
        Err(error) => Came::Lost(error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_connections_are_served_when_a_process_stops() {
    let backend = Backend::start("one").await;
    let app = format!(
        "[[apps]]\nid = \"one\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    for round in 0..5 {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let process = start(&folder, port, &app);
        listens(port).await;
        let answered = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let answered = answered.clone();
                tokio::spawn(async move {
                    loop {
                        match request_once(port).await {
                            Came::Answered => answered.fetch_add(1, Ordering::SeqCst),
                            Came::Refused => return Ok(()),
                            Came::Lost(what) => return Err(what),
                        };
                    }
                })
            })
            .collect();
        until("the process serves", || {
            answered.load(Ordering::SeqCst) >= 300
        })
        .await;
        signal(&process.0, Signal::TERM);
        for client in clients {
            let came = tokio::time::timeout(PATIENCE, client)
                .await
                .expect("in time")
                .expect("no panic");
            assert_eq!(came, Ok(()), "round {round}");
        }
        assert_eq!(ended(process).await.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_has_asked_for_nothing_yet_gets_its_first_request_answered() {
    let backend = Backend::start("one").await;
    let app = format!(
        "[[apps]]\nid = \"one\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let process = start(&folder, port, &app);
    listens(port).await;
    let mut early = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("it listens");
    // Accepted: a later connection was served.
    assert!(matches!(request_once(port).await, Came::Answered));
    signal(&process.0, Signal::TERM);
    until_async("the process stops listening", async || {
        matches!(request_once(port).await, Came::Refused)
    })
    .await;
    let request = format!("GET /apps/one/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    early.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, early.read_to_string(&mut answer)).await;
    read.expect("in time").expect("no reset");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
        "{answer}"
    );
    assert_eq!(ended(process).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_leaves_no_core_dump() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let process = start(&folder, port, "");
    listens(port).await;
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", process.0.id())).expect("it runs");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a limit");
    assert_eq!(
        core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(),
        ["0", "0"],
        "{core}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_not_dumpable_so_its_user_cannot_trace_it() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    configure(&folder, port, "");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("changed");
    let mut command = command(&folder);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let process = Running(command.spawn().expect("the binary runs"));
    listens(port).await;
    // The /proc files of such a process belong to root (proc(5)), and else to its user.
    let owner = std::os::unix::fs::MetadataExt::uid(
        &std::fs::metadata(format!("/proc/{}/environ", process.0.id())).expect("it runs"),
    );
    assert_eq!(owner, 0, "not dumpable");
}
