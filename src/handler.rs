//! One request from its head to its answer.
//!
//! [`Handler::handle`] is the request, read aloud: parse, look up, identify, authorize, forward.
//! Anything that ends it early is a [`Decision`], which [`Handler::serve`] has rendered by `respond`
//! and logged, once, at the end.

mod conclude;
pub mod connection;
mod relay;
mod request_id;
mod resend;
pub mod service;
mod tunnel;

use std::{rc::Rc, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::Either;
use hyper::{
    body::{Body, Incoming},
    upgrade::OnUpgrade,
};

use crate::{
    access_log::{AccessLog, Entry, RequestStart, TRACEPARENT, Transfer},
    authorize::Grounds,
    caller::Identified,
    catalog::snapshot::Snapshot,
    decide::{
        self, Decision,
        labels::{DecisionLabel, LogReason, Outcome},
    },
    forward::{Forwarder, body::Source, pool::Pool},
    gateway::Gateway,
    incoming::{self, IncomingRequest},
    model::{app::App, client::Client, principal::Principal},
    respond::{self, body::ReplyBody},
    streams::Streams,
};
use conclude::conclude_malformed;
use connection::HttpExchange;
use request_id::RequestIds;
use tunnel::Tunnel;

/// What one data thread has for itself. Nothing in it is shared or locked.
pub struct Handler {
    gateway: Arc<Gateway>,
    forwarder: Forwarder,
    streams: Rc<Streams>,
    log: Rc<AccessLog>,
    ids: RequestIds,
    /// `Strict-Transport-Security` of the site, which does not change.
    hsts: Option<HeaderValue>,
}

/// An answer of the app.
enum Reply {
    Answer(Response<ReplyBody>),
    Tunnel(Box<Tunnel>),
}

/// What is known of a request so far: the answer is rendered and logged from it at the end.
#[derive(Default)]
struct Progress<'h> {
    request: Option<IncomingRequest<'h>>,
    app: Option<Arc<App>>,
    caller: Option<Identified>,
    answer: AnswerFacts,
}

/// What the answer needs that no later step knows.
#[derive(Default)]
struct AnswerFacts {
    person: Option<Arc<Principal>>,
    /// Names the tenant of the address to a browser that does not know it yet.
    tenant_cookie: Option<HeaderValue>,
    /// Cookies to set, whatever the app answers.
    cookies: Vec<HeaderValue>,
    /// The time until the head of the app's answer.
    upstream: Option<Duration>,
    /// Why the request was permitted.
    grounds: Option<Grounds>,
}

/// The client's side of one request: its body, and its connection once it is upgraded.
struct ClientSide {
    body: Source,
    upgrade: Option<OnUpgrade>,
}

/// One request as it came: what every step may need beside the parsed head.
struct Context<'h> {
    parts: &'h Parts,
    snapshot: &'h Snapshot,
    exchange: &'h HttpExchange,
    id: HeaderValue,
    client: Client,
}

impl Handler {
    /// Sets the thread up and starts its background tasks on the current local runtime.
    pub fn start(gateway: Arc<Gateway>) -> Rc<Handler> {
        let pool = Pool::new(gateway.forward.clone(), gateway.forward_metrics.clone());
        let metrics = &gateway.metrics;
        let streams = Streams::new(metrics.streams.clone(), metrics.streams_cut.clone());
        let log = AccessLog::new(gateway.log.clone());
        tokio::task::spawn_local(pool.clone().keep_tidy());
        let changes = gateway.policy_changes.clone();
        tokio::task::spawn_local(streams.clone().watch(gateway.clock.clone(), changes));
        tokio::task::spawn_local(log.clone().keep_flushing());
        let hsts = gateway.catalog.load().site().hsts.clone();
        Rc::new(Handler {
            gateway,
            forwarder: Forwarder::new(pool),
            streams,
            log,
            ids: RequestIds::new(),
            hsts,
        })
    }

    /// The request, read aloud.
    ///
    /// # Errors
    /// The decision that ends it before an app has answered.
    async fn handle<'h>(
        &self,
        context: &Context<'h>,
        side: &mut Option<ClientSide>,
        progress: &mut Progress<'h>,
    ) -> Result<Reply, Decision> {
        let Context {
            snapshot, exchange, ..
        } = context;
        let Progress {
            request,
            app,
            caller,
            answer,
        } = progress;

        let request = request.insert(context.parse(side)?);
        let client = request.client.address;
        let lookup = self
            .gateway
            .catalog
            .look_up(&mut request.arrival, snapshot, client)
            .await;
        let target = decide::locate(request, snapshot, &lookup)?;
        let app = app.insert(target.destination.app.clone());
        answer.tenant_cookie = target.tenant.first().cloned();
        let memo = &exchange.connection.session_memo;
        let caller = caller.insert(self.gateway.callers.identify(request, app, memo).await?);
        answer.person = caller.caller.principal().cloned();
        let permit = decide::authorize(target, caller, &request.arrival, snapshot.site())?;
        self.relay(permit, request, caller, side.take(), context, answer)
            .await
    }

    /// Answers a request: handles it, renders what came of it, and logs it.
    pub async fn serve(
        self: Rc<Self>,
        request: Request<Incoming>,
        exchange: HttpExchange,
    ) -> Response<ReplyBody> {
        let start = RequestStart::now(self.gateway.metrics.clone());
        let (mut parts, body) = request.into_parts();
        let connection = exchange.connection.clone();
        exchange.note_method(&parts);
        let normalized = incoming::http2::settle(&mut parts, connection.head_fields);
        let host = parts.headers.get(header::HOST).cloned();
        let snapshot = self.gateway.catalog.load();
        if connection.redirects {
            incoming::public_port::assume(&mut parts, snapshot.site());
        }
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let context = Context {
            parts: &parts,
            snapshot: &snapshot,
            exchange: &exchange,
            id: self.ids.next(&parts, &connection.peer),
            client: connection.peer.client(&parts.headers),
        };
        let body = Either::Left(body);
        let mut side = Some(ClientSide { body, upgrade });
        let mut progress = Progress::default();
        let handled = match normalized {
            Ok(()) => self.handle(&context, &mut side, &mut progress).await,
            Err(malformed) => Err(malformed.into()),
        };
        let concluded = match handled {
            Ok(reply) => Concluded::relayed(reply, progress.answer.grounds),
            Err(decision) => match progress.request.take() {
                None => conclude_malformed(&decision, &context),
                Some(mut request) => {
                    let concluding =
                        self.conclude(decision, &mut request, side, &context, &mut progress);
                    let concluded = Box::pin(concluding).await;
                    progress.request = Some(request);
                    concluded
                }
            },
        };
        let answer = progress.answer;
        let entry = Box::new(Entry {
            log: self.log.clone(),
            start,
            class: progress.request.map(|request| request.arrival.class),
            method: parts.method.clone(),
            target: parts.uri.path_and_query().cloned(),
            host,
            traceparent: parts.headers.get(TRACEPARENT).cloned(),
            client: context.client,
            id: context.id,
            status: concluded.status(),
            app: progress.app,
            person: answer.person,
            decision: concluded.decision,
            reason: concluded.reason,
            upstream: answer.upstream,
            outcome: concluded.outcome,
            transfer: Transfer::default(),
        });
        self.finish(concluded.reply, answer.cookies, entry, exchange)
    }

    fn finish(
        &self,
        reply: Reply,
        cookies: Vec<HeaderValue>,
        entry: Box<Entry>,
        exchange: HttpExchange,
    ) -> Response<ReplyBody> {
        match reply {
            Reply::Answer(mut response) => {
                respond::append_cookies(&mut response, cookies);
                // Not over http, where anybody on the way could set it (RFC 6797 section 7.2).
                if let (Some(hsts), false) = (&self.hsts, exchange.connection.redirects) {
                    let headers = response.headers_mut();
                    headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
                }
                exchange.finish(response.map(|body| body.with_entry(entry)))
            }
            Reply::Tunnel(mut tunnel) => {
                respond::append_cookies(&mut tunnel.head, cookies);
                tunnel.start(entry, exchange)
            }
        }
    }
}

impl<'h> Context<'h> {
    /// The parsed head.
    fn parse(&self, side: &Option<ClientSide>) -> Result<IncomingRequest<'h>, Decision> {
        let site = self.snapshot.site();
        let ends = side.as_ref().is_none_or(|side| side.body.is_end_stream());
        let headers = &self.parts.headers;
        let ingress = self.exchange.connection.ingress(headers);
        let arrival = decide::head(self.parts, ends, site, ingress)?;
        let id = self.id.clone();
        Ok(IncomingRequest::new(
            arrival,
            headers,
            site,
            id,
            self.client,
        ))
    }
}

/// What came of a request: the answer, and what the access log says of it.
struct Concluded {
    reply: Reply,
    decision: DecisionLabel,
    reason: LogReason,
    outcome: Option<Outcome>,
}

impl Concluded {
    /// An answer of the app.
    fn relayed(reply: Reply, grounds: Option<Grounds>) -> Concluded {
        Concluded {
            reply,
            decision: DecisionLabel::Allow,
            reason: grounds.map_or(LogReason::SavedForm, LogReason::Grounds),
            outcome: None,
        }
    }

    fn status(&self) -> StatusCode {
        match &self.reply {
            Reply::Answer(response) => response.status(),
            Reply::Tunnel(_) => StatusCode::SWITCHING_PROTOCOLS,
        }
    }
}

impl From<Response<ReplyBody>> for Reply {
    fn from(response: Response<ReplyBody>) -> Reply {
        Reply::Answer(response)
    }
}
