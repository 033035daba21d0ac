//! `/oauth2/auth` and `/.ludgate/auth`: another proxy has received a request, and asks whether it
//! may forward it (docs/behaviour.md#other-proxies).
//!
//! The request takes the same steps as one that arrives here, except that it is not forwarded.
//! Invariant: it begins no session, and the app's state does not matter, since the proxy itself
//! forwards to the app.

use http::{HeaderMap, Method, StatusCode};

use super::{
    call::EndpointCall,
    hide_existence::hide_existence,
    ticket::{self, SignInAddress},
};
use crate::{
    authorize::{Denied, Permit},
    caller::{Identified, session_memo::SessionMemo},
    decide::{
        Decision, Reason, Refusal,
        allowed_groups::AllowedGroups,
        authorize::admit,
        labels::{DecisionLabel, LogReason},
        locate::destination,
    },
    forward::header_action::{misspells_auth_request, overrides_target},
    incoming::{self, IncomingRequest, forwarded::Description},
    model::{
        app::{App, AppKind, AppState},
        arrival::Framing,
        vhost::VirtualHost,
    },
    pages,
    respond::endpoint::{Content, EndpointReply, ForwardRefusal},
};

/// The one parameter of an auth request's query.
const ALLOWED_GROUPS: &str = "allowed_groups";

/// Whether the proxy may forward the request.
pub(super) async fn answer(call: EndpointCall<'_, '_>) -> EndpointReply {
    if !call.is_from_trusted_proxy {
        return EndpointReply::refuse(Reason::UntrustedProxy);
    }
    let mut names = call.request.headers().keys();
    if names.any(|name| misspells_auth_request(name.as_str())) {
        return EndpointReply::refuse(Reason::UnknownTarget);
    }
    let description = Description::of_auth_request(call.request);
    let Ok(allowed) = allowed_groups(call, description) else {
        return EndpointReply::refuse(Reason::BadQuery);
    };
    let described = description.read(call.request);
    let parsed = described.as_ref().and_then(|parts| {
        let mut arrival = incoming::parse(parts, true, call.site()).ok()?;
        // The head was parsed without its framing, and a preflight has no body.
        arrival.is_preflight &= has_no_body(call.request.arrival.framing);
        Some((arrival, &parts.headers))
    });
    let Some((arrival, headers)) = parsed else {
        return EndpointReply::refuse(Reason::UnknownTarget);
    };
    let id = call.request.id.clone();
    let request = IncomingRequest::new(arrival, headers, call.site(), id, call.request.client);
    let call = call.about(&request);
    let mut caller = Identified::anonymous();
    match authorize(call, allowed.as_ref(), &mut caller).await {
        Ok(permit) => {
            record_use(call, &permit, &caller);
            allow(permit, description)
        }
        Err(decision) => refuse(call, decision, &caller).await,
    }
}

/// Whether a head declares no body. Proxies pass on the framing of the asked request, or none.
fn has_no_body(framing: Framing) -> bool {
    matches!(framing, Framing::None | Framing::Length(0))
}

/// A parameter is unknown or repeated. It may be meant as a restriction.
struct BadParameter;

/// The groups that the proxy names. Where the query is that of the request, it names none.
fn allowed_groups(
    call: EndpointCall<'_, '_>,
    description: Description,
) -> Result<Option<AllowedGroups>, BadParameter> {
    if description == Description::Path {
        return Ok(None);
    }
    let query = call.request.arrival.target.query().unwrap_or_default();
    let mut names = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    if names.any(|name| name != ALLOWED_GROUPS) {
        return Err(BadParameter);
    }
    let list = call.query(ALLOWED_GROUPS).map_err(|_| BadParameter)?;
    Ok(list.map(|list| AllowedGroups::parse(&list)))
}

/// The steps of the request, up to the permit.
///
/// # Errors
/// The decision that ends it.
async fn authorize(
    call: EndpointCall<'_, '_>,
    allowed: Option<&AllowedGroups>,
    caller: &mut Identified,
) -> Result<Permit, Decision> {
    let EndpointCall {
        gateway,
        snapshot,
        request,
        ..
    } = call;
    let arrival = &request.arrival;
    let client = request.client.address;
    // A token in the address is no credential here: it would stay in the address.
    let lookup = gateway.catalog.find(&arrival.vhost, snapshot, client).await;
    let destination = destination(arrival, snapshot, &lookup)?;
    if !is_listed(call, &destination.app) {
        return Err(Reason::UnknownTarget.into());
    }
    let memo = SessionMemo::default();
    *caller = gateway
        .callers
        .identify(request, &destination, &memo)
        .await?;
    let now = destination.app.decision_time(&gateway.clock);
    let permit = admit(destination, caller, arrival, call.site(), now)?;
    if permit.depends_on_target() && has_override(request.headers()) {
        return Err(Reason::UnknownTarget.into());
    }
    match allowed {
        Some(groups) if !groups.admit(&permit) => Err(outside(caller).into()),
        Some(_) | None => Ok(permit),
    }
}

/// Whether the app may take another path or method from a header. An answer cannot make the proxy
/// remove it.
fn has_override(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| overrides_target(name.as_str()))
}

/// Whether an app is one of the catalogue. The console and the API check their callers themselves,
/// which does not hold for what another proxy has at their addresses.
fn is_listed(call: EndpointCall<'_, '_>, app: &App) -> bool {
    let api = call.site().api.as_deref();
    app.kind == AppKind::Hosted && !api.is_some_and(|api| std::ptr::eq(api, app))
}

/// Why a person in none of the allowed groups is refused. While groups must be confirmed first,
/// they are not known.
fn outside(caller: &Identified) -> Reason {
    let live = caller.live.as_ref();
    if live.is_some_and(|live| live.sign_in().check().is_required()) {
        Reason::Unverifiable
    } else {
        Reason::Denied(Denied::NotInGroup)
    }
}

/// A permitted request is a use of the session, and of the app.
fn record_use(call: EndpointCall<'_, '_>, permit: &Permit, caller: &Identified) {
    let gateway = call.gateway;
    let now = gateway.clock.now();
    if let Some(live) = &caller.live {
        gateway.sessions.store.touch(live, now);
    }
    let app = permit.app();
    if permit.principal().is_some() || app.spec.state == AppState::Running {
        app.activity.record(now);
    } else if let Some(interval) = gateway.anonymous_use_interval {
        app.activity.record_anonymous(now, interval);
    }
}

fn allow(permit: Permit, description: Description) -> EndpointReply {
    let status = match description {
        Description::Headers => StatusCode::ACCEPTED,
        // Envoy takes every other status for a refusal.
        Description::Path => StatusCode::OK,
    };
    let reason = LogReason::Grounds(permit.grounds());
    let (app, person) = (permit.app().clone(), permit.principal().cloned());
    let permit = Box::new(permit);
    EndpointReply {
        decision: Some(DecisionLabel::Allow),
        reason: Some(reason),
        app: Some(app),
        person,
        ..EndpointReply::new(Content::MayForward { status, permit })
    }
}

/// The refusal, with 401, 403 or 503: nginx takes other statuses for an error of ours. What the
/// gateway would answer instead of an app is for no app.
async fn refuse(
    call: EndpointCall<'_, '_>,
    decision: Decision,
    caller: &Identified,
) -> EndpointReply {
    let arrival = &call.request.arrival;
    let (refusal, address) = match decision {
        Decision::SignIn { return_to, refusal } => sign_in(call, &return_to, refusal),
        Decision::Refuse(refusal) | Decision::SaveForm(refusal) => (refusal, None),
        Decision::Endpoint(_)
        | Decision::Launcher
        | Decision::Redirect(_)
        | Decision::ForgetTenant { .. }
        | Decision::DropToken { .. }
        | Decision::ResendForm(_)
        | Decision::Fault { .. } => (Refusal::new(Reason::UnknownTarget), None),
    };
    let app = refusal.app.clone();
    let denying_rule = refusal.rule;
    let callers = &call.gateway.callers;
    let logged = narrowed(refusal.clone());
    let shown = narrowed(hide_existence(callers, refusal, caller.source_token()).await);
    let (location, bind) = match address {
        Some(SignInAddress { location, bind }) => (Some(location), bind),
        None => (None, None),
    };
    let refused = ForwardRefusal {
        refusal: shown,
        vhost: arrival.vhost,
        target: arrival.target.as_str().to_owned(),
        may_reload: arrival.method == Method::GET,
        sign_in: location,
    };
    let reply = EndpointReply {
        decision: Some(logged.label()),
        reason: Some(LogReason::Refused(logged.reason)),
        app,
        denying_rule,
        person: caller.caller.principal().cloned(),
        ..EndpointReply::new(Content::MayNotForward(Box::new(refused)))
    };
    // Exactly one line: nginx passes on one cookie only.
    reply.with_cookie(bind)
}

/// The refusal of a person who opens a page and must sign in for it, and where to sign in.
fn sign_in(
    call: EndpointCall<'_, '_>,
    return_to: &str,
    refusal: Refusal,
) -> (Refusal, Option<SignInAddress>) {
    let site = call.site();
    let requirement = refusal.required_authentication();
    let address = match call.request.arrival.vhost {
        VirtualHost::Site => Ok(site.signs_in.then(|| {
            let start = pages::start_with(site, return_to, requirement);
            SignInAddress {
                location: site.url(&VirtualHost::Site, &start),
                bind: None,
            }
        })),
        VirtualHost::Host(_) | VirtualHost::Port(_) => {
            ticket::sign_in_address(call, return_to, requirement).map(Some)
        }
    };
    match address {
        // Visitors do not learn the name of the app.
        Ok(address) if refusal.reason.is_step_up() => (refusal, address),
        Ok(address) => (Refusal::new(refusal.reason), address),
        Err(reason) => (Refusal::new(reason), None),
    }
}

fn narrowed(refusal: Refusal) -> Refusal {
    match refusal.reason.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE => {
            refusal
        }
        _ => Refusal::new(Reason::UnknownTarget),
    }
}
