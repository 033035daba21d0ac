//! Processes of git: limited, in a group of their own, and killed with all that they started.

use std::{io, process::Stdio};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

use super::{environment::GitEnvironment, path_text::path_text};
use crate::{process_group::ProcessGroup, source::error::SourceError};

/// Kept of what a process writes to standard error, in bytes.
const MAX_ERROR_TEXT: usize = 64 << 10;

/// What a process left.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) is_success: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Starts git in the bare repository.
///
/// # Errors
/// Transient, if a program is missing.
pub(super) fn start(
    environment: &GitEnvironment,
    arguments: &[&str],
    stdin: Stdio,
) -> Result<(Child, ProcessGroup), SourceError> {
    let settings = &environment.settings;
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--fsize={}", environment.file_bytes))
        .arg(format!("--cpu={}", settings.cpu_seconds))
        .arg(format!("--nproc={}", settings.processes))
        .arg("--core=0")
        .arg("git")
        .args(arguments)
        .env_clear()
        .envs(
            environment
                .variables
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let child = command
        .spawn()
        .map_err(|error| SourceError::local("cannot start git", error))?;
    let group = ProcessGroup::of_child(&child);
    Ok((child, group))
}

/// Runs git in the bare repository to its end.
///
/// # Errors
/// Permanent if it writes more than `max_output` bytes; transient if it cannot be started.
pub(super) async fn run(
    environment: &GitEnvironment,
    arguments: &[&str],
    max_output: usize,
) -> Result<GitOutput, SourceError> {
    let mut all = vec!["-C", path_text(&environment.repository)?];
    all.extend(arguments);
    run_anywhere(environment, &all, max_output).await
}

/// The same without a repository.
pub(super) async fn run_anywhere(
    environment: &GitEnvironment,
    arguments: &[&str],
    max_output: usize,
) -> Result<GitOutput, SourceError> {
    let failed = |error: io::Error| SourceError::local("git failed", error);
    let (mut child, _group) = start(environment, arguments, Stdio::null())?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) = tokio::try_join!(
        read_limited(stdout, max_output),
        async { read_start(stderr).await.map_err(failed) },
        async { child.wait().await.map_err(failed) },
    )?;
    Ok(GitOutput {
        is_success: status.success(),
        stdout,
        stderr,
    })
}

/// Reads to the end.
async fn read_limited(
    stream: Option<impl AsyncRead + Unpin>,
    max: usize,
) -> Result<Vec<u8>, SourceError> {
    let mut text = Vec::new();
    if let Some(stream) = stream {
        let mut limited = stream.take(max as u64 + 1);
        let read = limited.read_to_end(&mut text).await;
        read.map_err(|error| SourceError::local("git failed", error))?;
    }
    match text.len() > max {
        true => Err(SourceError::permanent(
            "git lists too much: the repository is too large",
        )),
        false => Ok(text),
    }
}

/// Reads to the end and keeps the start, so that the process never waits for its reader.
async fn read_start(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut text = Vec::new();
    if let Some(mut stream) = stream {
        let mut buffer = vec![0; 4096];
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            let room = MAX_ERROR_TEXT.saturating_sub(text.len());
            text.extend(buffer.iter().take(count.min(room)));
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
