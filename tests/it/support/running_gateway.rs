//! The gateway of a test: in the test's own process, or the program that `LUDGATE_BIN` names.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    ops::Deref,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use ludgate::run::Running;
use tempfile::TempDir;

use super::{
    process::{self, until_open},
    request_log::Log,
    world::free_port,
};

/// A gateway that runs.
pub struct RunningGateway {
    /// The address of its listener.
    pub address: SocketAddr,
    /// The address of its admin listener.
    pub admin: SocketAddr,
    started: Started,
}

enum Started {
    Here(Box<Running>),
    /// Ends when it is dropped, with the folder of its configuration.
    Program {
        _process: process::Running,
        _folder: TempDir,
    },
}

impl RunningGateway {
    /// One in this process.
    pub fn here(running: Running) -> RunningGateway {
        RunningGateway {
            address: running.address,
            admin: running.admin,
            started: Started::Here(Box::new(running)),
        }
    }

    /// Starts a program that listens at this address, and has this configuration.
    pub async fn program(program: &Path, host: &str, text: &str, mut log: Log) -> RunningGateway {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ludgate.toml");
        let admin = format!("127.0.0.1:{}", free_port());
        std::fs::write(&file, format!("[admin]\naddress = \"{admin}\"\n{text}")).expect("written");
        let mut child = Command::new(program)
            .args(["gateway", "--config"])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let output = child.stdout.take().expect("piped");
        let process = process::Running(child);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                // The whole line at once, as in this process.
                let line = line.expect("text") + "\n";
                log.write_all(line.as_bytes()).expect("room in memory");
            }
        });
        until_open(host).await;
        RunningGateway {
            address: host.parse().expect("an address"),
            admin: admin.parse().expect("an address"),
            started: Started::Program {
                _process: process,
                _folder: folder,
            },
        }
    }

    /// Whether it runs in this process.
    pub fn is_here(&self) -> bool {
        matches!(self.started, Started::Here(_))
    }

    /// Stops a gateway of this process. Whether all requests finished before the deadline.
    pub async fn stop(self) -> bool {
        match self.started {
            Started::Here(running) => running.stop().await,
            Started::Program { .. } => panic!("{OTHER_PROCESS}"),
        }
    }
}

const OTHER_PROCESS: &str = "this gateway is a process of its own, which a test cannot look into";

impl Deref for RunningGateway {
    type Target = Running;

    fn deref(&self) -> &Running {
        match &self.started {
            Started::Here(running) => running,
            Started::Program { .. } => panic!("{OTHER_PROCESS}"),
        }
    }
}
