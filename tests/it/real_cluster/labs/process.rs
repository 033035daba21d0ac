//! `ludgate labs` as a process of its own, so that it can be killed.

use std::{
    fs::File,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    message::Message,
    process::{Running, program, until_open},
    raw::Raw,
};

/// The process, and its log in the folder of its configuration.
pub struct LabsProcess {
    address: SocketAddr,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    running: Option<Running>,
}

impl LabsProcess {
    /// A process that does not run yet. The folder has `ludgate.toml`, with this address.
    pub fn new(
        folder: tempfile::TempDir,
        address: SocketAddr,
        variables: Vec<(&'static str, String)>,
    ) -> LabsProcess {
        LabsProcess {
            address,
            folder,
            variables,
            running: None,
        }
    }

    /// Starts it, and waits until it listens.
    pub async fn start(&mut self) {
        let log = log_file(&self.folder.path().join("labs.log"));
        let child = Command::new(program())
            .args(["labs", "--config"])
            .arg(self.folder.path().join("ludgate.toml"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn();
        self.running = Some(Running(child.expect("it starts")));
        until_open(self.address).await;
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Where hubs and proxies reach the API.
    pub fn url(&self) -> String {
        format!("http://{}/nublado", self.address)
    }

    /// Sends a request with a token; `start` is such as `GET labs/alice`.
    pub async fn call(&self, start: &str, token: &str, body: &Value) -> Message {
        let (method, path) = start.split_once(' ').expect("method and path");
        let body = match body.is_null() {
            true => String::new(),
            false => body.to_string(),
        };
        let request = format!(
            "{method} /nublado/spawner/v1/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        Raw::exchange(self.address, request).await
    }
}

impl Drop for LabsProcess {
    fn drop(&mut self) {
        self.running = None;
        print_after_panic(&self.folder.path().join("labs.log"));
    }
}

/// A file to whose end a process writes.
pub fn log_file(path: &Path) -> File {
    let file = File::options().create(true).append(true).open(path);
    file.expect("a file")
}

/// Prints a process's log if the test has failed.
pub fn print_after_panic(log: &Path) {
    if std::thread::panicking() {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        eprintln!("--- {}\n{text}", log.display());
    }
}
