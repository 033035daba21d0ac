//! The body of a request, towards the app: streamed with back-pressure, bounded, and counted.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{
    body_rate::{BodyRate, TooSlow},
    header_action,
    metrics::ForwardMetrics,
};
use crate::{
    model::app::{App, AppSpec, Protocol},
    session::usage::Usage,
};

/// The source of a request body: the client, or a saved form.
pub type Source = Either<Incoming, Full<Bytes>>;

/// The body of a request. `None` for most requests; boxed because requests are moved often.
pub struct Upload(Option<Box<Sending>>);

struct Sending {
    source: Source,
    /// Bytes left below the limit.
    left: Option<u64>,
    state: UploadState,
    policy: UploadPolicy,
}

/// The state of an upload, shared with the request that waits for the response.
#[derive(Clone, Debug)]
pub struct UploadState(Option<Rc<SharedState>>);

#[derive(Debug)]
struct SharedState {
    progress: Cell<UploadProgress>,
    sent: Cell<u64>,
    response_started: Cell<bool>,
    /// The response ended, and the upload ends with it.
    cancelled: Cell<bool>,
    /// Wakes the upload when it is cancelled.
    waker: RefCell<Option<Waker>>,
}

/// The progress of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadProgress {
    /// Bytes are still to come.
    Running,
    /// All bytes were sent.
    Done,
    /// The client's message is malformed or ended early.
    Broken,
    /// Over the limit of the app.
    TooLarge,
    /// The client sends nothing, or too little.
    Slow,
}

/// The bounds of an upload.
pub struct UploadPolicy {
    /// Maximum number of bytes.
    pub limit: Option<u64>,
    /// The session that the bytes keep alive.
    pub usage: Option<Usage>,
    /// Bounds gaps and rate; `None` for gRPC calls.
    pub body_rate: Option<BodyRate>,
    /// The app that gets trailers (gRPC). Others are dropped: they would be headers that no check
    /// has seen.
    pub trailers_for: Option<Arc<App>>,
    /// Counts slow uploads.
    pub metrics: Arc<ForwardMetrics>,
}

/// An upload ended before its end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the upload was cut off")]
pub struct UploadAborted;

impl UploadState {
    /// The state of a request without a body.
    pub fn none() -> UploadState {
        UploadState(None)
    }

    /// The progress so far.
    pub fn progress(&self) -> UploadProgress {
        self.0
            .as_ref()
            .map_or(UploadProgress::Done, |state| state.progress.get())
    }

    /// Bytes passed on so far.
    pub fn sent(&self) -> u64 {
        self.0.as_ref().map_or(0, |state| state.sent.get())
    }

    /// The response has ended.
    ///
    /// A response that broke off cancels its upload, and so does any response of HTTP/2, whose
    /// streams end in both directions. Otherwise the usual bounds apply again to the rest.
    pub(super) fn response_ended(&self, is_complete: bool, protocol: Protocol) {
        let Some(state) = &self.0 else { return };
        state.response_started.set(false);
        if !is_complete || protocol == Protocol::Http2 {
            state.cancelled.set(true);
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether the upload is cancelled; if not, registers the task for the wake-up.
    fn poll_cancelled(&self, cx: &Context<'_>) -> bool {
        let Some(state) = &self.0 else { return false };
        let mut waker = state.waker.borrow_mut();
        if waker
            .as_ref()
            .is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        state.cancelled.get()
    }

    /// The response has begun: the app has decided, so the rest of the upload may be slow.
    pub fn answered(&self) {
        if let Some(state) = &self.0 {
            state.response_started.set(true);
        }
    }

    fn is_response_started(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|state| state.response_started.get())
    }

    fn set(&self, progress: UploadProgress) {
        if let Some(state) = &self.0 {
            state.progress.set(progress);
        }
    }

    fn add(&self, bytes: u64) {
        if let Some(state) = &self.0 {
            state.sent.set(state.sent.get() + bytes);
        }
    }
}

impl Upload {
    /// No body.
    pub fn empty() -> Upload {
        Upload(None)
    }

    /// A body within these bounds.
    pub fn new(source: Source, policy: UploadPolicy) -> (Upload, UploadState) {
        let shared = SharedState {
            progress: Cell::new(UploadProgress::Running),
            sent: Cell::new(0),
            response_started: Cell::new(false),
            cancelled: Cell::new(false),
            waker: RefCell::default(),
        };
        let state = UploadState(Some(Rc::new(shared)));
        let sending = Sending {
            source,
            left: policy.limit,
            state: state.clone(),
            policy,
        };
        (Upload(Some(Box::new(sending))), state)
    }
}

type PolledFrame = Poll<Option<Result<Frame<Bytes>, UploadAborted>>>;

impl Sending {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            let frame = match Pin::new(&mut self.source).poll_frame(cx) {
                Poll::Pending => return self.poll_gap(cx),
                Poll::Ready(None) => {
                    self.state.set(UploadProgress::Done);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => return self.abort(UploadProgress::Broken),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            match frame.into_data() {
                Ok(data) => return self.pass(data),
                Err(frame) => {
                    if let (Some(app), Ok(trailers)) =
                        (&self.policy.trailers_for, frame.into_trailers())
                    {
                        let trailers = without_reserved(trailers, &app.spec);
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                }
            }
        }
    }

    /// Nothing is there now.
    fn poll_gap(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        if self.state.is_response_started() {
            return Poll::Pending;
        }
        let Some(body_rate) = self.policy.body_rate.as_mut() else {
            return Poll::Pending;
        };
        let slow = ready!(body_rate.poll_gap(cx));
        self.abort_slow(slow)
    }

    /// Counts the bytes and checks the bounds.
    fn pass(&mut self, data: Bytes) -> PolledFrame {
        let length = data.len() as u64;
        if let Some(body_rate) = &mut self.policy.body_rate
            && let Err(slow) = body_rate.record(length)
            && !self.state.is_response_started()
        {
            return self.abort_slow(slow);
        }
        if let Some(usage) = &self.policy.usage {
            usage.touch();
        }
        if let Some(left) = &mut self.left {
            match left.checked_sub(length) {
                Some(rest) => *left = rest,
                None => return self.abort(UploadProgress::TooLarge),
            }
        }
        self.state.add(length);
        if self.source.is_end_stream() {
            self.state.set(UploadProgress::Done);
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn abort(&self, progress: UploadProgress) -> PolledFrame {
        self.state.set(progress);
        Poll::Ready(Some(Err(UploadAborted)))
    }

    fn abort_slow(&self, slow: TooSlow) -> PolledFrame {
        self.policy.metrics.deadlines.missed(match slow {
            TooSlow::Gap => "body_gap",
            TooSlow::Rate => "body_rate",
        });
        self.abort(UploadProgress::Slow)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadAborted;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let Some(sending) = &mut self.0 else {
            return Poll::Ready(None);
        };
        if sending.state.poll_cancelled(cx) {
            return sending.abort(UploadProgress::Broken);
        }
        sending.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|sending| sending.source.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(
            || SizeHint::with_exact(0),
            |sending| sending.source.size_hint(),
        )
    }
}

/// Trailers without the names that we set, or that concern a single connection.
fn without_reserved(trailers: HeaderMap, app: &AppSpec) -> HeaderMap {
    let mut last = None;
    let named = trailers.into_iter().filter_map(|(name, value)| {
        last = name.or(last.take());
        Some((last.clone()?, value))
    });
    named
        .filter(|(name, _)| header_action::passes(name, app))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::model::{
        access::Access,
        app::{AppId, Upstream, UpstreamScheme},
        header_template::{AppHeader, HeaderTemplate},
    };

    #[test]
    fn no_trailer_is_taken_for_a_header_of_ours_or_of_the_apps_table() {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "app.test".into(),
            port: 80,
        };
        let id = AppId::new("a").expect("an id");
        let header = AppHeader {
            name: HeaderName::from_static("x-tenant"),
            value: HeaderTemplate::parse("blue").expect("a template"),
        };
        let app = AppSpec {
            headers: [header].into(),
            ..AppSpec::new(id, upstream, Access::Public, Duration::from_secs(1))
        };
        let trailers: HeaderMap = [
            ("x-tenant", "forged"),
            ("x_tenant", "forged"),
            ("x-forwarded-user", "forged"),
            ("x-sum", "1"),
            ("x-sum", "2"),
            ("authorization", "forged"),
        ]
        .into_iter()
        .map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        })
        .collect();
        let left = without_reserved(trailers, &app);
        let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-sum", "x-sum"]);
    }
}
