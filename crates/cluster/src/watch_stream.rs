//! The stream of one watch: one JSON event per line, none of them skipped.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, ResourceExt, client::Body};
use serde::Deserialize;

use super::object::Object;

/// Longest event, in bytes. The API stores objects of up to 1.5 MiB, which may be several times as
/// long as JSON.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Errors after which a watch cannot resume; a new list is needed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// A call to the API failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The API did not answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The API refused the watch with this status.
    #[error("the watch was answered with {0}")]
    Refused(StatusCode),
    /// The API ended the watch with this code and message.
    #[error("the watch was ended: {0}")]
    RunEnd(String),
    /// An event is unreadable, so a change is unknown.
    #[error("an event cannot be read: {0}")]
    Unreadable(String),
    /// An event's version precedes that of an earlier event, so it may be stale.
    #[error("an event of version {0} came after one of {1}")]
    OutOfOrder(String, String),
    /// A list or an event has no `resourceVersion`.
    #[error("no resourceVersion was told")]
    MissingVersion,
}

/// One event of a watch.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// An object was added or changed.
    Apply(Object),
    /// An object was deleted.
    Delete(Object),
    /// No change up to this version.
    Bookmark,
}

/// The events of one watch.
pub(crate) struct WatchStream {
    body: Body,
    buffer: Vec<u8>,
    /// Length of the prefix of `buffer` that is known to hold no line end.
    searched: usize,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    object: Object,
}

/// The content of an event of type `ERROR`.
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

impl WatchStream {
    /// Opens a watch with a prepared request.
    ///
    /// # Errors
    /// When the API cannot be reached, or refuses.
    pub(crate) async fn open(
        client: &Client,
        request: Request<Vec<u8>>,
    ) -> Result<WatchStream, WatchError> {
        let response = client.send(request.map(Body::from)).await?;
        if !response.status().is_success() {
            return Err(WatchError::Refused(response.status()));
        }
        Ok(WatchStream {
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
    pub(crate) async fn next(&mut self) -> Result<Option<(StreamEvent, String)>, WatchError> {
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
                return Err(WatchError::Unreadable(format!(
                    "it is longer than {MAX_LINE} bytes"
                )));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(&frame.into_data().unwrap_or(Bytes::new())),
                // However the connection ended, the next watch resumes after the last complete
                // event.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn read(line: &[u8]) -> Result<(StreamEvent, String), WatchError> {
    let unreadable = |error: serde_json::Error| WatchError::Unreadable(error.to_string());
    let Line { r#type, object } = serde_json::from_slice(line).map_err(unreadable)?;
    let version = object
        .resource_version()
        .filter(|version| !version.is_empty());
    let change = match &*r#type {
        "ADDED" | "MODIFIED" => StreamEvent::Apply(object),
        "DELETED" => StreamEvent::Delete(object),
        "BOOKMARK" => StreamEvent::Bookmark,
        "ERROR" => {
            let Refusal {
                object: Status { code, message },
            } = serde_json::from_slice(line).map_err(unreadable)?;
            let code = code.unwrap_or_default();
            let message = message.unwrap_or_default();
            return Err(WatchError::RunEnd(format!("{code} {message}")));
        }
        other => {
            return Err(WatchError::Unreadable(format!("unknown type {other:?}")));
        }
    };
    Ok((change, version.ok_or(WatchError::MissingVersion)?))
}
