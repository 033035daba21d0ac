//! Nothing typed is lost: a form that comes when the session is over is given back in a page ([`DataThread::park`]); from there it
//! comes again once its person has signed in, and walks the line as if it came for the first time ([`DataThread::resume`]).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts, uri::PathAndQuery};
use http_body_util::{BodyExt, Either, Full, Limited};

use super::{DataThread, Located, Walked, Wire, refused};
use crate::{
    authorize::Denied,
    catalog::snapshot::Snapshot,
    forward::body::Source,
    gateway::{
        access_log::Record,
        answer::Answer,
        consult::Asked,
        decide,
        decision::{Early, Reason, Refusal},
        endpoints::{Call, once},
        locate::locate,
        parked::{self, MAX_AGE, MAX_BODY, MAX_SEALED, Parked},
        respond::{self, Audience, Problem},
    },
    incoming,
    model::{
        arrival::{Arrival, Framing, Origin, Provenance},
        caller::Caller,
        site::Site,
    },
    session::written::WrittenPlace,
};

/// A form must be complete within this time.
const FORM_DEADLINE: Duration = Duration::from_secs(10);
const URL_ENCODED: &str = "application/x-www-form-urlencoded";

impl DataThread {
    /// Nobody is signed in, and a page sent a form. Whose session ended by itself lately gets the form back, sealed for them alone.
    pub(super) async fn park(
        &self,
        refusal: &Refusal,
        call: &Call<'_>,
        body: Source,
        record: &mut Record,
    ) -> Response<Answer> {
        let (arrival, site) = (call.arrival, call.snapshot.site());
        let presented = call.cookies().unwrap_or_default();
        let person = self.gateway.sessions.lapsed(presented.app.iter().chain(presented.sign_in.iter()));
        let (Some(person), Some(app), Some(oidc)) = (person, &refusal.app, &self.gateway.oidc) else {
            return refused(refusal, arrival, site, None, record);
        };
        let Some(body) = kept(&call.parts.headers, arrival, body).await else {
            return not_kept(refusal, arrival, site, record);
        };
        let parked = Parked {
            person: person.to_string(),
            app: app.id().to_string(),
            place: WrittenPlace::of(&arrival.place),
            target: arrival.target.to_string(),
            content_type: URL_ENCODED.to_owned(),
            body,
            came: self.gateway.clock.wall_seconds(),
        };
        match parked.seal(oidc.keys()) {
            Some(sealed) => {
                let sentence = "You were signed out because nothing was used for a while.";
                parked::page(arrival, site, (app.title(), &sealed), sentence, record)
            }
            None => not_kept(refusal, arrival, site, record),
        }
    }

    /// The page sends the form again.
    pub(super) async fn resume(
        &self,
        (mut parts, arrival): (Parts, Arrival),
        snapshot: &Snapshot,
        body: Source,
        wire: &Wire,
        record: &mut Record,
    ) -> Walked {
        let site = snapshot.site();
        (record.decision, record.reason) = ("ours", "resume");
        let refuse = |reason: Reason, record: &mut Record| {
            (record.decision, record.reason) = ("deny", reason.as_str());
            let refusal = Refusal { reason, app: None };
            respond::refusal(&refusal, Audience { target: "/", ..Audience::of(&arrival, site, None) }, record)
        };
        // Only the page that we made has it, and that page is ours.
        if arrival.origin != Origin::Own || arrival.provenance == Provenance::Foreign {
            return refuse(Reason::ForeignOrigin, record).into();
        }
        let Some(oidc) = &self.gateway.oidc else { return refuse(Reason::NotFound, record).into() };
        let Some(sealed) = sealed_of(body).await else { return refuse(Reason::BadForm, record).into() };
        let now = self.gateway.clock.wall_seconds();
        let Some(parked) = Parked::open(&sealed, oidc.keys(), &arrival.place, now) else {
            return refuse(Reason::BadForm, record).into();
        };
        let Some(again) = restored(&mut parts, &parked, site) else {
            return refuse(Reason::BadForm, record).into();
        };
        let here = self.gateway.catalog.at(&again.place, snapshot, record.client).await;
        let destination = match locate(&again, snapshot, &here) {
            Ok(destination) if destination.app.id().as_str() == parked.app => destination,
            Ok(_) | Err(_) => return refuse(Reason::UnknownApp, record).into(),
        };
        let asked = Asked {
            headers: &parts.headers,
            arrival: &again,
            destination: &destination,
            token: None,
            client: record.client,
        };
        let Ok(consulted) = self.gateway.consult(&asked, site).await else {
            return refuse(Reason::BadForm, record).into();
        };
        let title = destination.app.title().to_owned();
        let once_more = |sentence: &str, record: &mut Record| {
            parked::page(&arrival, site, (&title, &sealed), sentence, record)
        };
        match &consulted.caller {
            Caller::Person { principal, .. } if *principal.subject == *parked.person => {}
            Caller::Person { .. } => {
                let sentence = "Somebody else is signed in now. Only who wrote this may send it.";
                return once_more(sentence, record).into();
            }
            Caller::Unverifiable => return refuse(Reason::Unverifiable, record).into(),
            Caller::Anonymous | Caller::BadToken => {
                return once_more("You are not signed in yet.", record).into();
            }
        }
        // Whoever may not, or cannot now, is told so as ever; the page before still has the form.
        let judged = consulted.judge(&again, destination.clone(), site).and_then(decide::reachable);
        if let Err(early) = judged {
            let reason = match early {
                Early::Refuse(refusal) => refusal.reason,
                Early::Endpoint(_) | Early::Launcher | Early::Redirect { .. } | Early::SignIn { .. } => {
                    Reason::Denied(Denied::Anonymous)
                }
            };
            return refuse(reason, record).into();
        }
        let good_for = Duration::from_secs(2 * MAX_AGE.unsigned_abs());
        if !self.gateway.sessions.is_first(&sealed, good_for).await {
            return refuse(Reason::BadForm, record).into();
        }
        let body = Either::Right(Full::new(Bytes::from(parked.body)));
        let located = Located { arrival: again, destination, token: None, snapshot };
        let target = parked.target;
        match self.pass(parts, located, body, wire, record).await {
            Walked::Answered(mut response) => {
                from_its_place(&mut response, &arrival, &target, site);
                Walked::Answered(response)
            }
            switched @ Walked::Switched(_) => switched,
        }
    }
}

/// The body of a form that can be kept: url-encoded, small, whole in time.
async fn kept(headers: &HeaderMap, arrival: &Arrival, body: Source) -> Option<String> {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return None };
    let kind = kind.to_str().ok()?.split(';').next().unwrap_or_default().trim();
    let too_large = matches!(arrival.framing, Framing::Length(length) if length > MAX_BODY as u64);
    if !kind.eq_ignore_ascii_case(URL_ENCODED) || too_large || headers.contains_key(header::CONTENT_ENCODING)
    {
        return None;
    }
    let reading = tokio::time::timeout(FORM_DEADLINE, Limited::new(body, MAX_BODY).collect());
    String::from_utf8(reading.await.ok()?.ok()?.to_bytes().into()).ok()
}

/// What the page sends.
async fn sealed_of(body: Source) -> Option<String> {
    let reading = tokio::time::timeout(FORM_DEADLINE, Limited::new(body, MAX_SEALED).collect());
    once(&reading.await.ok()?.ok()?.to_bytes(), "parked").ok()?
}

/// The head of the request as it came first, with the cookies of now.
fn restored(parts: &mut Parts, parked: &Parked, site: &Site) -> Option<Arrival> {
    for name in [header::TRANSFER_ENCODING, header::EXPECT, header::CONTENT_ENCODING, header::TE] {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(parked.body.len()));
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::try_from(&parked.content_type).ok()?);
    parts.method = Method::POST;
    parts.uri = PathAndQuery::try_from(parked.target.as_str()).ok()?.into();
    incoming::parse(parts, false, site).ok()
}

/// A browser reads a relative address against the one it asked, which is ours and not the app's.
fn from_its_place(response: &mut Response<Answer>, arrival: &Arrival, target: &str, site: &Site) {
    let headers = response.headers_mut();
    let joined = headers.get(header::LOCATION).and_then(|location| {
        let base = url::Url::parse(&site.url(&arrival.place, target)).ok()?;
        HeaderValue::try_from(base.join(location.to_str().ok()?).ok()?.as_str()).ok()
    });
    if let Some(joined) = joined {
        headers.insert(header::LOCATION, joined);
    }
}

fn not_kept(refusal: &Refusal, arrival: &Arrival, site: &Site, record: &mut Record) -> Response<Answer> {
    let sentence = "You were signed out because nothing was used for a while. What you sent could not be kept: files, and more than \
                    64 KiB, are not. Your browser may still have it: go back, sign in in another tab, and send it again.";
    let problem = Problem {
        status: StatusCode::UNAUTHORIZED,
        reason: refusal.reason.as_str(),
        title: "Please sign in",
        sentence,
        waits: None,
        action: None,
    };
    let mut response =
        respond::explain(problem, refusal.app.as_deref(), Audience::of(arrival, site, None), record);
    let challenge = HeaderValue::from_static("Bearer realm=\"ludgate\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}
