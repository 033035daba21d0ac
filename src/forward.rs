//! Sends what was permitted, and nothing else: it takes a [`Permit`] and never reads the request
//! line again.
//!
//! One [`Forwarder`] per data thread, with connections of its own; nothing in it is shared or
//! locked.

pub mod app_tls;
pub mod app_websocket;
mod attestation;
pub mod body;
pub mod body_rate;
pub mod cached_headers;
mod chosen_upstream;
mod connect;
mod download;
pub mod fault;
pub mod header_action;
mod http_handshake;
pub mod inline_connection;
pub mod interim;
pub mod metrics;
mod outgoing;
pub mod pool;
pub mod pooled;
mod public_location;
mod request;
pub mod request_headers;
pub mod response_headers;
mod script_insertion;
mod sender;
mod session_notice;
pub mod set_cookie;
mod settings;
mod spare_headers;
mod strip_credentials;
mod tls_cause;
pub mod trailing_slash;
pub mod tunnel;
mod upload;
mod upstream_connection;
mod upstream_faults;
mod upstream_filter;
pub mod websocket_frames;

use std::{pin::pin, rc::Rc, time::Duration};

use http::{HeaderMap, Response, StatusCode, Version, uri::PathAndQuery};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::{
    model::{
        app::Protocol,
        arrival::{Framing, RequestClass},
        concurrency_limit::SlotKind,
        grpc::GrpcCall,
        header_values::has_media_type,
    },
    session::usage::Usage,
};
use app_websocket::{Handshake, Switched};
use body::{Download, Source, Upload, UploadPolicy, UploadProgress, UploadState};
use body_rate::BodyRate;
use chosen_upstream::ChosenUpstream;
use fault::Fault;
pub use outgoing::Outgoing;
use pool::Pool;
use pooled::{PooledConnection, SendError};
use request::assemble;
use response_headers::BodyLength;
pub use settings::ForwardSettings;
pub use spare_headers::SpareHeaders;

/// Longest deadline of a gRPC call, whatever its client says.
const LONGEST_CALL: Duration = Duration::from_secs(7 * 24 * 3600);
/// The media type of server-sent events.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// What the app answered.
pub enum Forwarded {
    /// An answer of the app, to be relayed.
    Answer(Response<Download>),
    /// The app switched protocols; the tunnel begins when the client has its 101.
    Switched(Switched),
}

impl Forwarded {
    fn head_mut(&mut self) -> (StatusCode, &mut HeaderMap) {
        match self {
            Forwarded::Answer(response) => (response.status(), response.headers_mut()),
            Forwarded::Switched(Switched { head, .. }) => (head.status(), head.headers_mut()),
        }
    }
}

/// The forwarder of one data thread.
pub struct Forwarder {
    /// The maps of handled requests.
    pub spare: SpareHeaders,
    pool: Rc<Pool>,
}

impl Forwarder {
    /// With an empty pool.
    pub fn new(pool: Rc<Pool>) -> Forwarder {
        Forwarder {
            spare: SpareHeaders::default(),
            pool,
        }
    }

    /// Sends the request and waits for the head of the answer.
    ///
    /// A bodyless GET, HEAD or OPTIONS that was sent on a used connection which died before any
    /// byte of an answer is sent once more, on a new one, and so is any request of which not a byte
    /// was written. Nothing else is ever sent twice. An upstream that accepts no connection got
    /// nothing, so one other upstream of the app is tried.
    ///
    /// # Errors
    /// A [`Fault`] says whose fault it was; no byte of an answer has then reached the client.
    ///
    /// Cancel safety: dropping the future closes the connection to the app.
    pub async fn send(
        &self,
        outgoing: &Outgoing<'_, '_>,
        body: Source,
    ) -> Result<Forwarded, Fault> {
        let (app, site) = (outgoing.permit.app(), outgoing.site);
        let exchanged = self.exchange(outgoing, body).await;
        let mut forwarded = exchanged
            .inspect_err(|fault| upstream_faults::record(app, *fault, &self.pool.metrics))?;
        upstream_faults::record_response(app);
        let (status, headers) = forwarded.head_mut();
        if status.is_redirection() {
            trailing_slash::learn(outgoing, headers);
        }
        response_headers::rewrite(headers, app, site);
        if let (true, Forwarded::Answer(page)) = (outgoing.gets_notice(), &mut forwarded) {
            session_notice::add(page);
        }
        Ok(forwarded)
    }

    async fn exchange(
        &self,
        outgoing: &Outgoing<'_, '_>,
        body: Source,
    ) -> Result<Forwarded, Fault> {
        let app = outgoing.permit.app();
        let arrival = &outgoing.request.arrival;
        let target = outgoing.target()?;
        let limit = app.spec.max_body;
        if let (Some(limit), Framing::Length(length)) = (limit, arrival.framing)
            && length > limit
        {
            return Err(Fault::TooLarge);
        }
        let has_body = !matches!(arrival.framing, Framing::None | Framing::Length(0));
        let slot = if has_body {
            SlotKind::Uploading
        } else {
            SlotKind::Waiting
        };
        let holder = outgoing.holder();
        let waiting = self.pool.admit(app, slot, holder)?;
        let mut chosen = outgoing.choose_upstream();
        if arrival.class == RequestClass::WebSocket {
            return Box::pin(self.handshake(outgoing, target, chosen)).await;
        }
        let mut pooled = self.connection(outgoing, &mut chosen).await?;
        let deadlines = Deadlines::new(outgoing, &self.pool.settings);
        let (upload, state) = if has_body {
            Upload::new(body, self.upload_policy(outgoing, deadlines.is_call))
        } else {
            (Upload::empty(), UploadState::none())
        };
        let request = assemble(outgoing, target, upload, &self.spare)?;
        let sending = pin!(pooled.send(request));
        let (response, mut pooled) = match pooled.response(sending, &state, deadlines.head).await {
            Ok(answered) => answered,
            Err(failed) => {
                let again = self.send_again(outgoing, &mut chosen, failed, &state, deadlines.head);
                Box::pin(again).await?
            }
        };
        drop(waiting);
        pooled.in_progress = chosen.into_in_progress();
        state.answered();
        if state.progress() == UploadProgress::Running {
            // The app may go on reading, whether or not its answer is read.
            pooled.connection.sender.spawn();
        }
        let usage = outgoing.usage.clone();
        let settings = &self.pool.settings;
        relay(response, pooled, usage, state, settings, deadlines.call)
    }

    async fn handshake(
        &self,
        outgoing: &Outgoing<'_, '_>,
        target: PathAndQuery,
        chosen: ChosenUpstream,
    ) -> Result<Forwarded, Fault> {
        let request = assemble(outgoing, target, Upload::empty(), &self.spare)?;
        let (app, holder) = (outgoing.permit.app(), outgoing.holder());
        match app_websocket::handshake(&self.pool, app, chosen, holder, request).await? {
            Handshake::Switched(switched) => Ok(Forwarded::Switched(switched)),
            Handshake::Declined(response, pooled) => {
                let usage = outgoing.usage.clone();
                let settings = &self.pool.settings;
                relay(response, pooled, usage, UploadState::none(), settings, None)
            }
        }
    }

    /// A kept connection, else a new one. A request that must not be sent twice gets no kept
    /// connection of an app that closes them without notice.
    async fn connection(
        &self,
        outgoing: &Outgoing<'_, '_>,
        chosen: &mut ChosenUpstream,
    ) -> Result<PooledConnection, Fault> {
        let (app, holder) = (outgoing.permit.app(), outgoing.holder());
        let is_safe = outgoing.request.arrival.is_safe_to_repeat();
        let kept = if is_safe || !self.pool.closes_idle_connections(app) {
            self.pool
                .checkout(app, chosen.key, outgoing.started, holder)
        } else {
            None
        };
        match kept {
            Some(pooled) => Ok(pooled),
            None => Box::pin(self.pool.acquire(app, chosen, holder)).await,
        }
    }

    /// A gRPC call may pause for as long as it likes, in both directions.
    fn upload_policy(&self, outgoing: &Outgoing<'_, '_>, is_call: bool) -> UploadPolicy {
        let settings = &self.pool.settings;
        let rate = || BodyRate::new(settings.body_gap, settings.body_rate);
        UploadPolicy {
            limit: outgoing.permit.app().spec.max_body,
            usage: outgoing.usage.clone(),
            body_rate: (!is_call).then(rate),
            trailers_for: is_call.then(|| outgoing.permit.app().clone()),
            metrics: self.pool.metrics.clone(),
        }
    }

    /// Sends the request once more, on a new connection, where that is allowed.
    async fn send_again(
        &self,
        outgoing: &Outgoing<'_, '_>,
        chosen: &mut ChosenUpstream,
        failed: SendError,
        state: &UploadState,
        deadline: Duration,
    ) -> Result<(Response<Incoming>, PooledConnection), Fault> {
        let request = match failed {
            // Not a byte of it was written.
            SendError {
                unsent: Some(request),
                ..
            } => *request,
            SendError {
                fault: Fault::DiedUnanswered,
                unsent: None,
            } if outgoing.request.arrival.is_safe_to_repeat() => {
                let target = outgoing.target()?;
                assemble(outgoing, target, Upload::empty(), &self.spare)?
            }
            SendError {
                fault,
                unsent: None,
            } => return Err(fault),
        };
        let app = outgoing.permit.app();
        let mut pooled = self.pool.acquire(app, chosen, outgoing.holder()).await?;
        let sending = pin!(pooled.send(request));
        let answered = pooled.response(sending, state, deadline).await;
        answered.map_err(|failed| failed.fault)
    }
}

/// How long the app may take.
struct Deadlines {
    /// For the head of its answer.
    head: Duration,
    /// For the whole of a gRPC call, where its client sets a deadline; `None`: no call, or no
    /// deadline.
    call: Option<Instant>,
    is_call: bool,
}

impl Deadlines {
    fn new(outgoing: &Outgoing<'_, '_>, settings: &ForwardSettings) -> Deadlines {
        let app = outgoing.permit.app();
        let is_http2 = app.spec.protocol == Protocol::Http2;
        // An app that cannot take a call has its usual deadlines.
        let Some(GrpcCall { timeout }) = outgoing.request.arrival.grpc.filter(|_| is_http2) else {
            return Deadlines {
                head: app.spec.timeout,
                call: None,
                is_call: false,
            };
        };
        let longest = settings.stream_idle;
        Deadlines {
            head: timeout.unwrap_or(longest).min(longest),
            call: timeout.map(|timeout| Instant::now() + timeout.min(LONGEST_CALL)),
            is_call: true,
        }
    }
}

/// Checks that the answer is one that may be relayed.
fn relay(
    mut response: Response<Incoming>,
    pooled: PooledConnection,
    usage: Option<Usage>,
    upload: UploadState,
    settings: &ForwardSettings,
    deadline: Option<Instant>,
) -> Result<Forwarded, Fault> {
    let status = response.status();
    let is_final = status != StatusCode::SWITCHING_PROTOCOLS && status.as_u16() < 600;
    let length = response_headers::normalize_framing(response.headers_mut());
    let Some(length) = length.filter(|_| is_final) else {
        // The connection is not reused: dropping the pooled closes it.
        return Err(Fault::BadAnswer);
    };
    // Always HTTP/1.1: an HTTP/1.0 response without a length ends when the connection is closed, so
    // the client could not detect a truncated body.
    *response.version_mut() = Version::HTTP_11;
    let is_finite = length == BodyLength::Known;
    let gap = if is_silent_by_nature(response.headers()) {
        settings.stream_idle
    } else {
        settings.response_gap
    };
    Ok(Forwarded::Answer(response.map(|body| {
        Download::new(
            body,
            pooled,
            usage.filter(|_| is_finite),
            upload,
            gap,
            deadline,
        )
    })))
}

/// Whether an answer may say nothing for long without being stuck: events, and calls.
fn is_silent_by_nature(headers: &HeaderMap) -> bool {
    has_media_type(headers, &[EVENT_STREAM, b"application/grpc"])
}

/// Whether an answer is server-sent events.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    has_media_type(headers, &[EVENT_STREAM])
}
