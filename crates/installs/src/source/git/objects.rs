//! Reads objects of the bare repository, one after the other from one process.

use std::{io, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout},
};

use super::{environment::GitEnvironment, path_text::path_text, process::start};
use crate::{process_group::ProcessGroup, source::error::SourceError};

/// Longest line before an object, in bytes.
const MAX_LINE: u64 = 256;

/// A process that reads objects.
#[derive(Debug)]
pub(super) struct ObjectReader {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    // Fields are dropped in this order: the group first, while the child still has its id.
    _group: ProcessGroup,
    _child: Child,
}

impl ObjectReader {
    /// Starts the process.
    pub(super) fn start(environment: &GitEnvironment) -> Result<ObjectReader, SourceError> {
        let repository = path_text(&environment.repository)?;
        let arguments = ["-C", repository, "cat-file", "--batch"];
        let (mut child, group) = start(environment, &arguments, Stdio::piped())?;
        // It is not read, and so it must not stay open.
        drop(child.stderr.take());
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SourceError::transient("git has no input or output"));
        };
        Ok(ObjectReader {
            stdin,
            stdout: BufReader::new(stdout),
            _group: group,
            _child: child,
        })
    }

    /// The content of a file that has `size` bytes.
    ///
    /// # Errors
    /// Transient, if the process ends or the object is another one.
    pub(super) async fn read(&mut self, id: &str, size: u64) -> Result<Vec<u8>, SourceError> {
        let read = self.exchange(id, size).await;
        read.map_err(|error| SourceError::local("git cannot read a file", error))
    }

    async fn exchange(&mut self, id: &str, size: u64) -> io::Result<Vec<u8>> {
        self.stdin.write_all(format!("{id}\n").as_bytes()).await?;
        self.stdin.flush().await?;
        let mut line = String::new();
        (&mut self.stdout)
            .take(MAX_LINE)
            .read_line(&mut line)
            .await?;
        if line.trim_end() != format!("{id} blob {size}") {
            return Err(io::Error::other(format!("unexpected answer {line:?}")));
        }
        let mut content = Vec::new();
        (&mut self.stdout)
            .take(size)
            .read_to_end(&mut content)
            .await?;
        // A newline follows.
        let end = self.stdout.read_u8().await?;
        match content.len() as u64 == size && end == b'\n' {
            true => Ok(content),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
