//! One process takes the place of another while people use it: with sockets that outlive both
//! (LISTEN_FDS), and on a port that they share for a while.

use std::{
    net::TcpListener,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::net::TcpStream;

use crate::support::{
    backend::Backend,
    message::Reader,
    process::{Running, ended, program},
    raw::Raw,
    until::{until, until_async},
    world::free_port,
};

/// A process with this socket as its only inherited one, or none.
fn process(folder: &Path, text: &str, socket: Option<&TcpListener>) -> Running {
    std::fs::write(folder.join("ludgate.toml"), text).expect("written");
    let mut command = match socket {
        None => Command::new(program()),
        Some(socket) => {
            let mut shell = Command::new("sh");
            // Descriptor 3 is the first that is handed over; the shell becomes the process that is
            // named.
            shell
                .arg("-c")
                .arg("exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"");
            shell.arg(program());
            shell.stdin(Stdio::from(OwnedFd::from(
                socket.try_clone().expect("a descriptor"),
            )));
            shell
        }
    };
    let child = command
        .args(["gateway", "--config"])
        .arg(folder.join("ludgate.toml"))
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    Running(child)
}

fn terminate(process: &Running) {
    let id = process.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("kill runs")
            .success()
    );
}

fn text(port: u16, admin: u16, backend: &Backend, listen: &str) -> String {
    format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\n{listen}[admin]\naddress = \"127.0.0.1:{admin}\"\n\
         [site]\nurl = \"http://127.0.0.1:{port}\"\n[limits]\nstop_grace = \"300ms\"\n\
         [[apps]]\nid = \"one\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    )
}

async fn until_ready(admin: u16) {
    until_async("it becomes ready", async || {
        let Ok(stream) = TcpStream::connect(("127.0.0.1", admin)).await else {
            return false;
        };
        let (read, mut write) = stream.into_split();
        let request = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let _ = tokio::io::AsyncWriteExt::write_all(&mut write, request).await;
        let answer = Reader::new(read).message(false).await;
        matches!(answer, Ok(Some(answer)) if answer.status() == 200)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_handed_over_outlives_the_process_and_no_request_fails() {
    let backend = Backend::start("one").await;
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("an address").port();
    let admins = [free_port(), free_port(), free_port()];
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let (stop, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut current = process(
        folders[0].path(),
        &text(port, admins[0], &backend, ""),
        Some(&socket),
    );
    until_ready(admins[0]).await;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, done) = (stop.clone(), done.clone());
            tokio::spawn(async move {
                let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
                let request = format!("GET /apps/one/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
                while !stop.load(Ordering::SeqCst) {
                    let mut raw = Raw::connect(address).await;
                    loop {
                        raw.send(&request).await;
                        // Not one is lost, also not on a connection that was used before.
                        let answer = raw.answer().await.expect("an answer");
                        assert_eq!(answer.status(), 200);
                        done.fetch_add(1, Ordering::SeqCst);
                        if answer.header("connection").as_deref() == Some("close")
                            || stop.load(Ordering::SeqCst)
                        {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    for (folder, admin) in folders.iter().zip(admins).skip(1) {
        let before = done.load(Ordering::SeqCst);
        let next = process(
            folder.path(),
            &text(port, admin, &backend, ""),
            Some(&socket),
        );
        until_ready(admin).await;
        let old = std::mem::replace(&mut current, next);
        terminate(&old);
        assert_eq!(ended(old).await.code(), Some(0));
        until("it goes on", || done.load(Ordering::SeqCst) >= before + 200).await;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("no request failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_for_an_address_that_is_configured_nowhere_is_a_mistake() {
    let backend = Backend::start("one").await;
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let other = process(
        folder.path(),
        &text(free_port(), free_port(), &backend, ""),
        Some(&socket),
    );
    assert_eq!(ended(other).await.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_shared_when_a_takeover_is_meant_and_only_then() {
    let backend = Backend::start("one").await;
    let (port, admin) = (free_port(), free_port());
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let shared = text(port, admin, &backend, "takeover = true\n");
    let first = process(folders[0].path(), &shared, None);
    until_ready(admin).await;
    // Without `takeover` a second process is a mistake.
    let careless = process(folders[1].path(), &text(port, admin, &backend, ""), None);
    assert_eq!(ended(careless).await.code(), Some(2));
    let second = process(folders[2].path(), &shared, None);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    terminate(&first);
    assert_eq!(ended(first).await.code(), Some(0));
    until_ready(admin).await;
    let answer = Raw::exchange(
        address,
        format!("GET /apps/one/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
    )
    .await;
    assert_eq!(answer.status(), 200, "the second serves alone");
    terminate(&second);
    assert_eq!(ended(second).await.code(), Some(0));
}
