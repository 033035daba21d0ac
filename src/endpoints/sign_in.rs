//! `/oauth2/start`, `/oauth2/callback`, `/oauth2/sign_in`.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::{
    call::EndpointCall,
    provider_choice::{self, ProviderChoice},
    step_up, ticket,
};
use crate::{
    decide::{
        Reason,
        labels::{LogReason, SignInProblem},
    },
    identity::oidc::{
        pending::StateError,
        providers::SignInProvider,
        sign_in::{CallbackParams, SignInRequest, SignedIn},
        token_endpoint::SignInError,
    },
    model::arrival::RequestClass,
    pages::{self, Page, SignInPage, StartPage},
    respond::{
        self,
        endpoint::{Content, EndpointReply},
    },
    return_to,
    route::path::callback_provider,
    session::{browser_binding::BindHash, cookie},
};

/// The start page's script: appends the fragment of its address to the return address, and goes on.
const KEEP_FRAGMENT: &str = "const next=new URL(document.querySelector('a').href);\
    if(location.hash)next.searchParams.set('rd',(next.searchParams.get('rd')||'/')+location.hash);\
    location.replace(next)";

/// Longest code or state that is parsed, in bytes.
const MAX_PARAMETER: usize = 7 * 1024;

const NOT_CONFIGURED: &str = "No sign-in service is configured.";

/// Sends the browser to the provider. Anonymous visitors cost no memory: the state is sealed and
/// travels with the browser.
///
/// A signed-in person who comes from another of our origins gets a ticket for it at once, unless
/// the app there needs a newer sign-in.
pub(super) async fn start(call: EndpointCall<'_, '_>) -> EndpointReply {
    let site = call.site();
    let parameters = (call.query("rd"), call.query("prompt"), call.query("bind"));
    let (Ok(asked), Ok(prompt), Ok(bind)) = parameters else {
        return bad_parameters("A parameter was given twice.", call);
    };
    let target = return_to::clean(asked.as_deref(), site);
    let selects_account = prompt.as_deref() == Some("login");
    let hand_over = match bind.as_deref().map(BindHash::parse) {
        Some(None) => return bad_parameters("A parameter is not valid.", call),
        Some(Some(bind)) => Some(bind),
        None => None,
    };
    let Ok(requirement) = step_up::requirement(call) else {
        return bad_parameters("A parameter is not valid.", call);
    };
    let elsewhere = return_to::elsewhere(&target, site).filter(|_| !selects_account);
    let sign_in = call.sign_in();
    let sign_in = sign_in.filter(|it| step_up::is_met(call, it, requirement.as_ref()));
    if let (Some(to), Some(sign_in)) = (elsewhere, sign_in) {
        let reply = match hand_over.clone() {
            Some(bind) => ticket::give(call, &sign_in, to, bind).await,
            None => Some(EndpointReply::redirect(
                StatusCode::SEE_OTHER,
                target.as_str(),
            )),
        };
        if let Some(reply) = reply {
            return reply;
        }
    }
    let providers = call.gateway.oidc.as_ref().map(|oidc| &oidc.providers);
    // Before the start page: its script leads on from our own origin.
    if let Some(providers) = providers.filter(|it| provider_choice::is_foreign_switch(call, it)) {
        return EndpointReply::page(Page::plain(&provider_choice::page(call, providers)));
    }
    if keeps_fragment(call) {
        let page = StartPage {
            onward: format!("{}&go=1", call.request.arrival.target),
            script: KEEP_FRAGMENT,
        };
        return EndpointReply::page(Page::scripted(&page, KEEP_FRAGMENT));
    }
    let Some(providers) = providers else {
        return problem(call, SignInProblem::Unavailable, NOT_CONFIGURED, &target);
    };
    let provider = match provider_choice::choice(call, providers, selects_account) {
        ProviderChoice::Made(provider) => provider,
        ProviderChoice::Open => {
            return EndpointReply::page(Page::plain(&provider_choice::page(call, providers)));
        }
        ProviderChoice::Invalid => {
            return bad_parameters("There is no such sign-in service.", call);
        }
    };
    // Signed-in people got their ticket above; tickets cost the provider nothing.
    if !call.gateway.sign_in_rate.admits(call.request.client) {
        return EndpointReply::refuse(Reason::TooOften);
    }
    let return_to = target;
    begin(
        call,
        &provider,
        SignInRequest {
            return_to,
            hand_over,
            requirement,
        },
        selects_account,
    )
    .await
}

async fn begin(
    call: EndpointCall<'_, '_>,
    provider: &SignInProvider,
    wanted: SignInRequest,
    selects_account: bool,
) -> EndpointReply {
    let target = wanted.return_to.clone();
    provider.wait_until_known().await;
    let bind = match ticket::bind(call) {
        Ok(bind) => bind,
        Err(error) => {
            return problem(
                call,
                SignInProblem::Unavailable,
                &error.to_string(),
                &target,
            );
        }
    };
    match provider.sign_in.begin(wanted, &bind.value, selects_account) {
        Ok(url) => EndpointReply::redirect(StatusCode::FOUND, url).with_cookie(bind.line),
        Err(error) => failed(call, &error, &target),
    }
}

/// Whether the start page is shown first: once, to a browser that runs its script. Programs are
/// redirected at once.
fn keeps_fragment(call: EndpointCall<'_, '_>) -> bool {
    let arrival = &call.request.arrival;
    let is_page = arrival.class == RequestClass::Navigation && arrival.method == Method::GET;
    call.request.has_fetch_metadata()
        && is_page
        && matches!(call.query("go"), Ok(None))
        && arrival.target.query().is_some()
}

/// Completes a sign-in with what the provider sent back.
pub(super) async fn callback(call: EndpointCall<'_, '_>) -> EndpointReply {
    let gateway = call.gateway;
    let id = callback_provider(call.request.arrival.target.path(), call.site());
    let providers = gateway.oidc.as_ref().map(|oidc| &oidc.providers);
    let provider = providers.and_then(|providers| providers.get(id.as_ref()));
    // The callback of a provider that is not configured is an address like any other.
    if id.is_some() && provider.is_none() {
        return EndpointReply::refuse(Reason::NotFound);
    }
    if !gateway.sign_in_rate.admits(call.request.client) {
        return EndpointReply::refuse(Reason::TooOften);
    }
    let Some(provider) = provider.cloned() else {
        return problem(call, SignInProblem::Unavailable, NOT_CONFIGURED, "/");
    };
    provider.wait_until_known().await;
    let returned = match returned(call) {
        Ok(returned) => returned,
        Err((kind, sentence)) => {
            let state = call.query("state").ok().flatten();
            let target = state.and_then(|state| provider.sign_in.target_of(&state));
            return problem(call, kind, sentence, target.as_deref().unwrap_or("/"));
        }
    };
    let cookies = call.request.cookies_or_none();
    let flow = &provider.sign_in;
    let pending = match flow.check_callback(&returned, cookies.bind.iter()) {
        Ok(pending) => pending,
        Err(error) => {
            let target = flow.target_of(&returned.state);
            return late_or_failed(call, &error, target);
        }
    };
    let target = pending.return_to.clone();
    let hand_over = pending.hand_over.as_deref().and_then(BindHash::parse);
    // On the control runtime, and to its end even when the browser goes away: the code works only
    // once.
    let exchange = gateway
        .control
        .spawn(async move { provider.sign_in.complete(returned, pending).await });
    match exchange.await {
        Ok(Ok(signed_in)) => complete(call, signed_in, &target, hand_over).await,
        Ok(Err(error)) => failed(call, &error, &target),
        Err(_) => problem(
            call,
            SignInProblem::Unavailable,
            "The sign-in was interrupted. Please sign in again.",
            &target,
        ),
    }
}

/// Offers to sign in.
pub(super) fn page(call: EndpointCall<'_, '_>) -> EndpointReply {
    let site = call.site();
    let asked = call.query("rd").ok().flatten();
    let target = return_to::clean(asked.as_deref(), site);
    let person = call.sign_in().map(|sign_in| sign_in.principal().clone());
    let oidc = call.gateway.oidc.as_ref();
    let names = oidc.map(|oidc| oidc.providers.iter().map(|it| it.name()));
    let providers = names.map(|names| names.collect::<Vec<_>>().join(" or "));
    let start = pages::start(site, &target);
    let page = SignInPage {
        person: person.as_ref().map(|person| &*person.display_name),
        start: if person.is_some() {
            format!("{start}&prompt=login")
        } else {
            start
        },
        provider: providers.as_deref().unwrap_or("the sign-in service"),
        home: site.launcher(),
    };
    EndpointReply::page(Page::plain(&page))
}

/// Begins a sign-in under a new id, and revokes the one that this browser had before.
async fn complete(
    call: EndpointCall<'_, '_>,
    mut signed_in: SignedIn,
    target: &str,
    hand_over: Option<BindHash>,
) -> EndpointReply {
    let site = call.site();
    let sessions = &call.gateway.sessions;
    // An access token of a further provider is sent to no other system.
    if signed_in.tokens.provider.is_none() {
        for source in call.gateway.callers.sources() {
            source.describe(&mut signed_in).await;
        }
    }
    let principal = Arc::new(signed_in.principal);
    let (id, sign_in) = match sessions.store.begin(principal.clone(), signed_in.tokens) {
        Ok(begun) => begun,
        Err(error) => {
            return problem(call, SignInProblem::Unavailable, &error.to_string(), target)
                .with_person(principal);
        }
    };
    let cookies = call.request.cookies_or_none();
    let now = call.gateway.clock.now();
    if let Some(old) = sessions.store.find_sign_in(cookies.sign_in.iter(), now) {
        sessions.store.revoke(&old);
    }
    // Stored before the browser gets its cookie, so that every replica knows the sign-in.
    sessions.replication.save(&sign_in).await;
    tracing::info!(
        target: "audit", event = "sign_in", subject = %principal.subject,
        session = sign_in.key().short(), client = %call.request.client, request_id = call.request.id_text(),
    );
    let ticket = match (return_to::elsewhere(target, site), hand_over) {
        (Some(to), Some(bind)) => ticket::give(call, &sign_in, to, bind).await,
        (_, _) => None,
    };
    let to_target = || EndpointReply::redirect(StatusCode::SEE_OTHER, target);
    let reply = ticket.unwrap_or_else(to_target);
    let secure = site.origin.secure;
    let line = cookie::set(&site.cookies.sign_in, id.as_str(), "/", secure);
    reply.with_cookie(line).with_person(principal)
}

/// A callback that comes late or twice leads a signed-in person to their target.
fn late_or_failed(
    call: EndpointCall<'_, '_>,
    error: &SignInError,
    target: Option<String>,
) -> EndpointReply {
    let is_harmless = matches!(
        error,
        SignInError::State(StateError::Expired | StateError::Used)
    );
    match target {
        Some(target) if is_harmless && call.sign_in().is_some() => {
            EndpointReply::redirect(StatusCode::SEE_OTHER, target)
        }
        target => failed(call, error, target.as_deref().unwrap_or("/")),
    }
}

fn returned(call: EndpointCall<'_, '_>) -> Result<CallbackParams, (SignInProblem, &'static str)> {
    const INVALID: SignInProblem = SignInProblem::BadCallback;
    let value = |name| {
        let twice = |_| (INVALID, "A parameter was given twice.");
        call.query(name).map_err(twice)
    };
    let code = value("code")?;
    let state = value("state")?;
    let issuer = value("iss")?;
    // The provider's own words are not shown: a forged link could hold any words.
    if value("error")?.is_some() {
        let sentence = "The sign-in service did not sign you in.";
        return Err((SignInProblem::Declined, sentence));
    }
    let fits = |text: &String| (1..=MAX_PARAMETER).contains(&text.len());
    match (code.filter(fits), state.filter(fits)) {
        (Some(code), Some(state)) => Ok(CallbackParams {
            code,
            state,
            issuer,
        }),
        (_, _) => Err((
            INVALID,
            "The address is not a valid answer of the sign-in service.",
        )),
    }
}

fn failed(call: EndpointCall<'_, '_>, error: &SignInError, target: &str) -> EndpointReply {
    tracing::warn!(
        target: "audit", event = "sign_in_failed", %error, client = %call.request.client,
        request_id = call.request.id_text(),
    );
    let (kind, sentence) = match error {
        SignInError::Unavailable(_) => (
            SignInProblem::Unavailable,
            "The sign-in service does not answer. Apps where you are signed in still work.".into(),
        ),
        SignInError::State(error) => {
            let cause = respond::capitalised(&error.to_string());
            let sentence = format!("{cause}. Please sign in again.");
            (SignInProblem::BadCallback, sentence)
        }
        SignInError::OtherIssuer => (
            SignInProblem::BadCallback,
            "The answer came from a different sign-in service. Please sign in again.".into(),
        ),
        // The provider refuses our client id or secret: every sign-in fails until that is
        // corrected.
        SignInError::NotOurClient(_) => (
            SignInProblem::ClientRefused,
            "Sign-in is not set up correctly here. Please contact your administrator.".into(),
        ),
        SignInError::NotConfirmed(_) => (
            SignInProblem::NotConfirmed,
            "The sign-in service did not confirm the kind of sign-in that the app requires. If this \
             happens again, please contact your administrator."
                .into(),
        ),
        SignInError::Refused(_) => (
            SignInProblem::BadCallback,
            "The sign-in service refused this sign-in.".into(),
        ),
        SignInError::Token(_) => (
            SignInProblem::BadCallback,
            "The sign-in service's answer is not valid.".to_owned(),
        ),
    };
    problem(call, kind, &sentence, target)
}

fn bad_parameters(sentence: &str, call: EndpointCall<'_, '_>) -> EndpointReply {
    problem(call, SignInProblem::BadCallback, sentence, "/")
}

/// This address is of no further use; the page offers a new sign-in to the same target.
fn problem(
    call: EndpointCall<'_, '_>,
    problem: SignInProblem,
    sentence: &str,
    target: &str,
) -> EndpointReply {
    let content = Content::SignInProblem {
        problem,
        sentence: sentence.to_owned(),
        retry: pages::start(call.site(), target),
    };
    EndpointReply {
        reason: Some(LogReason::SignIn(problem)),
        ..EndpointReply::new(content)
    }
}
