//! One JSON line per request, written when hyper has taken the last byte, or the client went away.
//!
//! Invariant: no query, cookie or token is ever in a line. No decision depends on the log.

use std::{
    cell::{Cell, RefCell},
    fmt::Write,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{
    HeaderName, HeaderValue, Method, StatusCode, header, request::Parts, uri::PathAndQuery,
};
use tokio::sync::Notify;

use crate::{
    decide::{
        Reason,
        labels::{DecisionLabel, LogReason, Outcome},
    },
    forward::fault::{Fault, FaultOrigin},
    gateway::metrics::GatewayMetrics,
    model::{
        activity::OpenUse, app::App, arrival::RequestClass, client::Client,
        clock::system_wall_millis, path_rule::RuleIndex, principal::Principal,
        text::is_directional,
    },
    ops::line_sink::LineSink,
    streams::Revocation,
};

/// A line never holds more of one field than this, in bytes.
const MAX_FIELD: usize = 1024;
/// A batch is flushed when it has this many bytes, or after [`FLUSH_AFTER`].
const BATCH: usize = 32 * 1024;
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// The access log of one data thread: lines are batched, then sent to the sink.
pub struct AccessLog {
    sink: LineSink,
    metrics: Arc<GatewayMetrics>,
    batch: RefCell<String>,
    lines: Cell<u64>,
    waiting: Notify,
}

impl AccessLog {
    /// An empty batch. Finished requests are counted in `metrics`.
    pub fn new(sink: LineSink, metrics: Arc<GatewayMetrics>) -> Rc<AccessLog> {
        Rc::new(AccessLog {
            sink,
            metrics,
            batch: RefCell::default(),
            lines: Cell::new(0),
            waiting: Notify::new(),
        })
    }

    /// Flushes soon after each write; never ends.
    pub async fn keep_flushing(self: Rc<Self>) {
        loop {
            self.waiting.notified().await;
            tokio::time::sleep(FLUSH_AFTER).await;
            self.flush();
        }
    }

    /// Sends the batch to the sink.
    pub fn flush(&self) {
        let batch = self.batch.take();
        let lines = self.lines.replace(0);
        if !batch.is_empty() {
            self.sink.send(batch.into_bytes(), lines);
        }
    }

    fn write(&self, line: impl FnOnce(&mut String)) {
        let length = {
            let mut batch = self.batch.borrow_mut();
            line(&mut batch);
            batch.push('\n');
            batch.len()
        };
        self.lines.set(self.lines.get() + 1);
        if length >= BATCH {
            self.flush()
        } else {
            self.waiting.notify_one()
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// One request and its answer. It is made with the request, and each step adds what it found.
/// Dropping it writes the line: when hyper has taken the last byte of the answer, or the client has
/// left. Until then the request counts as in flight.
pub struct Entry {
    log: Rc<AccessLog>,
    started: Instant,
    /// The request id.
    pub id: HeaderValue,
    /// `None`: no lines are written.
    head: Option<LoggedHead>,
    client: Client,
    /// Ends the request when access ends.
    pub revocation: Rc<Revocation>,
    /// The class of the request; `None` for a malformed head.
    pub class: Option<RequestClass>,
    /// The requested app.
    pub app: Option<Arc<App>>,
    /// The use of the app by a permitted request.
    pub in_use: Option<OpenUse>,
    /// The caller, where it is a person.
    pub person: Option<Arc<Principal>>,
    /// The decision and its reason.
    pub labels: (DecisionLabel, LogReason),
    /// The rule of the app that denied access, where `labels` say that one did.
    pub denying_rule: RuleIndex,
    /// The time until the head of the app's answer.
    upstream: Option<Duration>,
    /// Why the app gave no answer to a permitted request.
    fault: Option<Fault>,
    /// The error behind the fault, where one is known.
    error: Option<Arc<str>>,
    /// The status of the answer; `None` until there is one.
    pub status: Option<StatusCode>,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// The app's answer broke off.
    pub broken: bool,
}

/// The fields of a request head that only the line needs.
struct LoggedHead {
    method: Method,
    /// Only its path is logged.
    target: Option<PathAndQuery>,
    host: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
}

impl LoggedHead {
    fn from_parts(parts: &Parts) -> LoggedHead {
        LoggedHead {
            method: parts.method.clone(),
            target: parts.uri.path_and_query().cloned(),
            host: parts.headers.get(header::HOST).cloned(),
            traceparent: parts.headers.get(TRACEPARENT).cloned(),
        }
    }

    /// Copies the fields, which share the read buffer of the connection.
    fn copy(&mut self) {
        let values = [self.host.as_mut(), self.traceparent.as_mut()];
        values.into_iter().flatten().for_each(copy_value);
        let path = self.target.as_ref().map(PathAndQuery::path);
        self.target = path.and_then(|path| PathAndQuery::try_from(path).ok());
    }
}

fn copy_value(value: &mut HeaderValue) {
    if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
        *value = copy;
    }
}

impl Entry {
    /// The entry of a request of which only the head is known, as it was received at `started`.
    pub fn new(
        log: Rc<AccessLog>,
        started: Instant,
        parts: &Parts,
        client: Client,
        id: HeaderValue,
        revocation: Rc<Revocation>,
    ) -> Box<Entry> {
        log.metrics.requests.in_flight.inc();
        let head = log.sink.is_on().then(|| LoggedHead::from_parts(parts));
        Box::new(Entry {
            log,
            started,
            id,
            head,
            client,
            revocation,
            class: None,
            app: None,
            in_use: None,
            person: None,
            labels: (DecisionLabel::Undecided, LogReason::ClientClosed),
            denying_rule: RuleIndex::OWN,
            upstream: None,
            fault: None,
            error: None,
            status: None,
            bytes: 0,
            broken: false,
        })
    }

    /// Notes that the app answered, or failed, a request that was permitted at `permitted`.
    pub fn note_answer(&mut self, permitted: Instant) {
        // Only lines have this time.
        if self.head.is_some() {
            self.upstream = Some(permitted.elapsed());
        }
    }

    /// Records that the app gave no answer. The cause is read now: the next answer clears it.
    pub fn set_fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
        let app = self.app.as_ref();
        self.error = app.and_then(|app| app.upstream_health.cause(fault.reason()));
    }

    /// Copies the fields of the head. They share the read buffer of the connection, which would
    /// stay in memory for as long as a WebSocket.
    pub fn copy_head(&mut self) {
        copy_value(&mut self.id);
        if let Some(head) = &mut self.head {
            head.copy();
        }
    }

    /// How the request ended, if not by an answer.
    fn outcome(&self) -> Option<Outcome> {
        match (self.revocation.reason(), self.fault, self.status) {
            (Some(reason), _, _) => Some(Outcome::Revoked(reason)),
            (None, Some(fault), _) => Some(Outcome::Fault(fault)),
            (None, None, None) => Some(Outcome::ClientClosed),
            (None, None, Some(_)) => None,
        }
    }

    fn status(&self) -> u16 {
        self.status
            .map_or(CLIENT_CLOSED_REQUEST, |status| status.as_u16())
    }

    fn class(&self) -> &'static str {
        self.class.map_or("malformed", RequestClass::as_str)
    }

    // Not inlined into the end of each response, since many sites write no lines.
    #[inline(never)]
    fn write(&self, head: &LoggedHead, line: &mut String) {
        let now = chrono::DateTime::from_timestamp_millis(system_wall_millis()).unwrap_or_default();
        let now = now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let id = self.id.to_str().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(line, "{{\"time\":\"{now}\",\"request_id\":\"{id}\"");
        let trace = head
            .traceparent
            .as_ref()
            .and_then(|value| trace_id(value.to_str().ok()?));
        field(line, "trace_id", trace.unwrap_or_default());
        field(line, "class", self.class());
        field(line, "client", &self.client.to_string());
        let host = head.host.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        field(line, "host", &String::from_utf8_lossy(host));
        field(line, "method", head.method.as_str());
        let path = head.target.as_ref().map_or("", PathAndQuery::path);
        field(line, "path", path);
        let (status, bytes) = (self.status(), self.bytes);
        let _ = write!(line, ",\"status\":{status},\"bytes\":{bytes}");
        milliseconds(line, "duration_ms", self.started.elapsed());
        if let Some(upstream) = self.upstream {
            milliseconds(line, "upstream_ms", upstream);
        }
        field(
            line,
            "app",
            self.app.as_ref().map_or("", |app| app.id().as_str()),
        );
        let subject = self.person.as_ref().map_or("", |person| &person.subject);
        field(line, "subject", subject);
        let (decision, reason) = self.labels;
        field(line, "decision", decision.as_str());
        field(line, "reason", reason.as_str());
        self.write_access(line);
        field(line, "outcome", self.outcome().map_or("", Outcome::as_str));
        self.write_fault(line);
        if self.broken {
            line.push_str(",\"broken\":true");
        }
        line.push('}');
    }

    /// The access rule that denied access, as `ludgate explain` prints it.
    fn write_access(&self, line: &mut String) {
        let (_, LogReason::Refused(Reason::Denied(denied))) = self.labels else {
            return;
        };
        if let Some(app) = self.app.as_ref().filter(|_| denied.is_by_rule()) {
            field(line, "access", &app.rule(self.denying_rule).to_string());
        }
    }

    /// The upstream that gave no answer, and the error behind that.
    fn write_fault(&self, line: &mut String) {
        let (Some(fault), Some(app)) = (self.fault, &self.app) else {
            return;
        };
        if fault.origin() == FaultOrigin::Client {
            return;
        }
        field(line, "upstream", &app.spec.upstream_list().to_string());
        match &self.error {
            Some(error) => field(line, "error", error),
            None => field(line, "error", &fault.to_string()),
        }
    }
}

fn milliseconds(line: &mut String, name: &str, duration: Duration) {
    let _ = write!(line, ",\"{name}\":{:.3}", duration.as_secs_f64() * 1e3);
}

/// The header that carries the trace id.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The status of a request whose client left before the answer, as nginx logs it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_id(traceparent: &str) -> Option<&str> {
    let id = traceparent.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

impl Drop for Entry {
    fn drop(&mut self) {
        let metrics = &self.log.metrics;
        let (decision, reason) = self.labels;
        metrics.requests.count(self.class(), self.status());
        metrics.decision(decision, reason);
        let ended = Instant::now();
        let duration = ended.saturating_duration_since(self.started);
        metrics.requests.duration.observe(duration.as_secs_f64());
        if let Some(in_use) = self.in_use.take() {
            in_use.finish(ended);
        }
        if let Some(head) = &self.head {
            self.log.write(|line| self.write(head, line));
        }
        metrics.requests.in_flight.dec();
    }
}

/// Adds a field, escaped: control characters, quotes, and characters that are invisible or change
/// the text direction.
fn field(line: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    let _ = write!(line, ",\"{name}\":\"");
    let before = line.len();
    for character in value.chars() {
        if line.len() - before >= MAX_FIELD {
            line.push('…');
            break;
        }
        match character {
            '"' | '\\' => {
                line.push('\\');
                line.push(character);
            }
            c if c.is_control() || is_directional(c) || is_invisible(c) => {
                let _ = write!(line, "\\u{:04x}", c as u32);
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

/// Characters of no width, and the separators that some viewers show as line breaks.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_break_out_of_its_field() {
        let mut line = String::from("{\"a\":1");
        let path = "/a\"b\\c\r\n\u{1b}[31m\u{202e}\u{61c}\u{200b}\0";
        field(&mut line, "path", path);
        line.push('}');
        let parsed: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
        assert_eq!(parsed["path"], path);
        assert!(!line.contains(['\r', '\n', '\u{1b}', '\u{202e}', '\u{61c}', '\u{200b}']));
    }

    #[test]
    fn a_field_is_cut_before_it_fills_the_line() {
        let mut line = String::new();
        field(&mut line, "path", &"\u{1}".repeat(300_000));
        assert!(line.len() < MAX_FIELD + 32, "{}", line.len());
    }
}
