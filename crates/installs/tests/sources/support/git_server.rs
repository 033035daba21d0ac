//! `git http-backend` behind an HTTP server, with or without a password.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{Router, extract::Request, response::Response};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use super::{
    BASIC,
    command::program,
    http_server::{SeenRequest, answer, seen_request},
};

/// A git server on loopback.
pub(crate) struct GitServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl GitServer {
    /// Serves the repositories below a folder to every client.
    pub(crate) async fn start(folder: &Path) -> GitServer {
        serve(folder, false).await
    }

    /// The same with a password.
    pub(crate) async fn start_with_password(folder: &Path) -> GitServer {
        serve(folder, true).await
    }

    /// The URL of the repository `charts`.
    pub(crate) fn remote(&self) -> String {
        format!("http://{}/charts", self.address)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("no panic").clone()
    }
}

async fn serve(folder: &Path, wants_password: bool) -> GitServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
    let (recorder, folder) = (seen.clone(), folder.to_owned());
    let router = Router::new().fallback(move |request: Request| {
        let (recorder, folder) = (recorder.clone(), folder.clone());
        async move {
            let request = seen_request(request).await;
            recorder.lock().expect("no panic").push(request.clone());
            if wants_password && request.authorization() != BASIC {
                return answer(401, &[("WWW-Authenticate", "Basic realm=\"git\"")], "");
            }
            run_backend(&request, folder).await
        }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    GitServer { address, seen }
}

/// Calls the program by the rules of CGI (RFC 3875).
async fn run_backend(request: &SeenRequest, folder: PathBuf) -> Response {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((request.target.as_str(), ""));
    let mut command = tokio::process::Command::from(program("git"));
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", request.header("content-type"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", request.header("content-encoding"))
        .env("GIT_PROTOCOL", request.header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().expect("git is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    let body = request.body.clone();
    // The program may write before it has read everything.
    tokio::spawn(async move {
        // It fails if the program does not read to the end.
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.expect("the program ends");
    response_of(&output.stdout)
}

fn response_of(output: &[u8]) -> Response {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.expect("headers");
    let (head, body) = output.split_at(end + 4);
    let head = String::from_utf8_lossy(head).into_owned();
    let mut headers: Vec<(&str, &str)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .collect();
    let status = headers.iter().find(|(name, _)| *name == "Status");
    let status = status.and_then(|(_, value)| value.get(..3)?.parse().ok());
    headers.retain(|(name, _)| *name != "Status");
    answer(status.unwrap_or(200), &headers, body.to_vec())
}
