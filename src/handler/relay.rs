//! A permitted request: sent to the app, and its answer made ready for the client.

use std::{rc::Rc, time::Instant};

use http::{HeaderValue, Response};
use hyper::upgrade::OnUpgrade;

use super::{
    Handler,
    client_tunnel::Tunnel,
    progress::{AnswerFacts, ClientSide, Context, Reply},
};
use crate::{
    authorize::Permit,
    caller::Identified,
    decide::{
        Decision,
        labels::{DecisionLabel, LogReason},
    },
    endpoints::app_session,
    forward::{Forwarded, Outgoing, app_websocket::Switched, fault::Fault},
    incoming::IncomingRequest,
    model::{arrival::Provenance, route_activity::RouteActivity},
    respond::body::{ReplyBody, Watch},
    session::{live::Live, usage::Usage},
    stream_policy::Grant,
    streams::StreamPolicy,
};

impl Handler {
    /// Sends the request to the app and relays its answer.
    ///
    /// # Errors
    /// [`Decision::Fault`].
    pub(super) async fn relay(
        &self,
        permit: Permit,
        request: &IncomingRequest<'_>,
        caller: &mut Identified,
        side: Option<ClientSide>,
        context: &Context<'_>,
        answer: &mut AnswerFacts,
    ) -> Result<Reply, Decision> {
        let app = permit.app();
        let grounds = permit.grounds();
        let fault = |fault| Decision::Fault {
            fault,
            app: app.clone(),
            grounds,
        };
        // The client's side is taken once, here or by the decision that ended the request before.
        let Some(ClientSide { body, upgrade }) = side else {
            return Err(fault(Fault::Unsendable));
        };
        answer.entry.labels = (DecisionLabel::Allow, LogReason::Grounds(grounds));
        let started = Instant::now();
        let access_token = self.access_token(&permit, caller);
        answer.entry.in_use = Some(app.activity.begin(&self.gateway.clock, started));
        let usage = self
            .use_session(&permit, request, caller, context, started, answer)
            .await;
        answer.cookies.extend(answer.tenant_cookie.take());
        let grant = Grant {
            permit: &permit,
            method: &request.arrival.method,
            vhost: request.arrival.vhost,
            usage: usage.as_ref(),
            token_expires: caller.token_expires,
            header_token: caller.header_token.take(),
        };
        let connection = &context.exchange.connection;
        let policy = connection.last_stream.policy(&self.gateway, grant);
        // A long upload is a stream before any answer comes.
        let revocation = &context.exchange.exchange.revocation;
        let is_long = request.arrival.is_long_upload();
        let register = || self.streams.register(revocation.clone(), policy.clone());
        let _uploading = is_long.then(register);
        let outgoing = Outgoing {
            access_token,
            ..self.outgoing(&permit, request, caller, context, usage.clone(), started)
        };
        let sent = self.forwarder.send(&outgoing, body).await;
        answer.entry.note_answer(started);
        let forwarded = sent.map_err(fault)?;
        if let Some(activity) = &app.route_activity
            && is_success(&forwarded)
        {
            activity.record();
        }
        match (forwarded, upgrade) {
            (Forwarded::Answer(response), _) => {
                let policy = policy.for_response(response.headers());
                let watch = Watch::new(&self.streams, revocation, policy);
                let body = |download| ReplyBody::relayed(download, watch);
                Ok(Reply::Answer(response.map(body)))
            }
            (Forwarded::Switched(switched), Some(client)) => {
                let activity = app.route_activity.clone();
                let policy = policy.for_websocket();
                let tunnel = self.tunnel(switched, client, usage, activity, policy, context);
                Ok(Reply::Tunnel(tunnel))
            }
            // hyper offers an upgrade on every HTTP/1.1 request that asks for one. Without it no
            // tunnel is possible, and the app's side closes with its handle.
            (Forwarded::Switched(_), None) => Err(fault(Fault::BadAnswer)),
        }
    }

    fn outgoing<'r, 'h>(
        &'r self,
        permit: &'r Permit,
        request: &'r IncomingRequest<'h>,
        caller: &Identified,
        context: &'r Context<'_>,
        usage: Option<Usage>,
        started: Instant,
    ) -> Outgoing<'r, 'h> {
        let connection = &context.exchange.connection;
        let callers = &self.gateway.callers;
        let is_ours = |value: &HeaderValue| callers.owns_authorization(value, permit.app());
        Outgoing {
            permit,
            request,
            site: context.snapshot.site(),
            peer: &connection.peer,
            cached: &connection.cached_headers,
            assertions: self.gateway.assertions.as_deref(),
            client: connection.client_address(request.client),
            authorization_is_ours: caller.authorization_is_ours
                || request.authorization().is_some_and(is_ours),
            access_token: None,
            usage,
            started,
        }
    }

    /// The person's access token of the provider, for an app that gets it. Callers by a token have
    /// none: the provider gave it to another client.
    fn access_token(&self, permit: &Permit, caller: &Identified) -> Option<HeaderValue> {
        if !permit.app().spec.pass_access_token {
            return None;
        }
        permit.principal()?;
        let sign_in = caller.live.as_ref()?.sign_in();
        // A record of Redis that the provider has not confirmed may have been restored by another
        // program.
        if sign_in.check().is_required() {
            return None;
        }
        let now = self.gateway.clock.wall_seconds();
        sign_in.tokens.usable_access_token(now)?.header_value()
    }

    fn tunnel(
        &self,
        switched: Switched,
        client: OnUpgrade,
        usage: Option<Usage>,
        route_activity: Option<RouteActivity>,
        policy: Rc<dyn StreamPolicy>,
        context: &Context<'_>,
    ) -> Box<Tunnel> {
        let (mut head, ()) = switched.head.into_parts();
        context.exchange.accept_websocket(&mut head);
        Box::new(Tunnel {
            head: Response::from_parts(head, ReplyBody::whole("")),
            client,
            upstream: switched.upstream,
            usage,
            route_activity,
            policy,
            streams: self.streams.clone(),
            idle: self.gateway.forward.stream_idle,
        })
    }

    /// Marks the session as used. A sign-in's first permitted request at an app begins the app's
    /// session; its cookie goes with the answer.
    async fn use_session(
        &self,
        permit: &Permit,
        request: &IncomingRequest<'_>,
        caller: &mut Identified,
        context: &Context<'_>,
        now: Instant,
        answer: &mut AnswerFacts,
    ) -> Option<Usage> {
        let gateway = &self.gateway;
        let live = caller.live.take()?;
        gateway.sessions.store.touch(&live, gateway.clock.at(now));
        let begun = match &live {
            // The cookie's path ends with a slash, so it would not come back, and each visit would
            // begin another session.
            Live::SignIn(_) if permit.destination().is_bare() => None,
            Live::SignIn(_) => Box::pin(self.begin_app_session(&live, permit, request)).await,
            Live::App(_) => None,
        };
        let live = match begun {
            Some((live, line)) => {
                answer.cookies.push(line);
                live
            }
            None => live,
        };
        let usage = |live| {
            let store = gateway.sessions.store.clone();
            Usage::new(store, live, gateway.clock.clone())
        };
        let memo = &context.exchange.connection.session_memo;
        Some(memo.usage(live, usage))
    }

    /// Begins the session of a sign-in at an app, and its cookie.
    pub(super) async fn begin_app_session(
        &self,
        live: &Live,
        permit: &Permit,
        request: &IncomingRequest<'_>,
    ) -> Option<(Live, HeaderValue)> {
        let Live::SignIn(sign_in) = live else {
            return None;
        };
        // A token in the address of a foreign page's request must not begin a session in this
        // browser.
        if request.arrival.provenance == Provenance::Foreign {
            return None;
        }
        let sessions = &self.gateway.sessions;
        let app = permit.app();
        let path = format!("{}/", app.mount);
        let idle = app.spec.session.idle;
        let (session, line) =
            app_session::begin(sessions, request, sign_in, app.id(), idle, &path).await?;
        Some((Live::App(session), line))
    }
}

/// Whether an answer is activity of a hub's route. Redirects to a sign-in, refusals and failures
/// are not: they must not keep an unused server running.
fn is_success(forwarded: &Forwarded) -> bool {
    match forwarded {
        Forwarded::Answer(response) => response.status().is_success(),
        Forwarded::Switched(_) => true,
    }
}
