//! The real binary as a process of its own.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
};

use tokio::net::{TcpStream, ToSocketAddrs};

use super::until::{in_time, until_async};

/// The program under test: the one that `LUDGATE_BIN` names, or the one that was built with the
/// tests.
pub fn program() -> PathBuf {
    chosen_program().unwrap_or_else(|| env!("CARGO_BIN_EXE_ludgate").into())
}

/// The program that `LUDGATE_BIN` names.
pub fn chosen_program() -> Option<PathBuf> {
    // Some tests start it in another folder.
    let absolute = |chosen| std::path::absolute(PathBuf::from(chosen)).expect("a path");
    std::env::var_os("LUDGATE_BIN").map(absolute)
}

/// Ends the process it holds.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the real binary with a configuration and waits until it listens.
pub async fn gateway(folder: &Path, text: &str, port: u16) -> Running {
    start(Command::new(program()), folder, text, port).await
}

/// The same with these variables.
pub async fn gateway_with(
    variables: &[(&str, &std::ffi::OsStr)],
    folder: &Path,
    text: &str,
    port: u16,
) -> Running {
    let mut command = Command::new(program());
    command.envs(variables.iter().copied());
    start(command, folder, text, port).await
}

/// The same with room for so many open files and no more.
pub async fn gateway_with_files(files: usize, folder: &Path, text: &str, port: u16) -> Running {
    start(with_files(files), folder, text, port).await
}

/// The program with room for so many open files.
pub fn with_files(files: usize) -> Command {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("ulimit -n {files} && exec \"$0\" \"$@\""))
        .arg(program());
    shell
}

async fn start(mut command: Command, folder: &Path, text: &str, port: u16) -> Running {
    std::fs::write(folder.join("ludgate.toml"), text).expect("written");
    let child = command
        .args(["gateway", "--config"])
        .arg(folder.join("ludgate.toml"))
        .stdout(std::fs::File::create(folder.join("requests.log")).expect("a file"))
        .spawn()
        .expect("the binary runs");
    let running = Running(child);
    until_open(("127.0.0.1", port)).await;
    running
}

/// Waits until the address accepts connections.
pub async fn until_open(address: impl ToSocketAddrs + Copy) {
    until_async("it listens", async || {
        TcpStream::connect(address).await.is_ok()
    })
    .await;
}

/// Waits for the end of the process.
pub async fn ended(mut process: Running) -> ExitStatus {
    let waited = tokio::task::spawn_blocking(move || process.0.wait().expect("it ends"));
    in_time("the process ends", waited).await.expect("no panic")
}

/// Resident bytes of a process.
pub fn resident(process: &Running) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a size");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        * 1024
}
