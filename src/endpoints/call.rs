//! A request to one of our endpoints, and its caller.

use std::{rc::Rc, sync::Arc};

use crate::{
    authorize::Denied,
    caller::{Identified, load_sessions, source::Evidence},
    catalog::snapshot::Snapshot,
    decide::Reason,
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
    /// The state that all threads share.
    pub gateway: &'r Arc<Gateway>,
    /// The site and its apps.
    pub snapshot: &'r Snapshot,
    /// The request.
    pub request: &'r IncomingRequest<'h>,
    /// Where a long-lived answer is registered.
    pub streams: &'r Rc<Streams>,
    /// Revokes a long-lived answer.
    pub revocation: &'r Rc<Revocation>,
    /// Whether its peer is one of our own proxies.
    pub is_from_trusted_proxy: bool,
}

impl<'r> EndpointCall<'r, '_> {
    /// The site.
    pub fn site(&self) -> &'r Site {
        self.snapshot.site()
    }

    /// The same call for another request.
    pub(super) fn about<'s, 'i>(&self, request: &'s IncomingRequest<'i>) -> EndpointCall<'s, 'i>
    where
        'r: 's,
    {
        EndpointCall {
            gateway: self.gateway,
            snapshot: self.snapshot,
            request,
            streams: self.streams,
            revocation: self.revocation,
            is_from_trusted_proxy: self.is_from_trusted_proxy,
        }
    }

    /// Whether another site's page sent the request: cookies on it do not count.
    pub(super) fn is_foreign(&self) -> bool {
        self.request.arrival.provenance == Provenance::Foreign
    }

    /// Loads the session of the cookies, which another replica may have begun.
    pub(super) async fn load_session(&self) -> Result<(), StoreUnavailable> {
        let sessions = &self.gateway.sessions;
        let Ok(cookies) = self.request.cookies() else {
            return Ok(());
        };
        if !sessions.replication.is_enabled() || self.is_foreign() {
            return Ok(());
        }
        match load_sessions(sessions, cookies, self.request.client).await {
            Err(SessionLoadError::Unavailable) => Err(StoreUnavailable),
            // A client over its look-up limit may still sign in.
            Ok(_) | Err(SessionLoadError::TooManyUnknown) => Ok(()),
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
            if sign_in.check().is_required() && !callers.confirm(&sign_in).await {
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

    /// The person that another sign-in on this site proves, and the key that a sign-out form is
    /// bound to.
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

/// The person of a caller, or the reason for the refusal.
pub(super) fn person_of(caller: &Caller) -> Result<Arc<Principal>, Reason> {
    match caller {
        Caller::Person { principal, .. } => Ok(principal.clone()),
        Caller::Anonymous => Err(Reason::Denied(Denied::Anonymous)),
        Caller::BadToken => Err(Reason::BadToken),
        Caller::Unverifiable => Err(Reason::Unverifiable),
    }
}
