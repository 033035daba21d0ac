//! A Redis server of the test's own, at a unix socket.

use std::{path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate::ops::redis::{Address, RedisSettings};
use redis::{Cmd, FromRedisValue, aio::MultiplexedConnection, cmd};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::until::until_async;

pub struct RedisServer {
    folder: tempfile::TempDir,
    more: Vec<String>,
    child: Child,
}

impl RedisServer {
    pub async fn start() -> RedisServer {
        RedisServer::with(&[]).await
    }

    /// With more arguments; `FOLDER` stands for its folder.
    pub async fn with(more: &[&str]) -> RedisServer {
        let folder = tempfile::tempdir().expect("a folder");
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).expect("random bytes");
        std::fs::write(folder.path().join("keys"), STANDARD.encode(key)).expect("written");
        let path = folder.path().display().to_string();
        let more: Vec<String> = more
            .iter()
            .map(|argument| argument.replace("FOLDER", &path))
            .collect();
        let child = spawn(&folder, &more);
        let server = RedisServer {
            folder,
            more,
            child,
        };
        server.until_up().await;
        // As after some time in use: an absent key means that there is no session.
        server
            .run::<()>(cmd("SET").arg("ludgate:epoch").arg(1))
            .await;
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The section of a configuration that shares sessions through it.
    pub fn section(&self) -> String {
        self.section_at(&format!("redis+unix://{}", self.socket().display()))
    }

    pub fn section_at(&self, store: &str) -> String {
        format!(
            "[session]\nstore = \"{store}\"\nkeys_file = \"{}\"\n",
            self.keys_file().display()
        )
    }

    /// The file with the keys of its users.
    pub fn keys_file(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    /// How a process connects to it.
    pub fn settings(&self) -> RedisSettings {
        RedisSettings {
            address: Address::Unix(self.socket()),
            user: None,
            password: None,
            database: 0,
        }
    }

    async fn until_up(&self) {
        until_async("the server comes up", async || {
            self.connection().await.is_some()
        })
        .await;
    }

    async fn connection(&self) -> Option<MultiplexedConnection> {
        let client =
            redis::Client::open(format!("unix://{}", self.socket().display())).expect("an address");
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        cmd("PING")
            .query_async::<String>(&mut connection)
            .await
            .ok()?;
        Some(connection)
    }

    pub async fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let mut connection = self.connection().await.expect("connected");
        command.query_async(&mut connection).await.expect("done")
    }

    /// The keys of ours that begin so.
    pub async fn keys(&self, beginning: &str) -> Vec<String> {
        self.run(cmd("KEYS").arg(format!("{beginning}*"))).await
    }

    /// Waits until at least so many keys of ours begin so.
    pub async fn until_keys(&self, beginning: &str, count: usize) {
        until_async(&format!("{count} keys {beginning}"), async || {
            self.keys(beginning).await.len() >= count
        })
        .await;
    }

    /// How often clients have run a command.
    pub async fn calls(&self, command: &str) -> u64 {
        let stats: String = self.run(cmd("INFO").arg("commandstats")).await;
        let beginning = format!("cmdstat_{command}:calls=");
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&*beginning));
        line.and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or(0)
    }

    /// Waits until three looks in a row find no new script. Other commands, as of health checks,
    /// may go on. Redis cannot tell what is still to come: first wait for the key or the counter
    /// that shows that the writes have begun.
    pub async fn until_settled(&self) {
        let (mut last, mut unchanged) = (None, 0);
        until_async("no new scripts run", async || {
            let calls = Some(self.calls("evalsha").await);
            unchanged = if calls == last { unchanged + 1 } else { 0 };
            last = calls;
            unchanged == 2
        })
        .await;
    }

    /// As if so much time had passed for it.
    pub async fn age(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("not that long");
        for key in self.keys("ludgate:").await {
            let left: i64 = self.run(cmd("PTTL").arg(&key)).await;
            if left > 0 {
                self.run::<i64>(cmd("PEXPIRE").arg(&key).arg(left - by))
                    .await;
            }
        }
        if let Some(begun) = self
            .run::<Option<i64>>(cmd("GET").arg("ludgate:epoch"))
            .await
        {
            self.run::<()>(cmd("SET").arg("ludgate:epoch").arg(begun - by))
                .await;
        }
    }

    fn signal(&self, signal: Signal) {
        let id = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        kill_process(id.expect("it runs"), signal).expect("told");
    }

    /// It takes connections and says nothing.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Gone, with all that it knew.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("killed");
    }

    pub async fn again(&mut self) {
        self.child = spawn(&self.folder, &self.more);
        self.until_up().await;
    }
}

fn spawn(folder: &tempfile::TempDir, more: &[String]) -> Child {
    let _ = std::fs::remove_file(folder.path().join("socket"));
    Command::new("redis-server")
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
            "socket",
            "--dir",
        ])
        .arg(folder.path())
        .args(more)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("redis-server: tests/install.sh installs it")
}
