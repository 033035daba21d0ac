//! The state of one request while it is handled, and its result.

use http::{HeaderValue, Response, request::Parts};
use hyper::{body::Body, upgrade::OnUpgrade};

use super::{client_tunnel::Tunnel, connection::HttpExchange};
use crate::{
    access_log::Entry,
    caller::Identified,
    catalog::snapshot::Snapshot,
    decide::{self, Decision},
    forward::body::Source,
    incoming::IncomingRequest,
    model::client::Client,
    respond::body::ReplyBody,
};

/// The answer to a request.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each request"
)]
pub(super) enum Reply {
    Answer(Response<ReplyBody>),
    Tunnel(Box<Tunnel>),
}

/// The results of the steps so far.
pub(super) struct Progress<'h> {
    pub(super) request: Option<IncomingRequest<'h>>,
    pub(super) caller: Option<Identified>,
    pub(super) answer: AnswerFacts,
}

impl Progress<'_> {
    pub(super) fn new(entry: Box<Entry>) -> Self {
        Progress {
            request: None,
            caller: None,
            answer: AnswerFacts {
                entry,
                tenant_cookie: None,
                cookies: Vec::new(),
            },
        }
    }
}

/// Facts for the answer that later steps do not have.
pub(super) struct AnswerFacts {
    /// The entry of the access log. If the client leaves, hyper drops the request's future, and the
    /// entry with it: the request is logged all the same, because an app may have received it.
    pub(super) entry: Box<Entry>,
    /// Names the tenant of the address to a browser that does not know it yet.
    pub(super) tenant_cookie: Option<HeaderValue>,
    /// Cookies to set, whatever the app answers.
    pub(super) cookies: Vec<HeaderValue>,
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
    pub(super) client: Client,
}

impl<'h> Context<'h> {
    /// The parsed head.
    pub(super) fn parse(
        &self,
        side: &Option<ClientSide>,
        id: HeaderValue,
    ) -> Result<IncomingRequest<'h>, Decision> {
        let site = self.snapshot.site();
        let ends = side.as_ref().is_none_or(|side| side.body.is_end_stream());
        let headers = &self.parts.headers;
        let ingress = self.exchange.connection.ingress(headers);
        let arrival = decide::head(self.parts, ends, site, ingress)?;
        Ok(IncomingRequest::new(
            arrival,
            headers,
            site,
            id,
            self.client,
        ))
    }
}
