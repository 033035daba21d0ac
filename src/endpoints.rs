//! Our own endpoints: sign-in, sign-out and the caller's identity on the site; tickets on the hosts
//! of apps. Each returns a value; `respond` renders it.

pub mod logout;
pub mod logs;
pub mod renew;
pub mod sign_in;
pub mod sign_out;
pub mod ticket;

use std::{rc::Rc, sync::Arc};

use http::{Method, StatusCode};
use serde_json::json;

use crate::{
    authorize::Denied,
    caller::{Identified, source::Evidence},
    catalog::snapshot::Snapshot,
    decide::Reason,
    forward::body::Source,
    gateway::Gateway,
    incoming::{
        IncomingRequest,
        form::{GivenTwice, form_value},
    },
    model::{
        arrival::Provenance,
        caller::{Caller, Credential},
        principal::Principal,
        site::Site,
    },
    pages,
    respond::endpoint::{Content, EndpointReply},
    route::Endpoint,
    session::{
        cookie::RecordKey,
        live::Live,
        record::SignIn,
        replication::error::{SessionLoadError, StoreUnavailable},
    },
    streams::{Revocation, Streams},
};

/// A request to one of our endpoints.
#[derive(Clone, Copy)]
pub struct EndpointCall<'r, 'h> {
    /// What all threads share.
    pub gateway: &'r Arc<Gateway>,
    /// The site and its apps.
    pub snapshot: &'r Snapshot,
    /// The request.
    pub request: &'r IncomingRequest<'h>,
    /// Where an answer that lasts is registered.
    pub streams: &'r Rc<Streams>,
    /// Ends an answer that lasts.
    pub revocation: &'r Rc<Revocation>,
}

/// Answers a request to an endpoint.
pub async fn answer(call: EndpointCall<'_, '_>, endpoint: Endpoint, body: Source) -> EndpointReply {
    let is_unknown = call.load_session().await.is_err() && call.sign_in().is_none();
    if is_unknown && needs_session(endpoint, &call.request.arrival.method) {
        // Another replica may know the session: ask the client to retry, not to sign in.
        return EndpointReply::refuse(Reason::Unverifiable);
    }
    match endpoint {
        Endpoint::Start => sign_in::start(call).await,
        Endpoint::Callback => sign_in::callback(call).await,
        Endpoint::SignIn => sign_in::page(call),
        Endpoint::SignOut if call.request.arrival.method == Method::POST => {
            sign_out::sign_out(call, body).await
        }
        Endpoint::SignOut => sign_out::ask(call),
        Endpoint::Userinfo => userinfo(call).await,
        Endpoint::BackchannelLogout => logout::back_channel(call, body).await,
        Endpoint::FrontchannelLogout => logout::front_channel(call).await,
        Endpoint::Renewed => renew::renewed(call).await,
        Endpoint::RenewScript => EndpointReply::new(Content::Script(renew::SCRIPT)),
        Endpoint::Logs => logs::stream(call).await,
        Endpoint::Enter => ticket::enter(call).await,
    }
}

fn needs_session(endpoint: Endpoint, method: &Method) -> bool {
    match endpoint {
        Endpoint::Start
        | Endpoint::SignIn
        | Endpoint::Userinfo
        | Endpoint::Logs
        | Endpoint::Renewed => true,
        Endpoint::SignOut => method != Method::POST,
        Endpoint::Callback
        | Endpoint::BackchannelLogout
        | Endpoint::FrontchannelLogout
        | Endpoint::RenewScript
        | Endpoint::Enter => false,
    }
}

/// The launcher, for a signed-in person or a visitor.
pub async fn launcher(call: EndpointCall<'_, '_>) -> EndpointReply {
    if call.load_session().await.is_err() && call.sign_in().is_none() {
        return EndpointReply::refuse(Reason::Unverifiable);
    }
    let sign_in = call.sign_in().map(|sign_in| sign_in.principal().clone());
    let person = sign_in.or_else(|| call.person_beside().map(|(person, _)| person));
    let page = pages::Page::plain(&pages::launcher(call.snapshot, person.as_ref()));
    EndpointReply {
        person,
        ..EndpointReply::page(page)
    }
}

async fn userinfo(call: EndpointCall<'_, '_>) -> EndpointReply {
    let person = match person_of(&call.identify().await.caller) {
        Ok(person) => person,
        Err(reason) => return EndpointReply::refuse(reason),
    };
    let groups: Vec<&str> = person.groups().iter().map(|group| group.as_str()).collect();
    let body = json!({
        "user": person.subject,
        "email": person.email,
        "preferredUsername": person.preferred_username,
        "groups": groups,
    });
    EndpointReply::new(Content::Json(StatusCode::OK, body)).with_person(person)
}

impl<'r> EndpointCall<'r, '_> {
    /// The site.
    pub fn site(&self) -> &'r Site {
        self.snapshot.site()
    }

    /// Whether another site's page sent the request: cookies on it do not count.
    fn is_foreign(&self) -> bool {
        self.request.arrival.provenance == Provenance::Foreign
    }

    /// Loads the session of the cookies, which another replica may have begun.
    async fn load_session(&self) -> Result<(), StoreUnavailable> {
        let sessions = &self.gateway.sessions;
        let Ok(cookies) = self.request.cookies() else {
            return Ok(());
        };
        if !sessions.replication.is_enabled() || self.is_foreign() {
            return Ok(());
        }
        let (apps, sign_ins) = (cookies.app.iter(), cookies.sign_in.iter());
        match sessions
            .replication
            .load(apps, sign_ins, self.request.client)
            .await
        {
            Err(SessionLoadError::Unavailable) => Err(StoreUnavailable),
            // A client over its look-up limit may still sign in.
            Ok(()) | Err(SessionLoadError::TooManyUnknown) => Ok(()),
        }
    }

    /// The sign-in of this browser.
    pub fn sign_in(&self) -> Option<Arc<SignIn>> {
        let cookies = self.request.cookies().ok().filter(|_| !self.is_foreign())?;
        let now = self.gateway.clock.now();
        self.gateway
            .sessions
            .store
            .find_sign_in(cookies.sign_in.iter(), now)
    }

    /// The caller: by the sign-in of this browser, else by a token.
    pub async fn identify(&self) -> Identified {
        let callers = &self.gateway.callers;
        if let Some(sign_in) = self.sign_in() {
            if sign_in.check().is_required() && !callers.proves(&sign_in).await {
                return Identified::without_session(Caller::Unverifiable);
            }
            return Identified::by_session(Live::SignIn(sign_in), Credential::Cookie);
        }
        let cookies = self
            .request
            .cookies()
            .ok()
            .filter(|_| self.request.arrival.provenance == Provenance::Own);
        callers
            .by_source(&Evidence::new(self.request, None, cookies))
            .await
    }

    /// The person whom another sign-in on this site proves, and what a sign-out form is bound to.
    pub fn person_beside(&self) -> Option<(Arc<Principal>, RecordKey)> {
        let cookies = self.request.cookies().ok().filter(|_| !self.is_foreign())?;
        self.gateway.callers.person_beside(cookies)
    }

    /// One value of the query.
    ///
    /// # Errors
    /// [`GivenTwice`].
    pub fn query(&self, name: &str) -> Result<Option<String>, GivenTwice> {
        let query = self.request.arrival.target.query().unwrap_or_default();
        form_value(query.as_bytes(), name)
    }
}

/// The person, or why there is none.
fn person_of(caller: &Caller) -> Result<Arc<Principal>, Reason> {
    match caller {
        Caller::Person { principal, .. } => Ok(principal.clone()),
        Caller::Anonymous => Err(Reason::Denied(Denied::Anonymous)),
        Caller::BadToken => Err(Reason::BadToken),
        Caller::Unverifiable => Err(Reason::Unverifiable),
    }
}
