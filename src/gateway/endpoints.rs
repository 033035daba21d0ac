//! Our own endpoints: on the site who am I, sign in, sign out; on hosts, taking a ticket.

pub mod hand_over;
pub mod logout;
pub mod logs;
pub mod renew;
pub mod sign_in;
pub mod sign_out;

use http::{Response, StatusCode, header, request::Parts};
use hyper::Method;
use serde_json::json;

use super::{
    Gateway,
    access_log::Record,
    answer::Answer,
    consult::Consulted,
    decision::{Reason, Refusal},
    respond::{self, Audience},
};
use crate::{
    authorize::Denied,
    catalog::snapshot::Snapshot,
    forward::body::Source,
    incoming::cookies,
    model::{
        arrival::{Arrival, Provenance},
        caller::{Caller, Credential},
        client::Client,
        principal::Principal,
    },
    route::Endpoint,
    session::{
        cookie::RecordKey, live::Live, record::SignIn, replication::error::SessionLoadError,
        replication::error::StoreUnavailable,
    },
    streams::{Revocation, Streams},
};
use std::{rc::Rc, sync::Arc};

/// A request to one of our endpoints.
pub struct Call<'r> {
    /// What all threads share.
    pub gateway: &'r Arc<Gateway>,
    /// The site and its apps.
    pub snapshot: &'r Snapshot,
    /// The head as it came: for cookies only.
    pub parts: &'r Parts,
    /// The head as it was understood.
    pub arrival: &'r Arrival,
    /// Where an answer that lasts is listed.
    pub streams: &'r Rc<Streams>,
    /// Told when an answer must end.
    pub revocation: &'r Rc<Revocation>,
}

impl Call<'_> {
    /// Answers it.
    pub async fn answer(
        &self,
        endpoint: Endpoint,
        body: Source,
        record: &mut Record,
    ) -> Response<Answer> {
        let unknown = self.bring(record.client).await.is_err() && self.sign_in().is_none();
        match endpoint {
            // Whoever is signed in with another replica is asked to come back, not to sign in.
            Endpoint::Start
            | Endpoint::SignIn
            | Endpoint::Userinfo
            | Endpoint::Logs
            | Endpoint::Renewed
                if unknown =>
            {
                self.refuse(Reason::Unverifiable, record)
            }
            Endpoint::SignOut if unknown && self.arrival.method != Method::POST => {
                self.refuse(Reason::Unverifiable, record)
            }
            Endpoint::Start => self.start(record).await,
            Endpoint::Callback => self.callback(record).await,
            Endpoint::SignIn => self.sign_in_page(),
            Endpoint::SignOut => self.sign_out(body, record).await,
            Endpoint::Userinfo => self.userinfo(record).await,
            Endpoint::BackchannelLogout => self.backchannel_logout(body, record).await,
            Endpoint::FrontchannelLogout => self.frontchannel_logout(record).await,
            Endpoint::Renewed => {
                let lookup = self
                    .gateway
                    .catalog
                    .at(&self.arrival.vhost, self.snapshot, record.client.address)
                    .await;
                self.renewed(&lookup, record)
            }
            Endpoint::RenewScript => self.renew_script(),
            Endpoint::Logs => self.logs(record).await,
            Endpoint::Enter => self.enter(record).await,
        }
    }

    /// What the cookies name may be in the memory of another replica only.
    async fn bring(&self, client: Client) -> Result<(), StoreUnavailable> {
        let sessions = &self.gateway.sessions;
        match self.cookies() {
            Some(presented)
                if sessions.replication.is_enabled()
                    && self.arrival.provenance != Provenance::Foreign =>
            {
                let loaded = sessions
                    .replication
                    .load(presented.app.iter(), presented.sign_in.iter(), client)
                    .await;
                // A client over its look-up limit may still sign in.
                if loaded == Err(SessionLoadError::Unavailable) {
                    Err(StoreUnavailable)
                } else {
                    Ok(())
                }
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The launcher, for whoever is signed in.
    pub async fn launcher(&self, record: &mut Record) -> Response<Answer> {
        if self.bring(record.client).await.is_err() && self.sign_in().is_none() {
            return self.refuse(Reason::Unverifiable, record);
        }
        let sign_in = self.sign_in().map(|sign_in| sign_in.principal().clone());
        let person = sign_in.or_else(|| self.signed_in_at_console().map(|(person, _)| person));
        record.person.clone_from(&person);
        respond::launcher(self.snapshot, person.as_ref())
    }

    async fn userinfo(&self, record: &mut Record) -> Response<Answer> {
        let person = match person_of(&self.asked_by().await.caller) {
            Ok(person) => person,
            Err(reason) => return self.refuse(reason, record),
        };
        record.person = Some(person.clone());
        let groups: Vec<&str> = person.groups().iter().map(|group| group.as_str()).collect();
        let body = json!({
            "user": person.subject,
            "email": person.email,
            "preferredUsername": person.preferred_username,
            "groups": groups,
        });
        respond::json_body(StatusCode::OK, "application/json", &body)
    }

    /// The sign-in of this browser, unless another page had it send the request.
    pub fn sign_in(&self) -> Option<Arc<SignIn>> {
        if self.arrival.provenance == Provenance::Foreign {
            return None;
        }
        let presented = self.cookies()?;
        self.gateway
            .sessions
            .store
            .find_sign_in(presented.sign_in.iter(), self.gateway.clock.now())
    }

    /// Who asks: by the sign-in of this browser, else a bearer token, else the console's.
    pub async fn asked_by(&self) -> Consulted {
        if let Some(sign_in) = self.sign_in() {
            if sign_in.check().is_required() && !self.gateway.proves(&sign_in).await {
                return Consulted::without_session(Caller::Unverifiable);
            }
            return Consulted::by_session(Live::SignIn(sign_in), Credential::Cookie);
        }
        let by_bearer = self.gateway.bearer(&self.parts.headers).await;
        match (&by_bearer.caller, self.arrival.provenance, self.cookies()) {
            (Caller::Anonymous, Provenance::Own, Some(presented)) => {
                self.gateway.by_console_token(&presented.access_token).await
            }
            (_, _, _) => by_bearer,
        }
    }

    /// Who the console's token says this is, unless another page had it sent, and the key of that
    /// token's record.
    pub fn signed_in_at_console(&self) -> Option<(Arc<Principal>, RecordKey)> {
        if self.arrival.provenance == Provenance::Foreign {
            return None;
        }
        self.gateway
            .person_of_console_token(&self.cookies()?.access_token)
    }

    /// Our cookies on this request; none when there are absurdly many.
    pub fn cookies(&self) -> Option<cookies::Presented<'_>> {
        cookies::scan(
            &self.parts.headers,
            &self.snapshot.site().cookies,
            &self.arrival.vhost,
        )
        .ok()
    }

    /// For whom a page is made.
    pub fn audience(&self) -> Audience<'_> {
        Audience::of(self.arrival, self.snapshot.site(), None)
    }

    /// Refuses the call.
    pub fn refuse(&self, reason: Reason, record: &mut Record) -> Response<Answer> {
        record.reason = reason.as_str();
        respond::refusal(&Refusal { reason, app: None }, self.audience(), record)
    }

    /// One value of the query; `Err` when it stands there twice, which is never an honest question.
    pub fn query(&self, name: &str) -> Result<Option<String>, Twice> {
        once(
            self.arrival.target.query().unwrap_or_default().as_bytes(),
            name,
        )
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

/// A parameter was given twice.
#[derive(Clone, Copy, Debug)]
pub struct Twice;

/// One value of a form-encoded text.
pub fn once(encoded: &[u8], name: &str) -> Result<Option<String>, Twice> {
    let mut values = url::form_urlencoded::parse(encoded).filter(|(key, _)| key == name);
    match (values.next(), values.next()) {
        (found, None) => Ok(found.map(|(_, value)| value.into_owned())),
        (_, Some(_)) => Err(Twice),
    }
}

/// Adds a cookie to an answer of ours.
fn set_cookie(response: &mut Response<Answer>, line: Option<http::HeaderValue>) {
    if let Some(line) = line {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
}
