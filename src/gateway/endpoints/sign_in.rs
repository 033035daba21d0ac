//! `/oauth2/start`, `/oauth2/callback`, `/oauth2/sign_in`.

use http::{HeaderValue, Method, Response, StatusCode, header};

use super::{Call, set_cookie};
use crate::{
    gateway::{
        access_log::Record,
        answer::Answer,
        decision::Reason,
        endpoints::renew::with_script,
        pages::{self, SignInPage, StartPage},
        respond::{self, Problem},
        return_to,
    },
    identity::oidc::{
        pending::StateError,
        sign_in::{CallbackParams, SignInRequest, SignedIn},
        token_endpoint::SignInError,
    },
    model::arrival::RequestClass,
    session::{bind::BindHash, cookie},
};

/// What the start page does: puts the fragment of its address behind the one to return to, and goes
/// on.
const KEEP_FRAGMENT: &str = "const next=new URL(document.querySelector('a').href);\
    if(location.hash)next.searchParams.set('rd',(next.searchParams.get('rd')||'/')+location.hash);\
    location.replace(next)";

/// Longest code or state that is looked at, in bytes.
const MAX_PARAMETER: usize = 7 * 1024;

impl Call<'_> {
    /// Sends the browser to the provider. Anonymous visitors cost no memory: the state travels
    /// sealed.
    ///
    /// Somebody who is signed in already and comes for another of our origins is handed over at
    /// once.
    pub async fn start(&self, record: &mut Record) -> Response<Answer> {
        let site = self.snapshot.site();
        let (Ok(asked), Ok(prompt), Ok(bind)) =
            (self.query("rd"), self.query("prompt"), self.query("bind"))
        else {
            return self.problem(BAD_PARAMETERS, "A parameter was given twice.", "/", record);
        };
        let target = return_to::clean(asked.as_deref(), site);
        let ask_who = prompt.as_deref() == Some("login");
        let hand_over = match bind.as_deref().map(BindHash::parse) {
            Some(None) => {
                return self.problem(
                    BAD_PARAMETERS,
                    "A parameter is not what it should be.",
                    "/",
                    record,
                );
            }
            Some(Some(bind)) => Some(bind),
            None => None,
        };
        if let (Some(to), Some(sign_in), false) =
            (return_to::elsewhere(&target, site), self.sign_in(), ask_who)
        {
            return match hand_over {
                Some(bind) => self.hand_over(&sign_in, to, bind, record).await,
                None => respond::redirect(StatusCode::SEE_OTHER, &target),
            };
        }
        if self.keeps_fragment() {
            let onward = format!("{}&go=1", self.arrival.target);
            let page = StartPage {
                onward,
                script: KEEP_FRAGMENT,
            };
            return with_script(respond::html(StatusCode::OK, &page, false), KEEP_FRAGMENT);
        }
        // Whoever is signed in was handed over already, and that costs nobody else anything.
        if !self.gateway.sign_in_rate.admits(record.client) {
            return self.refuse(Reason::TooOften, record);
        }
        let Some(oidc) = &self.gateway.oidc else {
            return self.problem(
                UNAVAILABLE,
                "No sign-in service is configured.",
                &target,
                record,
            );
        };
        oidc.wait_until_known().await;
        let bind = match self.bind() {
            Ok(bind) => bind,
            Err(error) => return self.problem(UNAVAILABLE, &error.to_string(), &target, record),
        };
        match oidc.sign_in.begin(
            SignInRequest {
                return_to: target.clone(),
                hand_over,
            },
            &bind.value,
            ask_who,
        ) {
            Ok(url) => {
                let mut response = respond::redirect(StatusCode::FOUND, &url);
                set_cookie(&mut response, bind.line);
                response
            }
            Err(error) => self.sign_in_failed(&error, &target, record),
        }
    }

    /// Whether a page is shown first: to a browser that runs it, and once. Others go on at once, as
    /// before there was one.
    fn keeps_fragment(&self) -> bool {
        let runs = self.parts.headers.contains_key("sec-fetch-mode");
        let is_page =
            self.arrival.class == RequestClass::Navigation && self.arrival.method == Method::GET;
        runs && is_page
            && matches!(self.query("go"), Ok(None))
            && self.arrival.target.query().is_some()
    }

    /// Takes what the provider sent back, and lets the person in.
    pub async fn callback(&self, record: &mut Record) -> Response<Answer> {
        if !self.gateway.sign_in_rate.admits(record.client) {
            return self.refuse(Reason::TooOften, record);
        }
        let Some(oidc) = self.gateway.oidc.clone() else {
            return self.problem(
                UNAVAILABLE,
                "No sign-in service is configured.",
                "/",
                record,
            );
        };
        oidc.wait_until_known().await;
        let returned = match self.returned() {
            Ok(returned) => returned,
            Err((kind, sentence)) => {
                let state = self.query("state").ok().flatten();
                let target = state.and_then(|state| oidc.sign_in.target_of(&state));
                return self.problem(kind, sentence, target.as_deref().unwrap_or("/"), record);
            }
        };
        let presented = self.cookies().unwrap_or_default();
        let pending = match oidc
            .sign_in
            .check_callback(&returned, presented.bind.iter())
        {
            Ok(pending) => pending,
            Err(error) => return self.late_or_failed(&error, &returned, record),
        };
        let target = pending.return_to.clone();
        let hand_over = pending.hand_over.as_deref().and_then(BindHash::parse);
        // On the control runtime, and to its end even when the browser goes away: the code works
        // only once.
        let exchange = self
            .gateway
            .control
            .spawn(async move { oidc.sign_in.complete(returned, pending).await });
        match exchange.await {
            Ok(Ok(signed_in)) => self.let_in(signed_in, &target, hand_over, record).await,
            Ok(Err(error)) => self.sign_in_failed(&error, &target, record),
            Err(_) => self.problem(UNAVAILABLE, "The sign-in broke off.", &target, record),
        }
    }

    /// Offers to sign in.
    pub fn sign_in_page(&self) -> Response<Answer> {
        let site = self.snapshot.site();
        let asked = self.query("rd").ok().flatten();
        let target = return_to::clean(asked.as_deref(), site);
        let sign_in = self.sign_in();
        let person = sign_in.as_ref().map(|sign_in| sign_in.principal().clone());
        let issuer = self
            .gateway
            .oidc
            .as_ref()
            .and_then(|oidc| oidc.settings().issuer.url().host_str());
        let start = pages::start(site, &target);
        let page = SignInPage {
            person: person.as_ref().map(|person| &*person.display_name),
            start: if person.is_some() {
                format!("{start}&prompt=login")
            } else {
                start
            },
            provider: issuer.unwrap_or("the sign-in service"),
            home: site.launcher(),
        };
        respond::html(StatusCode::OK, &page, false)
    }

    /// A new sign-in under a new id; whatever this browser had before is over.
    async fn let_in(
        &self,
        mut signed_in: SignedIn,
        target: &str,
        hand_over: Option<BindHash>,
        record: &mut Record,
    ) -> Response<Answer> {
        let site = self.snapshot.site();
        let sessions = &self.gateway.sessions;
        if let Some(arvados) = &self.gateway.arvados {
            signed_in.principal.arvados_user =
                arvados.user_of_sign_in(&signed_in.access_token).await;
        }
        let principal = std::sync::Arc::new(signed_in.principal);
        record.person = Some(principal.clone());
        let begun = sessions.store.begin(principal.clone(), signed_in.tokens);
        let (id, sign_in) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.problem(UNAVAILABLE, &error.to_string(), target, record),
        };
        let presented = self.cookies().unwrap_or_default();
        if let Some(old) = sessions
            .store
            .find_sign_in(presented.sign_in.iter(), self.gateway.clock.now())
        {
            sessions.store.revoke(&old);
        }
        // Before the browser hears of it, so that whichever replica it asks next knows.
        sessions.replication.save(&sign_in).await;
        tracing::info!(
            target: "audit", event = "sign_in", subject = %principal.subject,
            session = sign_in.key().short(), client = %record.client, request_id = record.id(),
        );
        let mut response = match (return_to::elsewhere(target, site), hand_over) {
            (Some(to), Some(bind)) => self.hand_over(&sign_in, to, bind, record).await,
            (_, _) => respond::redirect(StatusCode::SEE_OTHER, target),
        };
        set_cookie(
            &mut response,
            cookie::set(&site.cookies.sign_in, id.as_str(), "/", site.origin.secure),
        );
        response
    }

    /// A callback that comes late or twice does no harm to somebody who is signed in already.
    fn late_or_failed(
        &self,
        error: &SignInError,
        returned: &CallbackParams,
        record: &mut Record,
    ) -> Response<Answer> {
        let target = self
            .gateway
            .oidc
            .as_ref()
            .and_then(|oidc| oidc.sign_in.target_of(&returned.state));
        let harmless = matches!(
            error,
            SignInError::State(StateError::Expired | StateError::Used)
        );
        match target {
            Some(target) if harmless && self.sign_in().is_some() => {
                respond::redirect(StatusCode::SEE_OTHER, &target)
            }
            target => self.sign_in_failed(error, target.as_deref().unwrap_or("/"), record),
        }
    }

    fn returned(&self) -> Result<CallbackParams, (Kind, &'static str)> {
        let twice = |_| (BAD_PARAMETERS, "A parameter was given twice.");
        let (code, state) = (
            self.query("code").map_err(twice)?,
            self.query("state").map_err(twice)?,
        );
        let (issuer, error) = (
            self.query("iss").map_err(twice)?,
            self.query("error").map_err(twice)?,
        );
        // The provider's own words are not shown: whoever makes the link writes them.
        if error.is_some() {
            return Err((DECLINED, "The sign-in service did not sign you in."));
        }
        match (code, state) {
            (Some(code), Some(state))
                if (1..=MAX_PARAMETER).contains(&code.len())
                    && (1..=MAX_PARAMETER).contains(&state.len()) =>
            {
                Ok(CallbackParams {
                    code,
                    state,
                    issuer,
                })
            }
            (Some(_) | None, _) => Err((
                BAD_PARAMETERS,
                "The address is not one the sign-in service sends.",
            )),
        }
    }

    fn sign_in_failed(
        &self,
        error: &SignInError,
        target: &str,
        record: &mut Record,
    ) -> Response<Answer> {
        tracing::warn!(
            target: "audit", event = "sign_in_failed", %error, client = %record.client, request_id = record.id(),
        );
        let (kind, sentence) = match error {
            SignInError::Unavailable(_) => (
                UNAVAILABLE,
                "The sign-in service does not answer. Apps you are signed in to go on working."
                    .into(),
            ),
            SignInError::State(error) => (
                BAD_PARAMETERS,
                format!(
                    "{}. Please sign in again.",
                    respond::capitalised(&error.to_string())
                ),
            ),
            SignInError::OtherIssuer => (
                BAD_PARAMETERS,
                "The answer comes from another sign-in service than was asked.".into(),
            ),
            // The provider refuses the gateway's own client id or secret: every sign-in fails until
            // it is corrected.
            SignInError::NotOurClient(_) => (
                MISCONFIGURED,
                "Sign-in is not set up correctly here. Please contact your administrator.".into(),
            ),
            SignInError::Refused(_) => (
                BAD_PARAMETERS,
                "The sign-in service refused this sign-in.".into(),
            ),
            SignInError::Token(_) => (
                BAD_PARAMETERS,
                "The sign-in service's answer is not valid.".into(),
            ),
        };
        self.problem(kind, &sentence, target, record)
    }

    fn problem(
        &self,
        kind: Kind,
        sentence: &str,
        target: &str,
        record: &mut Record,
    ) -> Response<Answer> {
        record.reason = kind.reason;
        // The address at hand is of no further use; a new sign-in that leads to the same place is.
        let action = Some(("Sign in again", pages::start(self.snapshot.site(), target)));
        let problem = Problem {
            status: kind.status,
            reason: kind.reason,
            title: kind.title,
            sentence,
            waits: None,
            action,
        };
        let mut response = respond::explain(problem, None, self.audience(), record);
        if kind.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

#[derive(Clone, Copy)]
struct Kind {
    status: StatusCode,
    reason: &'static str,
    title: &'static str,
}

const BAD_PARAMETERS: Kind = Kind {
    status: StatusCode::BAD_REQUEST,
    reason: "bad_callback",
    title: "Signing in did not work",
};
const DECLINED: Kind = Kind {
    status: StatusCode::FORBIDDEN,
    reason: "sign_in_declined",
    title: "You were not signed in",
};
const MISCONFIGURED: Kind = Kind {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    reason: "client_refused_by_provider",
    title: "Sign-in is unavailable",
};
const UNAVAILABLE: Kind = Kind {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "provider_unavailable",
    title: "Signing in is not possible now",
};
