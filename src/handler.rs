//! One request from its head to its answer.
//!
//! [`Handler::handle`] has the steps of a request: parse, look up, identify, authorize, forward.
//! Anything that ends it early is a [`Decision`], which [`Handler::serve`] has rendered by
//! `respond`. The entry of the access log is made with the request, and written when it ends.

mod app_use;
mod client_tunnel;
pub mod connection;
mod local_response;
mod progress;
mod relay;
mod request_id;
mod resend;
pub mod service;

use std::{convert::Infallible, rc::Rc, sync::Arc, time::Instant};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Either;
use hyper::{body::Incoming, upgrade::OnUpgrade};

use crate::{
    access_log::{AccessLog, Entry},
    caller::Identified,
    decide::{self, Decision, Target},
    forward::{Forwarder, pool::Pool},
    gateway::Gateway,
    incoming::{self, IncomingRequest},
    respond::{self, body::ReplyBody},
    streams::Streams,
};
use connection::HttpExchange;
use progress::{AnswerFacts, ClientSide, Context, Progress, Reply};
use request_id::RequestIds;

/// The state of one data thread. Nothing in it is shared or locked.
pub struct Handler {
    gateway: Arc<Gateway>,
    forwarder: Forwarder,
    streams: Rc<Streams>,
    log: Rc<AccessLog>,
    ids: RequestIds,
    /// `Strict-Transport-Security` of the site, which does not change.
    hsts: Option<HeaderValue>,
}

impl Handler {
    /// Sets the thread up and starts its background tasks on the current local runtime.
    pub fn start(gateway: Arc<Gateway>) -> Rc<Handler> {
        let pool = Pool::new(gateway.forward.clone(), gateway.forward_metrics.clone());
        let metrics = &gateway.metrics;
        let streams = Streams::new(metrics.streams.clone(), metrics.streams_cut.clone());
        let log = AccessLog::new(gateway.log.clone(), metrics.clone());
        tokio::task::spawn_local(pool.clone().expire_periodically());
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

    /// The steps of a request.
    ///
    /// # Errors
    /// The decision that ends it before an app has answered.
    async fn handle<'h>(
        &self,
        context: &Context<'h>,
        side: &mut Option<ClientSide>,
        progress: &mut Progress<'h>,
    ) -> Result<Reply, Decision> {
        let snapshot = context.snapshot;
        let Progress {
            request,
            caller,
            answer,
        } = progress;

        let request = request.insert(context.parse(side, answer.entry.id.clone())?);
        answer.entry.class = Some(request.arrival.class);
        let client = request.client.address;
        let lookup = self
            .gateway
            .catalog
            .look_up(&mut request.arrival, snapshot, client)
            .await;
        let target = decide::locate(request, snapshot, &lookup)?;
        answer.entry.app = Some(target.destination.app.clone());
        decide::accept_frame(request, &target.destination.app);
        let caller = self
            .identify(&target, request, context, caller, answer)
            .await?;
        let now = target.destination.app.decision_time(&self.gateway.clock);
        let permit = decide::authorize(target, caller, &request.arrival, snapshot.site(), now)
            .inspect_err(|decision| self.record_use(decision, &caller.caller))?;
        self.relay(permit, request, caller, side.take(), context, answer)
            .await
    }

    /// Identifies the caller of a request to this target. The answer gets the tenant's cookie and
    /// the person.
    async fn identify<'c>(
        &self,
        target: &Target,
        request: &IncomingRequest<'_>,
        context: &Context<'_>,
        caller: &'c mut Option<Identified>,
        answer: &mut AnswerFacts,
    ) -> Result<&'c mut Identified, Decision> {
        answer.tenant_cookie = target.tenant.first().cloned();
        let destination = &target.destination;
        let memo = &context.exchange.connection.session_memo;
        let callers = &self.gateway.callers;
        let identified = callers.identify(request, destination, memo).await?;
        answer.entry.person = identified.caller.principal().cloned();
        Ok(caller.insert(identified))
    }

    /// Answers a request: handles it, or renders the decision that ended it, and logs it.
    pub async fn serve(
        self: Rc<Self>,
        request: Request<Incoming>,
        exchange: HttpExchange,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let started = Instant::now();
        let (mut parts, body) = request.into_parts();
        let connection = exchange.connection.clone();
        let normalized = incoming::http2::normalize(&mut parts, connection.head_fields);
        let client = connection.peer.client(&parts.headers);
        let id = self.ids.next(&parts, &connection.peer);
        let revocation = exchange.exchange.revocation.clone();
        let entry = Entry::new(self.log.clone(), started, &parts, client, id, revocation);
        let snapshot = self.gateway.catalog.load();
        if connection.redirects {
            incoming::public_port::rewrite_host(&mut parts, snapshot.site());
        }
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let context = Context {
            parts: &parts,
            snapshot: &snapshot,
            exchange: &exchange,
            client,
        };
        let body = Either::Left(body);
        let mut side = Some(ClientSide { body, upgrade });
        let mut progress = Progress::new(entry);
        let handled = match normalized {
            Ok(()) => self.handle(&context, &mut side, &mut progress).await,
            Err(malformed) => Err(malformed.into()),
        };
        let reply = match handled {
            Ok(reply) => reply,
            Err(decision) => {
                let concluding = self.conclude(decision, side, &context, &mut progress);
                Box::pin(concluding).await
            }
        };
        let Progress {
            request,
            caller,
            answer,
        } = progress;
        drop((request, caller));
        self.forwarder.spare.push(parts.headers);
        Ok(self.finish(reply, answer, exchange))
    }

    fn finish(
        &self,
        reply: Reply,
        answer: AnswerFacts,
        exchange: HttpExchange,
    ) -> Response<ReplyBody> {
        let AnswerFacts {
            mut entry, cookies, ..
        } = answer;
        match reply {
            Reply::Answer(mut response) => {
                respond::append_cookies(&mut response, cookies);
                // Not over http, where any intermediary could set it (RFC 6797 section 7.2).
                if let (Some(hsts), false) = (&self.hsts, exchange.connection.redirects) {
                    let headers = response.headers_mut();
                    headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
                }
                let mut response = exchange.finish(response);
                entry.status = Some(response.status());
                response.body_mut().set_entry(entry);
                response
            }
            Reply::Tunnel(mut tunnel) => {
                respond::append_cookies(&mut tunnel.head, cookies);
                entry.status = Some(StatusCode::SWITCHING_PROTOCOLS);
                tunnel.start(entry, exchange)
            }
        }
    }
}
