//! One JSON line per request, written when the last byte was sent or the client went away.
//!
//! A [`Record`] is filled along the line and speaks when dropped. Never in it: query, cookies,
//! tokens.

use std::{
    cell::{Cell, RefCell},
    fmt::Write,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, StatusCode};
use tokio::sync::Notify;

use super::metrics::GatewayMetrics;
use crate::{
    model::{app::App, client::Client, clock::system_wall_millis, principal::Principal},
    ops::line_sink::LineSink,
};

/// A line never holds more of one field than this, in bytes.
const MAX_FIELD: usize = 1024;
/// A batch is handed over when it is this large, or after [`FLUSH_AFTER`].
const BATCH: usize = 32 * 1024;
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// The lines of one data thread on their way to the sink.
pub struct RequestLog {
    sink: LineSink,
    batch: RefCell<String>,
    lines: Cell<u64>,
    waiting: Notify,
}

impl RequestLog {
    /// An empty batch.
    pub fn new(sink: LineSink) -> Rc<RequestLog> {
        Rc::new(RequestLog {
            sink,
            batch: RefCell::default(),
            lines: Cell::new(0),
            waiting: Notify::new(),
        })
    }

    /// ManualClock over what waits, soon after it was written; never ends.
    pub async fn keep_flushing(self: Rc<Self>) {
        loop {
            self.waiting.notified().await;
            tokio::time::sleep(FLUSH_AFTER).await;
            self.flush();
        }
    }

    /// ManualClock over what waits.
    pub fn flush(&self) {
        let batch = self.batch.take();
        let lines = self.lines.replace(0);
        if !batch.is_empty() {
            self.sink.send(batch.into_bytes(), lines);
        }
    }

    fn write(&self, line: impl FnOnce(&mut String)) {
        if !self.sink.is_on() {
            return;
        }
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

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// What is known of one request so far.
pub struct Record {
    log: Rc<RequestLog>,
    metrics: Arc<GatewayMetrics>,
    started: Instant,
    /// Its id.
    pub id: HeaderValue,
    /// The class, once known.
    pub class: &'static str,
    /// The method.
    pub method: Method,
    /// The path without its query.
    pub path: String,
    /// The Host header as it came.
    pub host: String,
    /// Who sends it.
    pub client: Client,
    /// The trace id of an incoming `traceparent`.
    pub trace: Option<String>,
    /// The status of the answer.
    pub status: StatusCode,
    /// Which app.
    pub app: Option<Arc<App>>,
    /// Who.
    pub person: Option<Arc<Principal>>,
    /// What was decided.
    pub decision: &'static str,
    /// Why.
    pub reason: &'static str,
    /// How long the app took until its response head.
    pub upstream: Option<Duration>,
    /// How it ended, when not as decided: a fault of the app, or a stream that was cut.
    outcome: Option<&'static str>,
    bytes: u64,
    broken: bool,
}

impl Record {
    /// A request whose head was just read.
    pub fn begin(
        log: Rc<RequestLog>,
        metrics: Arc<GatewayMetrics>,
        id: HeaderValue,
        parts: &http::request::Parts,
        client: Client,
    ) -> Box<Record> {
        metrics.requests.in_flight.inc();
        let text = |name: http::HeaderName| {
            let value = parts
                .headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()));
            value.map(std::borrow::Cow::into_owned)
        };
        let is_on = log.sink.is_on();
        // Boxed, since it goes from hand to hand until the last byte.
        Box::new(Record {
            log,
            metrics,
            started: Instant::now(),
            id,
            class: "malformed",
            method: parts.method.clone(),
            path: if is_on {
                parts.uri.path().to_owned()
            } else {
                String::new()
            },
            host: if is_on {
                text(http::header::HOST).unwrap_or_default()
            } else {
                String::new()
            },
            trace: if is_on {
                text(TRACEPARENT).as_deref().and_then(trace_id)
            } else {
                None
            },
            client,
            status: StatusCode::OK,
            app: None,
            person: None,
            decision: "malformed",
            reason: "",
            upstream: None,
            outcome: None,
            bytes: 0,
            broken: false,
        })
    }

    /// Its id as text, for other lines of the log and for pages.
    pub fn id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// More of the answer went out.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// It did not end as decided.
    pub fn conclude(&mut self, outcome: &'static str) {
        self.outcome = Some(outcome);
    }

    /// How it ended, if not as decided.
    pub fn outcome(&self) -> Option<&'static str> {
        self.outcome
    }

    /// The app's answer broke off.
    pub fn broke(&mut self) {
        self.broken = true;
    }

    fn write(&self, line: &mut String) {
        let now = chrono::DateTime::from_timestamp_millis(system_wall_millis()).unwrap_or_default();
        let now = now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let id = self.id();
        // Writing to a String cannot fail.
        let _ = write!(line, "{{\"time\":\"{now}\",\"request_id\":\"{id}\"");
        field(line, "trace_id", self.trace.as_deref().unwrap_or_default());
        field(line, "class", self.class);
        field(line, "client", &self.client.to_string());
        field(line, "host", &self.host);
        field(line, "method", self.method.as_str());
        field(line, "path", &self.path);
        let _ = write!(
            line,
            ",\"status\":{},\"bytes\":{}",
            self.status.as_u16(),
            self.bytes
        );
        let _ = write!(
            line,
            ",\"duration_ms\":{:.3}",
            self.started.elapsed().as_secs_f64() * 1e3
        );
        if let Some(upstream) = self.upstream {
            let _ = write!(line, ",\"upstream_ms\":{:.3}", upstream.as_secs_f64() * 1e3);
        }
        field(
            line,
            "app",
            self.app.as_ref().map_or("", |app| app.id().as_str()),
        );
        field(
            line,
            "subject",
            self.person.as_ref().map_or("", |person| &person.subject),
        );
        field(line, "decision", self.decision);
        field(line, "reason", self.reason);
        field(line, "outcome", self.outcome.unwrap_or_default());
        if self.broken {
            line.push_str(",\"broken\":true");
        }
        line.push('}');
    }
}

const TRACEPARENT: http::HeaderName = http::HeaderName::from_static("traceparent");

/// W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_id(traceparent: &str) -> Option<String> {
    let id = traceparent.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| id.to_owned())
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.requests.in_flight.dec();
        self.metrics
            .requests
            .count(self.class, self.status.as_u16());
        self.metrics.decision(self.decision, self.reason);
        self.metrics
            .requests
            .duration
            .observe(self.started.elapsed().as_secs_f64());
        self.log.write(|line| self.write(line));
    }
}

/// Adds a field, escaped: control characters, quotes, and the characters that turn the text
/// direction.
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
            c if c.is_control() || is_directional(c) => {
                let _ = write!(line, "\\u{:04x}", c as u32);
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

fn is_directional(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_break_out_of_its_field() {
        let mut line = String::from("{\"a\":1");
        field(&mut line, "path", "/a\"b\\c\r\n\u{1b}[31m\u{202e}\0");
        line.push('}');
        let parsed: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
        assert_eq!(parsed["path"], "/a\"b\\c\r\n\u{1b}[31m\u{202e}\0");
        assert!(!line.contains(['\r', '\n', '\u{1b}', '\u{202e}']));
    }

    #[test]
    fn a_field_is_cut_before_it_fills_the_line() {
        let mut line = String::new();
        field(&mut line, "path", &"\u{1}".repeat(300_000));
        assert!(line.len() < MAX_FIELD + 32, "{}", line.len());
    }
}
