//! Nothing typed is lost: a form that comes when the session is over is given back in a page
//! ([`DataThread::park`]). From there it comes again to the same address, marked; the mark is taken
//! off ([`unmark`]), and where a session stands behind it the seal too ([`DataThread::unpark`]),
//! and it walks the line as any other, but for its person ([`DataThread::may_send`]) and once
//! ([`DataThread::send_once`]).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts, uri::PathAndQuery,
};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use super::{DataThread, Walked, refused};
use crate::{
    forward::body::Source,
    gateway::{
        access_log::Record,
        answer::Answer,
        decide,
        decision::{Reason, Refusal},
        endpoints::{Call, once},
        form_budget::{Collected, Reserved},
        parked::{self, FIELD, MARK, MAX_AGE, MAX_BODY, MAX_SEALED, Parked},
        respond::{self, Audience, Problem},
    },
    incoming::cookies,
    model::{
        app::App,
        arrival::{Arrival, Framing},
        caller::Caller,
        client::Client,
        destination::Destination,
        load::Holder,
        site::Site,
        vhost::VirtualHost,
    },
    session::{
        replication::error::SessionLoadError, replication::error::StoreUnavailable,
        stored::StoredVirtualHost,
    },
};

/// What was sent is remembered for longer than it could be sent.
const REMEMBERED: Duration = Duration::from_secs(2 * MAX_AGE.unsigned_abs());
const URL_ENCODED: &str = "application/x-www-form-urlencoded";
/// What our own answers give as their reason when nothing of a request was sent.
const UNSENT: [&str; 4] = [
    "upstream_refused",
    "upstream_connect_timeout",
    "upstream_busy",
    "upstream_not_http2",
];

/// Who presents a form, as their cookies say.
enum Presenter {
    /// They brought no cookie of ours.
    Nobody,
    /// This person.
    Person(Arc<str>),
    /// Their session is not known here.
    Unknown,
}

/// A form that was given back, and comes again.
pub(super) struct Resumed {
    sealed: String,
    parked: Parked,
    /// For as long as it is held.
    _reserved: Reserved,
}

/// Whether the address is that of a form that comes again; the mark is taken off it.
pub(super) fn unmark(arrival: &mut Arrival) -> bool {
    let marked = arrival.target.as_str().strip_suffix(MARK);
    let target = marked.and_then(|target| target.strip_suffix(['?', '&']));
    match target.map(PathAndQuery::try_from) {
        Some(Ok(target)) => {
            arrival.target = target;
            true
        }
        Some(Err(_)) | None => false,
    }
}

impl Resumed {
    fn page(
        &self,
        (app, arrival, site): (&App, &Arrival, &Site),
        (status, sentence): (StatusCode, &str),
        record: &mut Record,
    ) -> Response<Answer> {
        parked::page(
            arrival,
            site,
            (app.title(), &self.sealed),
            (status, sentence),
            record,
        )
    }
}

impl DataThread {
    /// Takes the seal off a form that comes again, and was marked. What only has the mark, because
    /// a page behind it was sent from there, is the app's own.
    ///
    /// The request is not authorized yet. So it needs a cookie of ours, and its bytes count against
    /// the budget of the person whose session the cookie names, also if that session expired a
    /// short time ago. A session that is unknown here (another replica returned the form) counts
    /// against the budget of anonymous clients.
    ///
    /// # Errors
    /// When the seal is not ours, or of another address, or too old; when too much is being
    /// collected.
    pub(super) async fn unpark(
        &self,
        parts: &mut Parts,
        arrival: &mut Arrival,
        (body, site, client): (Incoming, &Site, Client),
    ) -> Result<(Source, Option<Box<Resumed>>), Reason> {
        let Some(oidc) = &self.gateway.oidc else {
            return Ok((Either::Left(body), None));
        };
        let fits =
            matches!(arrival.framing, Framing::Length(length) if length <= MAX_SEALED as u64);
        if !fits || !is_url_encoded(&parts.headers) {
            return Ok((Either::Left(body), None));
        }
        let holder = match self
            .whose_session(&parts.headers, arrival, site, client)
            .await?
        {
            Presenter::Nobody => return Ok((Either::Left(body), None)),
            Presenter::Person(subject) => Some(subject),
            Presenter::Unknown => None,
        };
        let holder = match &holder {
            Some(subject) => Holder::Person(subject),
            None => Holder::new(None, client.limit_key),
        };
        let collected = self
            .gateway
            .forms
            .collect(holder, Either::Left(body), MAX_SEALED)
            .await?;
        let Collected {
            bytes: form,
            reserved,
        } = collected;
        let Some(sealed) = once(&form, FIELD).map_err(|_| Reason::BadForm)? else {
            return Ok((Either::Right(Full::new(form)), None));
        };
        let now = self.gateway.clock.wall_seconds();
        let parked = Parked::open(&sealed, oidc.keys(), &arrival.vhost, now)
            .filter(|parked| parked.target == arrival.target.as_str())
            .ok_or(Reason::BadForm)?;
        parts
            .headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(parked.body.len()));
        parts
            .headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(URL_ENCODED));
        arrival.framing = Framing::Length(parked.body.len() as u64);
        let body = Either::Right(Full::new(Bytes::from(parked.body.clone())));
        Ok((
            body,
            Some(Box::new(Resumed {
                sealed,
                parked,
                _reserved: reserved,
            })),
        ))
    }

    /// Whose session a cookie names, valid or over for a short time, here or at another replica.
    async fn whose_session(
        &self,
        headers: &HeaderMap,
        arrival: &Arrival,
        site: &Site,
        client: Client,
    ) -> Result<Presenter, Reason> {
        let sessions = &self.gateway.sessions;
        let presented =
            cookies::scan(headers, &site.cookies, &arrival.vhost).map_err(Reason::Malformed)?;
        if presented.app.is_empty() && presented.sign_in.is_empty() {
            return Ok(Presenter::Nobody);
        }
        let known = || {
            sessions
                .store
                .owner(presented.app.iter().chain(presented.sign_in.iter()))
        };
        if let Some(subject) = known() {
            return Ok(Presenter::Person(subject));
        }
        match sessions
            .replication
            .load(presented.app.iter(), presented.sign_in.iter(), client)
            .await
        {
            Err(SessionLoadError::Unavailable) => Err(Reason::Unverifiable),
            Ok(()) | Err(SessionLoadError::TooManyUnknown) => {
                Ok(known().map_or(Presenter::Unknown, Presenter::Person))
            }
        }
    }

    /// Nobody is signed in, and a page sent a form. Whose session ended by itself lately gets the
    /// form back, sealed for them alone.
    pub(super) async fn park(
        &self,
        refusal: &Refusal,
        call: &Call<'_>,
        body: Source,
        record: &mut Record,
    ) -> Response<Answer> {
        let (arrival, site) = (call.arrival, call.snapshot.site());
        let presented = call.cookies().unwrap_or_default();
        let person = self
            .gateway
            .sessions
            .store
            .recent_owner(presented.app.iter().chain(presented.sign_in.iter()));
        let (Some(person), Some(app), Some(oidc)) = (person, &refusal.app, &self.gateway.oidc)
        else {
            return refused(refusal, arrival, site, None, record);
        };
        let body = self
            .kept(&call.parts.headers, arrival, (body, &person))
            .await;
        let Some(body) = body else {
            return not_kept(refusal, arrival, site, record);
        };
        let parked = Parked {
            person: person.to_string(),
            app: app.id().to_string(),
            vhost: StoredVirtualHost::from_vhost(&arrival.vhost),
            target: arrival.target.to_string(),
            body,
            came: self.gateway.clock.wall_seconds(),
        };
        match parked.seal(oidc.keys()) {
            Some(sealed) => {
                let sentence = "You were signed out because nothing was used for a while.";
                let said = (StatusCode::UNAUTHORIZED, sentence);
                parked::page(arrival, site, (app.title(), &sealed), said, record)
            }
            None => not_kept(refusal, arrival, site, record),
        }
    }

    /// The body of a form that can be kept: url-encoded, small, whole in time.
    async fn kept(
        &self,
        headers: &HeaderMap,
        arrival: &Arrival,
        (body, person): (Source, &str),
    ) -> Option<String> {
        let too_large =
            matches!(arrival.framing, Framing::Length(length) if length > MAX_BODY as u64);
        if too_large || !is_url_encoded(headers) {
            return None;
        }
        let collected = self
            .gateway
            .forms
            .collect(Holder::Person(person), body, MAX_BODY)
            .await
            .ok()?;
        String::from_utf8(collected.bytes.into()).ok()
    }

    /// The page again, unless it is of this app and its person sends it.
    pub(super) fn may_send(
        &self,
        resumed: &Resumed,
        caller: &Caller,
        (destination, arrival, site): (&Destination, &Arrival, &Site),
        record: &mut Record,
    ) -> Option<Response<Answer>> {
        let app = &destination.app;
        if app.id().as_str() != resumed.parked.app {
            let refusal = Refusal {
                reason: Reason::BadForm,
                app: None,
            };
            return Some(refused(&refusal, arrival, site, None, record));
        }
        let said = match caller {
            Caller::Person { principal, .. } if *principal.subject == *resumed.parked.person => {
                return None;
            }
            // Open to everybody by now: nobody was asked who they are, and anybody may send
            // anything.
            Caller::Anonymous if decide::is_open(destination) => return None,
            Caller::Person { .. } => (
                StatusCode::UNAUTHORIZED,
                "Somebody else is signed in now. Only who wrote this may send it.",
            ),
            Caller::Anonymous | Caller::BadToken => {
                (StatusCode::UNAUTHORIZED, "You are not signed in yet.")
            }
            Caller::Unverifiable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "It cannot be checked now who you are.",
            ),
        };
        Some(resumed.page((app, arrival, site), said, record))
    }

    /// What cannot be reached for a while gets it later.
    pub(super) fn later(
        &self,
        resumed: &Resumed,
        refusal: &Refusal,
        (arrival, site): (&Arrival, &Site),
        record: &mut Record,
    ) -> Option<Response<Answer>> {
        let (status, app) = (refusal.reason.status(), refusal.app.as_ref()?);
        let said = (status, &*refusal.reason.sentence());
        (status == StatusCode::SERVICE_UNAVAILABLE)
            .then(|| resumed.page((app, arrival, site), said, record))
    }

    /// Spends it; what was spent before is refused.
    pub(super) async fn send_once(
        &self,
        resumed: &Resumed,
        (app, arrival, site): (&App, &Arrival, &Site),
        record: &mut Record,
    ) -> Option<Response<Answer>> {
        match self
            .gateway
            .sessions
            .used_tokens
            .first_use(&resumed.sealed, REMEMBERED)
            .await
        {
            Ok(true) => None,
            Ok(false) => {
                let refusal = Refusal {
                    reason: Reason::BadForm,
                    app: None,
                };
                Some(refused(&refusal, arrival, site, None, record))
            }
            // Elsewhere it may have been sent.
            Err(StoreUnavailable) => {
                self.gateway
                    .sessions
                    .used_tokens
                    .forget(&resumed.sealed)
                    .await;
                let said = (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "It cannot be sent now. Please try again.",
                );
                Some(resumed.page((app, arrival, site), said, record))
            }
        }
    }

    /// What came of sending it: an app that was not reached gets it later, and one that wants it
    /// elsewhere gets it there, since a browser would send it the seal.
    pub(super) async fn sent(
        &self,
        resumed: Resumed,
        walked: Walked,
        (app, arrival, site): (&App, &Arrival, &Site),
        record: &mut Record,
    ) -> Walked {
        let Walked::Answered(response) = walked else {
            return walked;
        };
        let status = response.status();
        if record
            .outcome()
            .is_some_and(|outcome| UNSENT.contains(&outcome))
        {
            self.gateway
                .sessions
                .used_tokens
                .forget(&resumed.sealed)
                .await;
            return resumed
                .page(
                    (app, arrival, site),
                    (status, "The app cannot be reached now."),
                    record,
                )
                .into();
        }
        if !matches!(
            status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        ) {
            return Walked::Answered(response);
        }
        let location = response
            .headers()
            .get(header::LOCATION)
            .and_then(|location| location.to_str().ok());
        let target = location.and_then(|location| within(app, arrival, site, location));
        let sealed = target
            .zip(self.gateway.oidc.as_ref())
            .and_then(|(target, oidc)| {
                Parked {
                    target,
                    ..resumed.parked
                }
                .seal(oidc.keys())
            });
        match sealed {
            Some(sealed) => {
                let said = (
                    StatusCode::OK,
                    "The app takes this at another address: send it once more.",
                );
                parked::page(arrival, site, (app.title(), &sealed), said, record).into()
            }
            None => {
                let refusal = Refusal {
                    reason: Reason::BadForm,
                    app: None,
                };
                refused(&refusal, arrival, site, None, record).into()
            }
        }
    }
}

/// The target that an app names, when it is one of its own.
fn within(app: &App, arrival: &Arrival, site: &Site, location: &str) -> Option<String> {
    let lookup = url::Url::parse(&site.url(&arrival.vhost, arrival.target.as_str())).ok()?;
    let there = lookup.join(location).ok()?;
    let below = match arrival.vhost {
        VirtualHost::Site => there
            .path()
            .strip_prefix(&*app.mount)
            .is_some_and(|rest| rest.starts_with('/')),
        VirtualHost::Host(_) | VirtualHost::Port(_) => true,
    };
    let target = match there.query() {
        Some(query) => format!("{}?{query}", there.path()),
        None => there.path().to_owned(),
    };
    (below && lookup.origin() == there.origin()).then_some(target)
}

fn is_url_encoded(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else {
        return false;
    };
    let kind = kind
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    kind.eq_ignore_ascii_case(URL_ENCODED) && !headers.contains_key(header::CONTENT_ENCODING)
}

fn not_kept(
    refusal: &Refusal,
    arrival: &Arrival,
    site: &Site,
    record: &mut Record,
) -> Response<Answer> {
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
    let audience = Audience::of(arrival, site, None);
    let mut response = respond::explain(problem, refusal.app.as_deref(), audience, record);
    let challenge = HeaderValue::from_static("Bearer realm=\"ludgate\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}
