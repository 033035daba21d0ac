//! The answers of our endpoints, as values.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

use super::body::ReplyBody;
use crate::{
    authorize::Permit,
    decide::{
        Reason, Refusal,
        labels::{DecisionLabel, LogReason, SignInProblem},
    },
    model::{app::App, path_rule::RuleIndex, principal::Principal, vhost::VirtualHost},
    pages::Page,
};

/// What an endpoint answers, and what the access log says of it.
pub struct EndpointReply {
    /// The answer.
    pub content: Content,
    /// Cookies to set, in this order.
    pub cookies: Vec<HeaderValue>,
    /// The browser clears its cache for this origin.
    pub clears_cache: bool,
    /// The decision, where it is not that an endpoint answered.
    pub decision: Option<DecisionLabel>,
    /// The reason, where it is not the endpoint's name.
    pub reason: Option<LogReason>,
    /// The person, once known.
    pub person: Option<Arc<Principal>>,
    /// The app, once known.
    pub app: Option<Arc<App>>,
    /// The rule of the app that denied access, where `reason` says that one did.
    pub denying_rule: RuleIndex,
}

/// An answer of ours.
pub enum Content {
    /// A redirect.
    Redirect {
        /// 302 or 303.
        status: StatusCode,
        /// The address.
        location: String,
    },
    /// A refusal of this request.
    Refusal(Refusal),
    /// A refusal of what the person asked for at another origin.
    RefusalAt {
        /// The refusal.
        refusal: Refusal,
        /// The origin.
        vhost: VirtualHost,
        /// The target there.
        target: String,
    },
    /// A sign-in that did not succeed, and the address of a new one.
    SignInProblem {
        /// Why.
        problem: SignInProblem,
        /// One sentence.
        sentence: String,
        /// Begins another sign-in that leads to the same address.
        retry: String,
    },
    /// A page.
    Page(Page),
    /// A script that every app may load.
    Script(&'static str),
    /// JSON.
    Json(StatusCode, serde_json::Value),
    /// Public keys (RFC 7517 section 5), which caches may keep for a minute.
    KeySet(serde_json::Value),
    /// Nothing but a 200; it may stand in a frame of this origin.
    Empty {
        /// The origin; `None`: in no frame.
        frame_ancestor: Option<String>,
    },
    /// Plain text that goes on for as long as the reader may read it.
    PodLog(ReplyBody),
    /// Another proxy may forward the request that it asks about.
    MayForward {
        /// 200 or 202.
        status: StatusCode,
        /// The right to the app.
        permit: Box<Permit>,
    },
    /// Another proxy may not forward the request that it asks about.
    MayNotForward(Box<ForwardRefusal>),
}

/// Why another proxy may not forward a request: for the proxy, and for the client to which most
/// proxies pass it on.
pub struct ForwardRefusal {
    /// The refusal.
    pub refusal: Refusal,
    /// The origin of the request.
    pub vhost: VirtualHost,
    /// The target there.
    pub target: String,
    /// Sending the request again changes nothing.
    pub may_reload: bool,
    /// Where the client, which opens a page, begins to sign in.
    pub sign_in: Option<String>,
}

impl EndpointReply {
    /// An answer without cookies.
    pub fn new(content: Content) -> EndpointReply {
        EndpointReply {
            content,
            cookies: Vec::new(),
            clears_cache: false,
            decision: None,
            reason: None,
            person: None,
            app: None,
            denying_rule: RuleIndex::OWN,
        }
    }

    /// A redirect.
    pub fn redirect(status: StatusCode, location: impl Into<String>) -> EndpointReply {
        let location = location.into();
        EndpointReply::new(Content::Redirect { status, location })
    }

    /// A page.
    pub fn page(page: Page) -> EndpointReply {
        EndpointReply::new(Content::Page(page))
    }

    /// A refusal.
    pub fn refuse(reason: Reason) -> EndpointReply {
        EndpointReply {
            reason: Some(LogReason::Refused(reason)),
            ..EndpointReply::new(Content::Refusal(Refusal::new(reason)))
        }
    }

    /// With one more cookie.
    pub fn with_cookie(mut self, line: Option<HeaderValue>) -> EndpointReply {
        self.cookies.extend(line);
        self
    }

    /// With the person, for the access log.
    pub fn with_person(mut self, person: Arc<Principal>) -> EndpointReply {
        self.person = Some(person);
        self
    }
}
