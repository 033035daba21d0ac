//! The state of one request while it is handled, and its result.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, Response, StatusCode, request::Parts};
use hyper::{body::Body, upgrade::OnUpgrade};

use super::{client_tunnel::Tunnel, connection::HttpExchange};
use crate::{
    authorize::Grounds,
    caller::Identified,
    catalog::snapshot::Snapshot,
    decide::{
        self, Decision,
        labels::{DecisionLabel, LogReason, Outcome},
    },
    forward::body::Source,
    incoming::IncomingRequest,
    model::{app::App, arrival::RequestClass, client::Client, principal::Principal},
    respond::body::ReplyBody,
};

/// An answer of the app.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each request"
)]
pub(super) enum Reply {
    Answer(Response<ReplyBody>),
    Tunnel(Box<Tunnel>),
}

/// The results of the steps so far: the answer is rendered and logged from them at the end.
#[derive(Default)]
pub(super) struct Progress<'h> {
    pub(super) request: Option<IncomingRequest<'h>>,
    /// The class of the request; `None` for a malformed head.
    pub(super) class: Option<RequestClass>,
    pub(super) app: Option<Arc<App>>,
    pub(super) caller: Option<Identified>,
    pub(super) answer: AnswerFacts,
}

/// Facts for the answer that later steps do not have.
#[derive(Default)]
pub(super) struct AnswerFacts {
    pub(super) person: Option<Arc<Principal>>,
    /// Names the tenant of the address to a browser that does not know it yet.
    pub(super) tenant_cookie: Option<HeaderValue>,
    /// Cookies to set, whatever the app answers.
    pub(super) cookies: Vec<HeaderValue>,
    /// The time until the head of the app's answer.
    pub(super) upstream: Option<Duration>,
    /// Why the request was permitted.
    pub(super) grounds: Option<Grounds>,
}

/// The client's side of one request: its body, and its connection once it is upgraded.
pub(super) struct ClientSide {
    pub(super) body: Source,
    pub(super) upgrade: Option<OnUpgrade>,
}

/// One request as it came: what every step may need beside the parsed head.
pub(super) struct Context<'h> {
    pub(super) parts: &'h Parts,
    pub(super) snapshot: &'h Snapshot,
    pub(super) exchange: &'h HttpExchange,
    pub(super) id: HeaderValue,
    pub(super) client: Client,
}

impl<'h> Context<'h> {
    /// The parsed head.
    pub(super) fn parse(&self, side: &Option<ClientSide>) -> Result<IncomingRequest<'h>, Decision> {
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

/// The result of a request: the answer, and its fields in the access log.
pub(super) struct Concluded {
    pub(super) reply: Reply,
    pub(super) decision: DecisionLabel,
    pub(super) reason: LogReason,
    pub(super) outcome: Option<Outcome>,
}

impl Concluded {
    pub(super) fn new(
        response: Response<ReplyBody>,
        (decision, reason): (DecisionLabel, LogReason),
    ) -> Concluded {
        Concluded {
            reply: Reply::Answer(response),
            decision,
            reason,
            outcome: None,
        }
    }

    /// An answer of the app.
    pub(super) fn relayed(reply: Reply, grounds: Grounds) -> Concluded {
        Concluded {
            reply,
            decision: DecisionLabel::Allow,
            reason: LogReason::Grounds(grounds),
            outcome: None,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match &self.reply {
            Reply::Answer(response) => response.status(),
            Reply::Tunnel(_) => StatusCode::SWITCHING_PROTOCOLS,
        }
    }
}
