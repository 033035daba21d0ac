//! One process with a deadline, in a group of its own. However the caller ends, nothing of the
//! group is left.

use std::{
    collections::VecDeque,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::process_group::ProcessGroup;

/// Output that is still in the pipes when the process ends is read for so long. A process that left
/// the group may hold them open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What a process may use.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLimits {
    /// After this time the process must end.
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL, at a timeout or a cancellation.
    pub grace: Duration,
    /// Bytes that are kept from the beginning of standard output.
    pub stdout: usize,
    /// Bytes that are kept from the end of standard error.
    pub stderr: usize,
}

impl ProcessLimits {
    /// The limits of an operation with this timeout.
    pub fn new(timeout: Duration) -> ProcessLimits {
        ProcessLimits {
            timeout,
            grace: Duration::from_secs(10),
            stdout: 1024 * 1024,
            stderr: 64 * 1024,
        }
    }
}

/// What ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It ended by itself, or a stranger's signal ended it.
    Exited,
    /// It was stopped at the timeout.
    TimedOut,
    /// It was stopped since the caller cancelled.
    Cancelled,
}

/// An ended process.
#[derive(Debug)]
pub struct ProcessOutput {
    /// What ended it.
    pub end: ProcessEnd,
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than that.
    pub is_stderr_cut: bool,
}

impl ProcessOutput {
    /// The end of standard error, from the beginning of a line. Part of a line could be part of a
    /// secret, which could not be recognised.
    pub fn stderr_text(&self) -> String {
        let whole = String::from_utf8_lossy(&self.stderr);
        match (self.is_stderr_cut, whole.split_once('\n')) {
            (true, Some((_, rest))) => rest.to_owned(),
            (true, None) => String::new(),
            (false, _) => whole.into_owned(),
        }
    }
}

/// Runs a process to its end. If the future is dropped, the whole group is killed.
///
/// # Errors
/// The process cannot be started or waited for.
pub async fn run(
    mut command: Command,
    limits: ProcessLimits,
    cancel: &CancellationToken,
) -> io::Result<ProcessOutput> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // Tokio also reaps it then.
        .kill_on_drop(true)
        .spawn()?;
    let group = ProcessGroup::of_child(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut beginning = Beginning::new(limits.stdout);
    let mut ending = Ending::new(limits.stderr);
    let (end, status) = {
        let reading = async {
            tokio::join!(
                read(stdout, |bytes| beginning.push(bytes)),
                read(stderr, |bytes| ending.push(bytes)),
            );
        };
        tokio::pin!(reading);
        let supervised = supervise(&mut child, group, limits, cancel);
        tokio::pin!(supervised);
        let mut is_read = false;
        let ended = loop {
            tokio::select! {
                ended = &mut supervised => break ended?,
                () = &mut reading, if !is_read => is_read = true,
            }
        };
        if !is_read {
            // Late output is not worth an error.
            let _ = timeout(LAST_OUTPUT, reading).await;
        }
        ended
    };
    Ok(ProcessOutput {
        end,
        status,
        stdout: beginning.kept,
        stderr: ending.kept.into(),
        is_stderr_cut: ending.is_cut,
    })
}

/// Waits for the process, and stops it when it must end. Then the rest of its group is killed.
async fn supervise(
    child: &mut Child,
    group: ProcessGroup,
    limits: ProcessLimits,
    cancel: &CancellationToken,
) -> io::Result<(ProcessEnd, ExitStatus)> {
    let end = tokio::select! {
        // A process that has ended was not stopped.
        biased;
        status = child.wait() => return Ok((ProcessEnd::Exited, status?)),
        () = cancel.cancelled() => ProcessEnd::Cancelled,
        () = tokio::time::sleep(limits.timeout) => ProcessEnd::TimedOut,
    };
    group.signal(Signal::TERM);
    let status = match timeout(limits.grace, child.wait()).await {
        Ok(status) => status?,
        Err(_elapsed) => {
            group.signal(Signal::KILL);
            child.wait().await?
        }
    };
    Ok((end, status))
}

/// The first bytes of a stream.
struct Beginning {
    kept: Vec<u8>,
    limit: usize,
}

impl Beginning {
    fn new(limit: usize) -> Beginning {
        Beginning {
            kept: Vec::new(),
            limit,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.limit - self.kept.len();
        self.kept.extend(bytes.iter().take(room));
    }
}

/// The last bytes of a stream.
struct Ending {
    kept: VecDeque<u8>,
    limit: usize,
    is_cut: bool,
}

impl Ending {
    fn new(limit: usize) -> Ending {
        Ending {
            kept: VecDeque::new(),
            limit,
            is_cut: false,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let surplus = self.kept.len().saturating_sub(self.limit);
        self.kept.drain(..surplus);
        self.is_cut |= surplus > 0;
    }
}

/// Reads a stream to its end, so that the process never waits for a reader.
async fn read(stream: Option<impl AsyncRead + Unpin>, mut keep: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 8 * 1024];
    // A stream that fails has nothing more to say.
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        keep(buffer.get(..length).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
