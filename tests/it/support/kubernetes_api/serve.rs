//! The HTTP side of the scripted API, written by hand so that it can stop anywhere.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::{sleep_until, timeout},
};

use super::{APPS, Call, Fault, Inner, NAMESPACES, RequestKind, SLICES, VIEWERS};
use crate::support::message::{PATIENCE, Reader};

/// A request, understood.
struct Request {
    kind: RequestKind,
    path: String,
    namespace: String,
    /// Of EndpointSlices, the version asked for.
    version: String,
    query: HashMap<String, String>,
}

/// Told when the watches that are open are to end.
type Ended = tokio::sync::watch::Receiver<()>;

pub async fn serve(stream: TcpStream, inner: Arc<Inner>) {
    let (read, mut write) = stream.into_split();
    let mut reader = Reader::new(read);
    while let Ok(Some(message)) = reader.message(false).await {
        let request = Request::parse(message.target());
        let call = Call {
            kind: request.kind,
            target: message.target().to_owned(),
        };
        // Before it is counted: who waits for the count may end the watch at once.
        let ended = inner.ended.subscribe();
        inner.calls.lock().expect("no panic").push(call);
        let fault = inner.next_fault(request.kind);
        inner.called.send_replace(());
        if inner
            .answer(&request, fault, ended, &mut write)
            .await
            .is_err()
        {
            return;
        }
    }
}

impl Request {
    fn parse(target: &str) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: HashMap<String, String> = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let segments: Vec<&str> = path.split('/').collect();
        let (version, namespace, plural) = match segments.as_slice() {
            [
                "",
                "apis",
                "primehub.io",
                version,
                "namespaces",
                namespace,
                "phapplications",
            ] => (*version, *namespace, Some(APPS)),
            [
                "",
                "apis",
                "discovery.k8s.io",
                version,
                "namespaces",
                namespace,
                "endpointslices",
            ] => (*version, *namespace, Some(SLICES)),
            [
                "",
                "apis",
                "kubeflow.org",
                version,
                "namespaces",
                namespace,
                "pvcviewers",
            ] => (*version, *namespace, Some(VIEWERS)),
            ["", "api", version, "namespaces"] => {
                let selector = query.get("fieldSelector").map(String::as_str);
                let name = selector.and_then(|fields| fields.strip_prefix("metadata.name="));
                (*version, name.unwrap_or_default(), Some(NAMESPACES))
            }
            _ => ("", "", None),
        };
        let kind = match plural {
            Some(plural)
                if query
                    .get("watch")
                    .is_some_and(|watch| watch == "true" || watch == "1") =>
            {
                RequestKind::Watch(plural)
            }
            Some(plural) if query.contains_key("continue") => RequestKind::Page(plural),
            Some(plural) => RequestKind::List(plural),
            None if path.starts_with("/apis") => RequestKind::Discovery,
            None => RequestKind::Other,
        };
        Request {
            kind,
            path: path.to_owned(),
            namespace: namespace.to_owned(),
            version: version.to_owned(),
            query,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.query.get(name)?.parse().ok()
    }
}

impl Inner {
    fn next_fault(&self, kind: RequestKind) -> Option<Fault> {
        let mut faults = self.faults.lock().expect("no panic");
        let at = faults.iter().position(|(wanted, _, _)| *wanted == kind)?;
        let fault = faults[at].2.clone();
        match faults[at].1 {
            1 => drop(faults.remove(at)),
            _ => faults[at].1 -= 1,
        }
        Some(fault)
    }

    /// An error closes the connection.
    async fn answer(
        &self,
        request: &Request,
        fault: Option<Fault>,
        ended: Ended,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        match fault {
            Some(Fault::Status(code)) => return json_answer(write, code, &status(code)).await,
            Some(Fault::Hang) => return std::future::pending().await,
            Some(Fault::Hold(permits)) => {
                let permit = timeout(PATIENCE, permits.acquire_owned()).await;
                permit
                    .map_err(io::Error::other)?
                    .map_err(io::Error::other)?
                    .forget();
            }
            Some(Fault::HangInside | Fault::Reset)
                if !matches!(request.kind, RequestKind::Watch(_)) =>
            {
                let (code, body) = self.look_up(request);
                let whole = written(code, &body);
                write.write_all(&whole[..whole.len() * 2 / 3]).await?;
                if matches!(fault, Some(Fault::HangInside)) {
                    return std::future::pending().await;
                }
                // Unsent bytes are thrown away, and the other side is told of a reset.
                socket2::SockRef::from(write.as_ref()).set_linger(Some(Duration::ZERO))?;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            other => {
                if let RequestKind::Watch(plural) = request.kind
                    && self.serves(request)
                {
                    return self.watch(plural, request, other, ended, write).await;
                }
            }
        }
        let (code, body) = self.look_up(request);
        json_answer(write, code, &body).await
    }

    fn serves(&self, request: &Request) -> bool {
        let store = self.store.lock().expect("no panic");
        !request.path.contains("/discovery.k8s.io/")
            || store.slice_versions.contains(&&*request.version)
    }

    fn look_up(&self, request: &Request) -> (u16, Value) {
        let found = match request.kind {
            RequestKind::List(plural) | RequestKind::Page(plural) if self.serves(request) => {
                let limit = request
                    .number("limit")
                    .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
                let token = request.query.get("continue").map(String::as_str);
                let page = self.store.lock().expect("no panic").page(
                    plural,
                    &request.namespace,
                    limit,
                    token,
                );
                return page.map_or_else(|| (410, status(410)), |page| (200, page));
            }
            RequestKind::Discovery => self
                .store
                .lock()
                .expect("no panic")
                .discovery(&request.path),
            RequestKind::List(_)
            | RequestKind::Page(_)
            | RequestKind::Watch(_)
            | RequestKind::Other => None,
        };
        found.map_or_else(|| (404, status(404)), |found| (200, found))
    }

    async fn watch(
        &self,
        plural: &'static str,
        request: &Request,
        fault: Option<Fault>,
        mut ended: Ended,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let lasts = Duration::from_secs(request.number("timeoutSeconds").unwrap_or(300));
        let deadline = tokio::time::Instant::now() + lasts;
        let mut changed = self.changed.subscribe();
        let mut version = request.number("resourceVersion").unwrap_or(0);
        write
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .await?;
        if let Some(Fault::Says(text) | Fault::SaysAndEnds(text)) = &fault {
            chunk(write, text).await?;
        }
        if let Some(Fault::SaysAndEnds(_)) = fault {
            return write.write_all(b"0\r\n\r\n").await;
        }
        let mut spoil = fault;
        loop {
            let news =
                self.store
                    .lock()
                    .expect("no panic")
                    .after(plural, &request.namespace, version);
            let Some((events, until)) = news else {
                chunk(write, &format!("{}\n", error_event(410))).await?;
                return write.write_all(b"0\r\n\r\n").await;
            };
            for event in events {
                let line = event.line.to_string();
                match spoil.take() {
                    Some(Fault::Spoil(spoil)) => chunk(write, &spoil(&line)).await?,
                    Some(Fault::CutInside) => {
                        chunk(write, &line[..line.len() / 2]).await?;
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    _ => chunk(write, &format!("{line}\n")).await?,
                }
            }
            version = version.max(until);
            tokio::select! {
                _ = changed.changed() => {}
                _ = ended.changed() => break,
                () = sleep_until(deadline) => {
                    // The last word of a watch says how far it came.
                    chunk(write, &format!("{}\n", bookmark(plural, version))).await?;
                    break;
                }
            }
        }
        write.write_all(b"0\r\n\r\n").await
    }
}

/// Says that nothing happened until a version.
pub fn bookmark(plural: &str, version: u64) -> Value {
    let (group, kind) = match plural {
        APPS => ("primehub.io/v1alpha1", "PhApplication"),
        VIEWERS => ("kubeflow.org/v1alpha1", "PVCViewer"),
        NAMESPACES => ("v1", "Namespace"),
        _ => ("discovery.k8s.io/v1", "EndpointSlice"),
    };
    let metadata = json!({ "resourceVersion": version.to_string(), "creationTimestamp": null });
    json!({ "type": "BOOKMARK", "object": { "kind": kind, "apiVersion": group, "metadata": metadata } })
}

/// The same refusal inside a watch.
pub fn error_event(code: u16) -> Value {
    json!({ "type": "ERROR", "object": status(code) })
}

fn status(code: u16) -> Value {
    let (reason, message) = match code {
        403 => (
            "Forbidden",
            "phapplications.primehub.io is forbidden: User \"it\" cannot list resource",
        ),
        404 => (
            "NotFound",
            "the server could not find the requested resource",
        ),
        410 => (
            "Expired",
            "The resourceVersion for the provided watch or list is too old.",
        ),
        429 => (
            "TooManyRequests",
            "too many requests, please try again later",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        _ => ("InternalError", "Internal error occurred"),
    };
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code })
}

async fn json_answer(write: &mut OwnedWriteHalf, code: u16, body: &Value) -> io::Result<()> {
    write.write_all(&written(code, body)).await
}

fn written(code: u16, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let wait = if matches!(code, 429 | 503) {
        "Retry-After: 3600\r\n"
    } else {
        ""
    };
    let length = body.len();
    format!("HTTP/1.1 {code} As Scripted\r\nContent-Type: application/json\r\n{wait}Content-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

async fn chunk(write: &mut OwnedWriteHalf, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    write
        .write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
        .await
}
