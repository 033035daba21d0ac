//! Sends what was permitted, and nothing else: it takes a [`Permit`] and never reads the request
//! line again.
//!
//! One [`Forwarder`] per data thread, with connections of its own; nothing in it is shared or
//! locked.

pub mod app_tls;
pub mod bare_path;
pub mod body;
pub mod body_rate;
mod connect;
mod download;
pub mod fault;
mod http_handshake;
pub mod inline_connection;
pub mod interim;
pub mod metrics;
pub mod pool;
pub mod pooled;
pub mod proof;
pub mod request_headers;
pub mod response_headers;
mod sender;
pub mod set_cookie;
mod settings;
pub mod standing_headers;
mod timer;
pub mod tunnel;
pub mod upgrade;
mod upload;
mod upstream_connection;
mod upstream_stream;
pub mod websocket_frames;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version, header, uri::Scheme};
use hyper::body::Incoming;

use crate::{
    authorize::Permit,
    model::{
        app::{App, Protocol, UpstreamScheme},
        arrival::{Arrival, Framing, RequestClass},
        grpc::Grpc,
        load::{Holder, Slot},
    },
    session::usage::Usage,
};
use body::{Download, Source, Upload, UploadPolicy, UploadProgress, UploadState};
use body_rate::BodyRate;
use fault::Fault;
use pool::{Pool, PoolKey};
use pooled::{PooledConnection, SendError};
pub use settings::ForwardSettings;
use tokio::time::Instant;
use upgrade::Handshake;

/// However long a client says that it waits for a call, in the end it is over.
const LONGEST_CALL: Duration = Duration::from_secs(7 * 24 * 3600);

/// What came of a forwarded request.
pub enum Forwarded {
    /// An answer of the app, to be relayed.
    Answer(Response<Download>),
    /// The app switched protocols; the tunnel begins when the client has its 101.
    Switched {
        /// The 101, for the client.
        head: Response<()>,
        /// The app's side.
        upstream: hyper::upgrade::OnUpgrade,
        /// Its place on the connection, until the tunnel ends.
        lease: PooledConnection,
    },
}

/// One request on its way out.
pub struct Outgoing<'r> {
    /// The right to send it.
    pub permit: &'r Permit,
    /// The request as it was judged.
    pub arrival: &'r Arrival,
    /// Writes its headers, as `request_headers` does: called again only for a second try.
    pub headers: &'r dyn Fn() -> HeaderMap,
    /// Keeps the session alive while bytes move.
    pub usage: Option<Usage>,
    /// Who sends it; the port is that of the connection, 0 when it is somebody else's.
    pub client: SocketAddr,
    /// What limits of this client are counted under.
    pub limit_key: Option<IpAddr>,
    /// When it was found good.
    pub asked: std::time::Instant,
}

impl Outgoing<'_> {
    /// Which of an app's pods it goes to, if that one takes it: a person keeps to one, wherever
    /// they are, and who is nobody in particular goes by their address.
    fn near(&self) -> PoolKey {
        let told = self.permit.app().spec.proxy_protocol;
        PoolKey {
            pod: self.pod(),
            client: told.then_some(self.client),
        }
    }

    fn pod(&self) -> usize {
        let UpstreamScheme::Pods(pods) = &self.permit.app().spec.upstream.scheme else {
            return 0;
        };
        if pods.len() < 2 {
            return 0;
        }
        // Not keyed: all threads and replicas must come to the same, and nobody gains by knowing
        // it.
        let mut hasher = DefaultHasher::new();
        match self.permit.principal() {
            Some(person) => person.subject.hash(&mut hasher),
            None => self.client.ip().hash(&mut hasher),
        }
        // Smaller than the number of pods, which is a usize.
        (hasher.finish() % pods.len() as u64) as usize
    }
}

/// The forwarder of one data thread.
pub struct Forwarder {
    pool: Rc<Pool>,
}

impl Forwarder {
    /// With an empty pool.
    pub fn new(pool: Rc<Pool>) -> Forwarder {
        Forwarder { pool }
    }

    /// Sends the request and waits for the head of the answer.
    ///
    /// A bodyless GET, HEAD or OPTIONS that was sent on a used connection which died before any
    /// byte of an answer is sent once more, on a new one, and so is any request of which not a byte
    /// was written. Nothing else is ever sent twice.
    ///
    /// # Errors
    /// A [`Fault`] says whose fault it was; no byte of an answer has then reached the client.
    ///
    /// Cancel safety: dropping the future closes the connection to the app.
    pub async fn send(&self, outgoing: &Outgoing<'_>, body: Source) -> Result<Forwarded, Fault> {
        let near = outgoing.near();
        let Outgoing {
            permit,
            arrival,
            headers,
            usage,
            asked,
            ..
        } = outgoing;
        let asked = *asked;
        let app = permit.app();
        let settings = &self.pool.settings;
        let target = permit
            .destination()
            .upstream_target()
            .ok_or(Fault::Unsendable)?;
        let limit = app.spec.max_body;
        if let (Some(limit), Framing::Length(length)) = (limit, arrival.framing)
            && length > limit
        {
            return Err(Fault::TooLarge);
        }
        let assemble = |headers, upload| {
            assemble(app, arrival.method.clone(), target.clone(), headers, upload)
        };
        let holder = Holder::new(permit.principal().map(Arc::as_ref), outgoing.limit_key);
        let has_body = !matches!(arrival.framing, Framing::None | Framing::Length(0));
        let slot = if has_body {
            Slot::Uploading
        } else {
            Slot::Waiting
        };
        let waiting = self.pool.admit(app, slot, holder)?;
        if arrival.class == RequestClass::WebSocket {
            let request = assemble(headers(), Upload::empty())?;
            let handshake = upgrade::handshake(&self.pool, app, near, holder, request);
            return match Box::pin(handshake).await? {
                Handshake::Switched {
                    head,
                    upstream,
                    pooled: lease,
                } => Ok(Forwarded::Switched {
                    head,
                    upstream,
                    lease,
                }),
                Handshake::Declined(response, lease) => {
                    let upload = UploadState::none();
                    relay((response, lease), usage.clone(), upload, settings, None)
                }
            };
        }
        let may_use_kept = arrival.is_safe_to_repeat() || !self.pool.closes_idle_connections(app);
        let kept = if may_use_kept {
            self.pool.checkout(app, near, asked, holder)
        } else {
            None
        };
        let lease = match kept {
            Some(lease) => lease,
            None => Box::pin(self.pool.acquire(app, near, holder)).await?,
        };
        // What only says so is no call: an app that cannot take one has its usual deadlines.
        let call = arrival
            .grpc
            .filter(|_| app.spec.protocol == Protocol::Http2);
        let (upload, state) = match has_body {
            false => (Upload::empty(), UploadState::none()),
            true => {
                // A call of gRPC may say nothing for as long as it likes, in both directions.
                let pace = || BodyRate::new(settings.body_gap, settings.body_rate);
                let terms = UploadPolicy {
                    limit,
                    usage: usage.clone(),
                    body_rate: call.is_none().then(pace),
                    keeps_trailers: call.is_some(),
                    metrics: self.pool.metrics.clone(),
                };
                Upload::new(body, terms)
            }
        };
        let patience = match call {
            None => app.spec.timeout,
            Some(Grpc { timeout }) => timeout
                .unwrap_or(settings.stream_idle)
                .min(settings.stream_idle),
        };
        // Of the whole call, where its client says one.
        let deadline = call.and_then(|call| Some(Instant::now() + call.timeout?.min(LONGEST_CALL)));
        let request = assemble(headers(), upload)?;
        let sent = match lease.send(request, &state, patience).await {
            Ok(sent) => sent,
            Err(failed) => {
                let once_more = match failed {
                    // Not a byte of it was written: whatever it is, it was not sent.
                    SendError {
                        unsent: Some(request),
                        ..
                    } => *request,
                    SendError {
                        fault: Fault::DiedUnanswered,
                        unsent: None,
                    } if arrival.is_safe_to_repeat() => assemble(headers(), Upload::empty())?,
                    SendError {
                        fault,
                        unsent: None,
                    } => return Err(fault),
                };
                let again = async {
                    let lease = self.pool.acquire(app, near, holder).await?;
                    lease
                        .send(once_more, &state, patience)
                        .await
                        .map_err(|failed| failed.fault)
                };
                Box::pin(again).await?
            }
        };
        drop(waiting);
        state.answered();
        let mut sent = sent;
        if state.progress() == UploadProgress::Running {
            // The app may read on whether or not its answer is taken.
            sent.1.connection.sender.spawn();
        }
        relay(sent, usage.clone(), state, settings, deadline)
    }
}

/// The request as it is sent: on HTTP/2 the host is part of the address, and the message frames
/// itself.
fn assemble(
    app: &App,
    method: Method,
    target: http::uri::PathAndQuery,
    mut headers: HeaderMap,
    body: Upload,
) -> Result<Request<Upload>, Fault> {
    let mut request = Request::new(body);
    let (version, uri) = match app.spec.protocol {
        Protocol::Http1 => (Version::HTTP_11, Uri::from(target)),
        Protocol::Http2 => {
            let host = headers.remove(header::HOST).ok_or(Fault::Unsendable)?;
            headers.remove(header::TRANSFER_ENCODING);
            let scheme = match app.spec.upstream.scheme {
                UpstreamScheme::Https | UpstreamScheme::Container(_) => Scheme::HTTPS,
                UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => {
                    Scheme::HTTP
                }
            };
            let whole = Uri::builder()
                .scheme(scheme)
                .authority(host.as_bytes())
                .path_and_query(target);
            (
                Version::HTTP_2,
                whole.build().map_err(|_| Fault::Unsendable)?,
            )
        }
    };
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    *request.version_mut() = version;
    Ok(request)
}

/// Checks that the answer is one that may be relayed.
fn relay(
    (mut response, lease): (Response<Incoming>, PooledConnection),
    usage: Option<Usage>,
    upload: UploadState,
    settings: &ForwardSettings,
    deadline: Option<Instant>,
) -> Result<Forwarded, Fault> {
    let status = response.status();
    let strange = status == StatusCode::SWITCHING_PROTOCOLS
        || status.as_u16() >= 600
        || !response_headers::settle_framing(response.headers_mut());
    if strange {
        // The connection is not reused: dropping the lease closes it.
        return Err(Fault::BadAnswer);
    }
    // Our own version: an app of HTTP/1.0 must not make our answer one whose end nobody can see.
    *response.version_mut() = Version::HTTP_11;
    let finite = response.headers().contains_key(header::CONTENT_LENGTH);
    let gap = if is_silent_by_nature(response.headers()) {
        settings.stream_idle
    } else {
        settings.response_gap
    };
    Ok(Forwarded::Answer(response.map(|body| {
        Download::new(body, lease, usage.filter(|_| finite), upload, gap, deadline)
    })))
}

/// Whether an answer may say nothing for long without being stuck: events, and calls.
fn is_silent_by_nature(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |kind| kind.as_bytes());
    let begins = |name: &[u8]| {
        kind.get(..name.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    };
    begins(b"text/event-stream") || begins(b"application/grpc")
}
