//! The chromedriver process: started on a port of its own, spoken to in JSON over HTTP/1.1, and
//! ended with everything that it started.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::oneshot, time::timeout};

use super::DEADLINE;
use crate::support::message::Reader;

/// The process, and whatever it started; all are killed with the value.
pub struct Driver {
    process: Child,
    address: SocketAddr,
    /// Closed when the last of the processes is gone.
    silence: mpsc::Receiver<()>,
    /// Everything that any of the processes writes.
    folder: TempDir,
}

impl Driver {
    /// It binds its port for IPv4 and then for IPv6, where another process may have it already: it
    /// ends then, and is started again.
    pub async fn start() -> Driver {
        for _ in 0..3 {
            if let Some(driver) = Driver::try_start().await {
                return driver;
            }
        }
        panic!("chromedriver ended three times before it said its port");
    }

    /// `None`: it ended before it said its port.
    async fn try_start() -> Option<Driver> {
        let folder = tempfile::tempdir().expect("a folder");
        // Not in a process group of its own: who ends the test, by Ctrl-C or after too long a time,
        // ends the group of the test, and with it the browser.
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            // Nothing of the person who runs the tests is read or written.
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver is installed; `make test` installs it");
        let output = process.stdout.take().expect("an output");
        let (running, silence) = mpsc::channel();
        let (tell, port) = oneshot::channel();
        // Chromium's processes inherit this output, so its end is the end of the last of them. A
        // thread, not a task: it is waited for in `drop` too.
        thread::spawn(move || {
            let mut tell = Some(tell);
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if let Some(port) = port_in(&line)
                    && let Some(tell) = tell.take()
                {
                    let _ = tell.send(port);
                }
            }
            drop::<mpsc::Sender<()>>(running);
        });
        // From here on the process is killed when something fails.
        let mut driver = Driver {
            process,
            address: ([127, 0, 0, 1], 0).into(),
            silence,
            folder,
        };
        let port = timeout(DEADLINE, port)
            .await
            .expect("chromedriver starts in time");
        driver.address.set_port(port.ok()?);
        Some(driver)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The value that a command is answered with; any other answer fails the test.
    pub async fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.asked(method, path, body)
            .await
            .unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// The value that a command is answered with, or what stands in its way.
    pub async fn asked(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let command = format!("WebDriver {method} {path} {body}");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.write_all(request.as_bytes()).await?;
            // The reader's own patience is for answers that need no browser to start.
            stream.readable().await?;
            Reader::new(stream).message(false).await
        };
        let answer = timeout(DEADLINE, exchange)
            .await
            .unwrap_or_else(|_| panic!("{command}: no answer in {DEADLINE:?}"))
            .unwrap_or_else(|e| panic!("{command}: {e}"))
            .unwrap_or_else(|| panic!("{command}: closed without an answer"));
        if answer.status() != 200 {
            // The rest of an error is a stack trace of chromedriver.
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let message = said["value"]["message"]
                .as_str()
                .map_or_else(|| answer.text(), str::to_owned);
            return Err(format!("{command}: {}: {message}", answer.start));
        }
        Ok(answer.json()["value"].take())
    }

    /// The ids of this process and of all below it.
    pub fn processes(&self) -> Vec<u32> {
        let all = running();
        let mut found = vec![self.process.id()];
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
            next += 1;
        }
        found
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let ids = self.processes().into_iter().map(|id| id.to_string());
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(ids)
            .stderr(Stdio::null())
            .status();
        let _ = self.process.wait();
        // The folder is removed after this; no process may write to it any more.
        if self.silence.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a process of Chromium is still there");
        }
    }
}

/// Whether the process is there and not merely waiting for its parent to notice its end.
pub fn runs(id: u32) -> bool {
    running().iter().any(|(other, _)| *other == id)
}

/// Every process of the machine with its parent's id, without those that have ended.
fn running() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        // `id (name) state parent …`, where the name may hold anything.
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some((id, parent))
    })
    .collect()
}

/// Of `ChromeDriver was started successfully on port 4444.`
fn port_in(line: &[u8]) -> Option<u16> {
    let line = String::from_utf8_lossy(line);
    line.trim_end()
        .strip_suffix('.')?
        .rsplit_once("successfully on port ")?
        .1
        .parse()
        .ok()
}
