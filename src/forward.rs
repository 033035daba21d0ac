//! Sends what was permitted, and nothing else: it takes a [`Permit`] and never reads the request line again.
//!
//! One [`Forwarder`] per data thread, with connections of its own; nothing in it is shared or locked.

pub mod body;
pub mod connect;
pub mod fault;
pub mod frames;
pub mod pool;
pub mod proof;
pub mod request_headers;
pub mod response_headers;
pub mod set_cookie;
pub mod tunnel;
pub mod upgrade;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;

use crate::{
    authorize::Permit,
    model::{
        app::UpstreamScheme,
        arrival::{Arrival, RequestClass},
    },
    session::usage::Usage,
};
use body::{Download, Upload};
use fault::Fault;
use pool::{Failed, Lease, Pool};

/// Deadlines and bounds towards apps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Deadline for a connection, TLS included.
    pub connect: Duration,
    /// How long an app may take for a response head, unless it has a deadline of its own.
    pub response_head: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Largest response head, in bytes.
    pub head_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connect: Duration::from_secs(3),
            response_head: Duration::from_secs(60),
            idle: Duration::from_secs(10),
            head_bytes: 64 * 1024,
        }
    }
}

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
    /// Who sends it.
    pub client: IpAddr,
}

impl Outgoing<'_> {
    /// Which of an app's pods it goes to, if that one takes it: a person keeps to one, wherever they are, and
    /// who is nobody in particular goes by their address.
    fn near(&self) -> usize {
        let UpstreamScheme::Pods(pods) = &self.permit.app().spec.upstream.scheme else { return 0 };
        if pods.len() < 2 {
            return 0;
        }
        // Not keyed: all threads and replicas must come to the same, and nobody gains by knowing it.
        let mut hasher = DefaultHasher::new();
        match self.permit.principal() {
            Some(person) => person.subject.hash(&mut hasher),
            None => self.client.hash(&mut hasher),
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
    /// A bodyless GET, HEAD or OPTIONS that was sent on a used connection which died before any byte of an
    /// answer is sent once more, on a new one, and so is any request of which not a byte was written. Nothing
    /// else is ever sent twice.
    ///
    /// # Errors
    /// A [`Fault`] says whose fault it was; no byte of an answer has then reached the client.
    ///
    /// Cancel safety: dropping the future closes the connection to the app.
    pub async fn send(&self, outgoing: Outgoing<'_>, body: Incoming) -> Result<Forwarded, Fault> {
        let near = outgoing.near();
        let Outgoing { permit, arrival, headers, usage, .. } = outgoing;
        let app = permit.app();
        let target = permit.destination().upstream_target().ok_or(Fault::Unsendable)?;
        let uri = Uri::from(target);
        let limit = app.spec.max_body;
        if let (Some(limit), crate::model::arrival::Framing::Length(length)) = (limit, arrival.framing)
            && length > limit
        {
            return Err(Fault::TooLarge);
        }
        if arrival.class == RequestClass::WebSocket {
            return upgrade::handshake(&self.pool, app, near, uri, headers(), usage).await;
        }
        let lease = match self.pool.take(app, near) {
            Some(lease) => lease,
            None => self.pool.connect(app, near).await?,
        };
        let (upload, state) = Upload::new(body, arrival.framing, limit, usage.clone());
        let request = assemble(arrival.method.clone(), uri.clone(), headers(), upload);
        let deadline = app.spec.timeout;
        let failed = match lease.send(request, &state, deadline).await {
            Ok((response, lease)) => return relay(response, lease, usage),
            Err(failed) => failed,
        };
        let once_more = match failed {
            // Not a byte of it was written: whatever it is, it was not sent.
            Failed { unsent: Some(request), .. } => *request,
            Failed { fault: Fault::DiedUnanswered, unsent: None } if arrival.is_safe_to_repeat() => {
                assemble(arrival.method.clone(), uri, headers(), Upload::empty())
            }
            Failed { fault, unsent: None } => return Err(fault),
        };
        let lease = self.pool.connect(app, near).await?;
        let (response, lease) =
            lease.send(once_more, &state, deadline).await.map_err(|failed| failed.fault)?;
        relay(response, lease, usage)
    }
}

fn assemble(method: Method, uri: Uri, headers: HeaderMap, body: Upload) -> Request<Upload> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    *request.version_mut() = Version::HTTP_11;
    request
}

/// Checks that the answer is one that may be relayed.
fn relay(mut response: Response<Incoming>, lease: Lease, usage: Option<Usage>) -> Result<Forwarded, Fault> {
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
    let finite = response.headers().contains_key(http::header::CONTENT_LENGTH);
    Ok(Forwarded::Answer(response.map(|body| Download::new(body, lease, usage.filter(|_| finite)))))
}
