//! A git repository with a chart, behind `git http-backend`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    process::Command,
};

use super::{
    helm::charts,
    message::{Message, Reader},
    web_chart::write_web_chart,
};

/// The versions of the chart, and their tags.
const VERSIONS: [(&str, &str); 2] = [("0.1.0", "v1"), ("0.2.0", "v2")];

/// A git server on loopback with the repository `charts`.
pub struct GitServer {
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl GitServer {
    /// The folder `chart` of the repository has the chart with pods, in the version 0.1.0 at the
    /// tag `v1` and 0.2.0 at `v2`.
    pub async fn start(chart: &str) -> GitServer {
        let write = |files: &Path, version: &str| write_web_chart(files, chart, version);
        GitServer::with(chart, write).await
    }

    /// The same of the folder and the chart `example`, which has no pods.
    pub async fn of_examples() -> GitServer {
        let write = |files: &Path, version: &str| {
            let copied = std::process::Command::new("cp")
                .arg("-r")
                .arg(charts().join(format!("example-{version}")))
                .arg(files)
                .status();
            assert!(copied.expect("cp").success());
        };
        GitServer::with("example", write).await
    }

    /// `write` makes the folder of the chart in this version.
    async fn with(chart: &str, write: impl Fn(&Path, &str)) -> GitServer {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = folder.path().join("charts");
        git(folder.path(), &["init", "-q", "-b", "main", "charts"]).await;
        for (version, tag) in VERSIONS {
            let files = repository.join(chart);
            // The first version has none before it.
            let _ = std::fs::remove_dir_all(&files);
            write(&files, version);
            git(&repository, &["add", "--all"]).await;
            git(&repository, &["commit", "-q", "-m", version]).await;
            git(&repository, &["tag", tag]).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let root = folder.path().to_owned();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, root.clone()));
            }
        });
        GitServer {
            address,
            _folder: folder,
        }
    }

    /// The URL of the repository.
    pub fn remote(&self) -> String {
        format!("http://{}/charts", self.address)
    }
}

/// The program without the settings of the developer.
fn program() -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Test")
            .env(format!("GIT_{role}_EMAIL"), "test@example.com");
    }
    command
}

async fn git(folder: &Path, arguments: &[&str]) {
    let ran = program().current_dir(folder).args(arguments).output().await;
    let output = ran.expect("git is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
}

/// Answers one request. A client that breaks off gets no answer.
async fn serve(stream: TcpStream, root: PathBuf) {
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read);
    let Ok(Some(request)) = reader.message(false).await else {
        return;
    };
    let answer = call_backend(&request, &root).await;
    let _ = write.write_all(&answer).await;
}

/// Calls the program by the rules of CGI (RFC 3875).
async fn call_backend(request: &Message, root: &Path) -> Vec<u8> {
    let method = request.start.split(' ').next().unwrap_or_default();
    let target = request.target();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| request.header(name).unwrap_or_default();
    let mut child = program()
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("git is installed");
    let mut stdin = child.stdin.take().expect("an input");
    // A program that has ended reads nothing. The requests of a fetch fit into the pipe.
    let _ = stdin.write_all(&request.body).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    answer_of(&output.stdout)
}

/// The HTTP answer of what the program prints.
fn answer_of(printed: &[u8]) -> Vec<u8> {
    let end = printed.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = printed.split_at(end.expect("headers") + 4);
    let head = String::from_utf8_lossy(head);
    let (mut status, mut fields) = ("200 OK", String::new());
    for line in head.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("Status: ") {
            Some(told) => status = told,
            None => fields += &format!("{line}\r\n"),
        }
    }
    let length = body.len();
    let start = format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [start.as_bytes(), body].concat()
}
