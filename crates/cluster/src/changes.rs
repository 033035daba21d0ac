//! The stream of one watch: a JSON object a line, each an event, and none of them skipped.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, ResourceExt, client::Body};
use serde::Deserialize;

use super::object::Object;

/// Longest event, in bytes. The API keeps no object over 1.5 MiB; as JSON it can be several times
/// as long.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Why a watch cannot go on from where it was, so that everything has to be listed anew.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The API could not be asked.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Nobody answered in time.
    #[error("no answer in time")]
    Silent,
    /// The watch was refused.
    #[error("the watch was answered with {0}")]
    Refused(StatusCode),
    /// The API ended the watch and said why.
    #[error("the watch was ended: {0}")]
    Ended(String),
    /// An event that nobody can read held a change that nobody knows.
    #[error("an event cannot be read: {0}")]
    Unreadable(String),
    /// Events come in the order of their versions; this one may be the past.
    #[error("an event of version {0} came after one of {1}")]
    Older(String, String),
    /// A list or an event that does not say of when it is.
    #[error("no resourceVersion was told")]
    NoVersion,
}

/// What an event says.
#[derive(Debug)]
pub enum Change {
    /// An object is new, or changed.
    Put(Object),
    /// An object is gone.
    Gone(Object),
    /// Nothing happened until this version.
    Bookmark,
}

/// The events of one watch.
pub struct Changes {
    body: Body,
    buffer: Vec<u8>,
    /// So much of the buffer holds no end of a line.
    searched: usize,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    object: Object,
}

/// What an event of the type `ERROR` carries.
#[derive(Deserialize)]
struct Refusal {
    object: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    message: Option<String>,
}

impl Changes {
    /// Opens a watch.
    ///
    /// # Errors
    /// When the API cannot be asked, or refuses.
    pub async fn open(client: &Client, request: Request<Vec<u8>>) -> Result<Changes, Broken> {
        let response = client.send(request.map(Body::from)).await?;
        if !response.status().is_success() {
            return Err(Broken::Refused(response.status()));
        }
        Ok(Changes {
            body: response.into_body(),
            buffer: Vec::new(),
            searched: 0,
        })
    }

    /// The next event, and its version. `None`: the watch has ended, as every watch does. An
    /// incomplete last line is ignored: the version is still the previous one, so the next watch
    /// repeats the event.
    ///
    /// # Errors
    /// When an event cannot be read, or says that the watch failed.
    ///
    /// Cancel safety: nothing that was read is lost.
    pub async fn next(&mut self) -> Result<Option<(Change, String)>, Broken> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + at).collect();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return read(&line).map(Some);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE {
                return Err(Broken::Unreadable(format!(
                    "it is longer than {MAX_LINE} bytes"
                )));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(&frame.into_data().unwrap_or(Bytes::new())),
                // However a connection ends, the next watch goes on behind the last event that came
                // whole.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn read(line: &[u8]) -> Result<(Change, String), Broken> {
    let unreadable = |error: serde_json::Error| Broken::Unreadable(error.to_string());
    let Line { r#type, object } = serde_json::from_slice(line).map_err(unreadable)?;
    let version = object
        .resource_version()
        .filter(|version| !version.is_empty());
    let change = match &*r#type {
        "ADDED" | "MODIFIED" => Change::Put(object),
        "DELETED" => Change::Gone(object),
        "BOOKMARK" => Change::Bookmark,
        "ERROR" => {
            let Refusal {
                object: Status { code, message },
            } = serde_json::from_slice(line).map_err(unreadable)?;
            let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
            return Err(Broken::Ended(format!("{code} {message}")));
        }
        other => {
            return Err(Broken::Unreadable(format!(
                "nobody knows the type {other:?}"
            )));
        }
    };
    Ok((change, version.ok_or(Broken::NoVersion)?))
}
