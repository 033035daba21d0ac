//! Forms that survive an expired session, or one whose person must sign in again. Such a form is
//! saved in the page that asks the person to sign in ([`SavedForms::save`]). The page sends it
//! again to the same address, marked, and it is opened ([`SavedForms::open`]). It goes to the app
//! only for the person who wrote it ([`SavedForm::check_sender`]), once ([`SavedForms::spend`]).

pub mod page;
pub mod sealed;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{StatusCode, uri::PathAndQuery};
use http_body_util::{Either, Full};

use crate::{
    body_budget::{BodyBudget, Collected, Reserved},
    caller::load_sessions,
    decide::{Reason, Refusal, locate::MAX_SEALED_FORM},
    forward::{body::Source, fault::Fault},
    incoming::{IncomingRequest, form::form_value},
    model::{
        app::App, arrival::Framing, caller::Caller, clock::Clock, concurrency_limit::Holder,
        vhost::VirtualHost,
    },
    session::{
        Sessions,
        keys::KeyRing,
        replication::error::{SessionLoadError, StoreUnavailable},
        stored::StoredVirtualHost,
    },
};
use page::SavedFormPage;
use sealed::{FIELD, MAX_AGE, MAX_BODY, SealedForm};

/// A spent form is remembered for longer than it can be sent.
const REMEMBERED: Duration = Duration::from_secs(2 * MAX_AGE.unsigned_abs());

/// Saves and opens forms.
#[derive(Clone, Copy)]
pub struct SavedForms<'g> {
    /// The sessions, with those that expired lately.
    pub sessions: &'g Sessions,
    /// Seals and opens forms.
    pub keys: &'g KeyRing,
    /// Bounds the bodies that are held.
    pub budget: &'g BodyBudget,
    /// Time.
    pub clock: &'g Clock,
}

/// A saved form that came again.
#[derive(Debug)]
pub struct SavedForm {
    sealed: String,
    form: SealedForm,
    /// Held for as long as the form's bytes are.
    _reserved: Reserved,
}

/// The content of a marked request.
pub enum Opened {
    /// A saved form, and its body.
    Form(Box<SavedForm>, Source),
    /// A request of the app's own pages, and its body.
    Other(Source),
}

/// The result of saving a form.
pub enum Saved {
    /// It is in this page.
    Page(SavedFormPage),
    /// It could not be saved: too large, no form, or too many at once.
    Unsavable,
    /// The client's session did not expire lately: the plain refusal.
    Unknown,
}

/// The owner of the session that a cookie names.
enum Owner {
    /// There is no cookie of ours.
    NoCookie,
    /// This person.
    Person(Arc<str>),
    /// The session is not known here.
    Unknown,
}

impl SavedForms<'_> {
    /// Saves a form that was refused for lack of a session, or of a recent sign-in, for the person
    /// of the session.
    pub async fn save(
        &self,
        refusal: &Refusal,
        request: &IncomingRequest<'_>,
        body: Source,
    ) -> Saved {
        let cookies = request.cookies_or_none();
        let presented = cookies.app.iter().chain(cookies.sign_in.iter());
        let (Some(person), Some(app)) = (self.sessions.store.recent_owner(presented), &refusal.app)
        else {
            return Saved::Unknown;
        };
        let Some(body) = self.collect_text(request, body, &person).await else {
            return Saved::Unsavable;
        };
        let arrival = &request.arrival;
        let form = SealedForm {
            person: person.to_string(),
            app: app.id().to_string(),
            vhost: StoredVirtualHost::from_vhost(&arrival.vhost),
            target: arrival.target.to_string(),
            body,
            came: self.clock.wall_seconds(),
        };
        match form.seal(self.keys) {
            Some(sealed) => Saved::Page(SavedFormPage {
                status: StatusCode::UNAUTHORIZED,
                sentence: cause(refusal.reason),
                app: app.title().to_owned(),
                sealed,
                sign_in: page::sign_in_at(app),
            }),
            None => Saved::Unsavable,
        }
    }

    /// The body of a form that can be saved: url-encoded, small, complete in time.
    async fn collect_text(
        &self,
        request: &IncomingRequest<'_>,
        body: Source,
        person: &str,
    ) -> Option<String> {
        let framing = request.arrival.framing;
        let too_large = matches!(framing, Framing::Length(length) if length > MAX_BODY as u64);
        if too_large || !request.is_url_encoded() {
            return None;
        }
        let holder = Holder::Person(person);
        let collected = self.budget.collect(holder, body, MAX_BODY).await.ok()?;
        String::from_utf8(collected.bytes.into()).ok()
    }

    /// Opens a marked request.
    ///
    /// It is not authorized yet, so it needs a cookie of ours. Its bytes count against the budget
    /// of the person whose session the cookie names, also if that session expired lately. A session
    /// that is unknown here (another replica saved the form) counts against the budget of anonymous
    /// clients.
    ///
    /// # Errors
    /// When the seal is not ours, for another address, or too old; when too much is being
    /// collected.
    pub async fn open(
        &self,
        request: &mut IncomingRequest<'_>,
        body: Source,
    ) -> Result<Opened, Reason> {
        let person = match self.owner_of_session(request).await? {
            Owner::NoCookie => return Ok(Opened::Other(body)),
            Owner::Person(subject) => Some(subject),
            Owner::Unknown => None,
        };
        let holder = match &person {
            Some(subject) => Holder::Person(subject),
            None => Holder::new(None, request.client.limit_key),
        };
        let collected = self.budget.collect(holder, body, MAX_SEALED_FORM).await?;
        let Collected { bytes, reserved } = collected;
        let sealed = form_value(&bytes, FIELD).map_err(|_| Reason::BadForm)?;
        let Some(sealed) = sealed else {
            return Ok(Opened::Other(Either::Right(Full::new(bytes))));
        };
        let arrival = &mut request.arrival;
        let now = self.clock.wall_seconds();
        let form = SealedForm::open(&sealed, self.keys, &arrival.vhost, now)
            .filter(|form| form.target == arrival.target.as_str())
            .ok_or(Reason::BadForm)?;
        let body = Bytes::from(form.body.clone());
        arrival.framing = Framing::Length(body.len() as u64);
        let saved = SavedForm {
            sealed,
            form,
            _reserved: reserved,
        };
        Ok(Opened::Form(
            Box::new(saved),
            Either::Right(Full::new(body)),
        ))
    }

    /// The owner of the session that a cookie names, live or expired lately, here or at another
    /// replica.
    async fn owner_of_session(&self, request: &IncomingRequest<'_>) -> Result<Owner, Reason> {
        let cookies = request.cookies().map_err(Reason::Malformed)?;
        if cookies.app.is_empty() && cookies.sign_in.is_empty() {
            return Ok(Owner::NoCookie);
        }
        let known = || {
            let presented = cookies.app.iter().chain(cookies.sign_in.iter());
            self.sessions.store.owner(presented)
        };
        if let Some(subject) = known() {
            return Ok(Owner::Person(subject));
        }
        match load_sessions(self.sessions, cookies, request.client).await {
            Err(SessionLoadError::Unavailable) => Err(Reason::Unverifiable),
            Ok(_) | Err(SessionLoadError::TooManyUnknown) => {
                Ok(known().map_or(Owner::Unknown, Owner::Person))
            }
        }
    }

    /// Marks the form as sent. A form that was sent before is refused.
    ///
    /// # Errors
    /// The page or refusal for the person instead.
    pub async fn spend(&self, form: &SavedForm, app: &App) -> Result<(), NotSent> {
        match self
            .sessions
            .used_tokens
            .first_use(&form.sealed, REMEMBERED)
            .await
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(Reason::BadForm.into()),
            // Another replica may have sent it.
            Err(StoreUnavailable) => {
                self.allow_again(form).await;
                let sentence = "It cannot be sent now. Please try again.";
                Err(form
                    .page(StatusCode::SERVICE_UNAVAILABLE, sentence, app)
                    .into())
            }
        }
    }

    /// Allows the form to be sent again: no byte of it reached the app.
    pub async fn allow_again(&self, form: &SavedForm) {
        self.sessions.used_tokens.forget(&form.sealed).await;
    }

    /// The page for an app that redirects the form to another address of its own. A browser that
    /// followed the redirect itself would send the sealed form there.
    pub fn redirected(
        &self,
        form: SavedForm,
        location: Option<&str>,
        app: &App,
        request: &IncomingRequest<'_>,
    ) -> NotSent {
        let target = location.and_then(|location| target_of(location, app, request));
        let moved = target.and_then(|target| {
            SealedForm {
                target,
                ..form.form
            }
            .seal(self.keys)
        });
        match moved {
            Some(sealed) => NotSent::Page(SavedFormPage {
                status: StatusCode::OK,
                sentence: "The app takes this at another address: send it once more.".into(),
                app: app.title().to_owned(),
                sealed,
                sign_in: page::sign_in_at(app),
            }),
            None => Reason::BadForm.into(),
        }
    }
}

/// Why a saved form did not go to the app.
pub enum NotSent {
    /// The person gets the form again.
    Page(SavedFormPage),
    /// The form is refused.
    Refused(Refusal),
}

impl From<Reason> for NotSent {
    fn from(reason: Reason) -> NotSent {
        NotSent::Refused(Refusal::new(reason))
    }
}

impl From<SavedFormPage> for NotSent {
    fn from(page: SavedFormPage) -> NotSent {
        NotSent::Page(page)
    }
}

impl SavedForm {
    /// Whether this caller may send the form to this app. `is_open`: its address is open to every
    /// caller.
    ///
    /// # Errors
    /// The page or refusal for the caller instead.
    pub fn check_sender(&self, caller: &Caller, app: &App, is_open: bool) -> Result<(), NotSent> {
        if app.id().as_str() != self.form.app {
            return Err(Reason::BadForm.into());
        }
        let (status, sentence) = match caller {
            Caller::Person { principal, .. } if *principal.subject == *self.form.person => {
                return Ok(());
            }
            // The app is public by now: callers are not identified, and anyone may send anything.
            Caller::Anonymous if is_open => return Ok(()),
            Caller::Person { .. } => (
                StatusCode::UNAUTHORIZED,
                "Another person is signed in now. Only the person who wrote this may send it.",
            ),
            Caller::Anonymous | Caller::BadToken => {
                (StatusCode::UNAUTHORIZED, "You are not signed in yet.")
            }
            Caller::Unverifiable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "We can't check your access right now.",
            ),
        };
        Err(self.page(status, sentence, app).into())
    }

    /// The form again, after a refusal that may pass.
    pub fn keep_after(&self, refusal: &Refusal) -> Option<SavedFormPage> {
        let status = refusal.reason.status();
        let app = refusal.app.as_ref()?;
        let may_pass = status == StatusCode::SERVICE_UNAVAILABLE || refusal.reason.is_step_up();
        may_pass.then(|| self.page(status, &refusal.reason.sentence(), app))
    }

    /// The form again, after a fault before any byte of it was sent.
    pub fn keep_after_fault(&self, fault: Fault, app: &App) -> Option<SavedFormPage> {
        let page = || self.page(fault.status(), "The app cannot be reached now.", app);
        fault.is_unsent().then(page)
    }

    fn page(&self, status: StatusCode, sentence: &str, app: &App) -> SavedFormPage {
        SavedFormPage {
            status,
            sentence: sentence.to_owned(),
            app: app.title().to_owned(),
            sealed: self.sealed.clone(),
            sign_in: page::sign_in_at(app),
        }
    }
}

/// Why a form of a person was not accepted, in one sentence.
pub fn cause(reason: Reason) -> String {
    if reason.is_step_up() {
        reason.sentence()
    } else {
        "You were signed out because nothing was used for a while.".to_owned()
    }
}

/// The target of an app's redirect, if it is one of the app's own.
fn target_of(location: &str, app: &App, request: &IncomingRequest<'_>) -> Option<String> {
    let arrival = &request.arrival;
    let address = request.site().url(&arrival.vhost, arrival.target.as_str());
    let here = url::Url::parse(&address).ok()?;
    let there = here.join(location).ok()?;
    let is_below = match arrival.vhost {
        VirtualHost::Site => {
            let rest = there.path().strip_prefix(&*app.mount);
            rest.is_some_and(|rest| rest.starts_with('/'))
        }
        VirtualHost::Host(_) | VirtualHost::Port(_) => true,
    };
    let target = match there.query() {
        Some(query) => format!("{}?{query}", there.path()),
        None => there.path().to_owned(),
    };
    let target = PathAndQuery::try_from(target).ok()?;
    (is_below && here.origin() == there.origin()).then(|| target.to_string())
}
