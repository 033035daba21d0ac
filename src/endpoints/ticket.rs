//! Tickets: how a sign-in on the site becomes a session on an app's own host, without a cookie that
//! both could read.
//!
//! The host sends an anonymous person to the site ([`lead_to_site`]). The site, once the person is
//! signed in and may reach the target, gives the browser a ticket ([`give`]). The host takes the
//! ticket and sets its own cookie ([`enter`]).

use std::sync::Arc;

use http::{HeaderValue, StatusCode, uri::PathAndQuery};

use super::{app_session, call::EndpointCall, hide_existence::hide_existence};
use crate::{
    authorize::{Denied, Permit},
    decide::{
        Decision, Reason, Refusal,
        authorize::check_access,
        labels::{DecisionLabel, LogReason},
        locate::destination,
    },
    model::{
        arrival::Arrival,
        authentication::AuthenticationRequirement,
        caller::{Caller, Credential},
        principal::Principal,
        vhost::VirtualHost,
    },
    pages,
    respond::endpoint::{Content, EndpointReply},
    return_to,
    route::path::{ENTER, RENEWED},
    session::{
        browser_binding::{BindHash, is_bind, new_bind},
        cookie::{self, NoRandomness},
        live::Live,
        record::SignIn,
        ticket::Ticket,
    },
};

/// The bind cookie of this browser at this origin.
pub(super) struct Bind {
    /// Its value.
    pub(super) value: String,
    /// Set on the answer when the browser had none.
    pub(super) line: Option<HeaderValue>,
}

/// The browser's bind cookie, made when it has none.
///
/// # Errors
/// When the system has no random bytes.
pub(super) fn bind(call: EndpointCall<'_, '_>) -> Result<Bind, NoRandomness> {
    let site = call.site();
    let cookies = call.request.cookies_or_none();
    let presented = cookies.bind.iter().find(|value| is_bind(value));
    if let Some(value) = presented.and_then(|value| std::str::from_utf8(value).ok()) {
        return Ok(Bind {
            value: value.to_owned(),
            line: None,
        });
    }
    let value = new_bind()?;
    let line = cookie::set(&site.cookies.bind, &value, "/", site.origin.secure);
    Ok(Bind { value, line })
}

/// Where a person, who opens a page on an app's host, begins to sign in.
pub(super) struct SignInAddress {
    /// The address on the site.
    pub(super) location: String,
    /// Binds the ticket to the browser; `None`: it has such a cookie.
    pub(super) bind: Option<HeaderValue>,
}

/// Where a person begins to sign in who opens this target on the request's host.
///
/// # Errors
/// Why that is not possible.
pub(super) fn sign_in_address(
    call: EndpointCall<'_, '_>,
    target: &str,
    requirement: Option<&AuthenticationRequirement>,
) -> Result<SignInAddress, Reason> {
    let site = call.site();
    if call.gateway.oidc.is_none() {
        // Signing in is not possible there; a page that says what is needed helps more.
        return Err(Reason::Denied(Denied::Anonymous));
    }
    let bind = bind(call).map_err(|_| Reason::Unverifiable)?;
    let vhost = &call.request.arrival.vhost;
    let back = return_to::address(vhost, target, site);
    let start = pages::start_with(site, &back, requirement);
    let start = site.url(&VirtualHost::Site, &start);
    let hash = BindHash::from_cookie(bind.value.as_bytes());
    Ok(SignInAddress {
        location: format!("{start}&bind={}", hash.as_str()),
        bind: bind.line,
    })
}

/// On an app's host: sends a person, who opens a page there, to the site to sign in. `has_session`:
/// the host's session is live, but the app requires another sign-in.
pub fn lead_to_site(
    call: EndpointCall<'_, '_>,
    target: &str,
    requirement: Option<&AuthenticationRequirement>,
    has_session: bool,
) -> EndpointReply {
    let SignInAddress { location, bind } = match sign_in_address(call, target, requirement) {
        Ok(address) => address,
        Err(reason) => return EndpointReply::refuse(reason),
    };
    let reply = EndpointReply::redirect(StatusCode::FOUND, location).with_cookie(bind);
    // A live session stays until the sign-in replaces it: the person may not complete that, and any
    // page can lead a browser here.
    if has_session || call.request.cookies_or_none().app.is_empty() {
        return reply;
    }
    // The cookie of an expired session is removed here: the site cannot remove it.
    let site = call.site();
    let name = site.cookies.app_at(&call.request.arrival.vhost);
    reply.with_cookie(cookie::clear(&name, "/", site.origin.secure))
}

/// On the site: the person is signed in. If they may reach the target, the browser gets a ticket
/// for it. `None`: the app has an idle time of its own, and the sign-in is older than that.
pub(super) async fn give(
    call: EndpointCall<'_, '_>,
    sign_in: &Arc<SignIn>,
    (vhost, target): (VirtualHost, &str),
    bind: BindHash,
) -> Option<EndpointReply> {
    let gateway = call.gateway;
    let principal = sign_in.principal().clone();
    let permit = match authorize_at(call, &vhost, target, &principal).await {
        Ok(permit) => permit,
        Err(refusal) if refusal.reason.is_step_up() => {
            let again = sign_in_again(call, &refusal, (vhost, target), &bind);
            return Some(again.with_person(principal));
        }
        Err(refusal) => {
            let refused = refuse_at(call, refusal, vhost, target).await;
            return Some(refused.with_person(principal));
        }
    };
    let app = permit.app().clone();
    let now = gateway.clock.now();
    // A window that renews a session needs one, whatever the app's first page needs: without it the
    // host would lead the browser back here. A session grants nothing.
    let renews = target == RENEWED;
    let reply = if permit.principal().is_none() && !renews {
        EndpointReply::redirect(StatusCode::SEE_OTHER, call.site().url(&vhost, target))
    } else if !gateway.callers.may_begin_session(sign_in, &app) {
        return None;
    } else {
        gateway
            .sessions
            .store
            .touch(&Live::SignIn(sign_in.clone()), now);
        let ticket = Ticket {
            vhost,
            app: app.id().clone(),
            bind,
            sign_in: sign_in.clone(),
            own_idle: app.spec.session.idle,
            target: target.to_owned(),
            issued_at: now,
        };
        match gateway.sessions.tickets.issue(ticket).await {
            Ok(id) => {
                let enter = format!("{ENTER}?ticket={}", id.as_str());
                EndpointReply::redirect(StatusCode::SEE_OTHER, call.site().url(&vhost, &enter))
            }
            Err(_) => EndpointReply::refuse(Reason::Unverifiable),
        }
    };
    Some(EndpointReply {
        app: Some(app),
        ..reply.with_person(principal)
    })
}

/// On the site: the sign-in of the browser does not meet what the app requires.
fn sign_in_again(
    call: EndpointCall<'_, '_>,
    refusal: &Refusal,
    (vhost, target): (VirtualHost, &str),
    bind: &BindHash,
) -> EndpointReply {
    let site = call.site();
    let back = return_to::address(&vhost, target, site);
    let start = pages::start_with(site, &back, refusal.required_authentication());
    let location = format!("{start}&bind={}", bind.as_str());
    EndpointReply {
        decision: Some(DecisionLabel::SignIn),
        reason: Some(LogReason::Refused(refusal.reason)),
        app: refusal.app.clone(),
        ..EndpointReply::redirect(StatusCode::SEE_OTHER, location)
    }
}

async fn refuse_at(
    call: EndpointCall<'_, '_>,
    refusal: Refusal,
    vhost: VirtualHost,
    target: &str,
) -> EndpointReply {
    let decision = Some(refusal.label());
    let reason = Some(LogReason::Refused(refusal.reason));
    let app = refusal.app.clone();
    let denying_rule = refusal.rule;
    // A sign-in at the provider has no token that shows what the person may learn of.
    let refusal = hide_existence(&call.gateway.callers, refusal, None).await;
    let target = target.to_owned();
    let content = Content::RefusalAt {
        refusal,
        vhost,
        target,
    };
    EndpointReply {
        decision,
        reason,
        app,
        denying_rule,
        ..EndpointReply::new(content)
    }
}

/// The decision for this person at the target, by the rule for requests.
async fn authorize_at(
    call: EndpointCall<'_, '_>,
    vhost: &VirtualHost,
    target: &str,
    principal: &Arc<Principal>,
) -> Result<Permit, Refusal> {
    let not_found = || Refusal::new(Reason::NotFound);
    // A window that renews a session needs what the app's first page needs.
    let target = if target == RENEWED { "/" } else { target };
    let target = PathAndQuery::try_from(target).map_err(|_| not_found())?;
    let arrival = Arrival::navigation(*vhost, target);
    let client = call.request.client.address;
    let lookup = call
        .gateway
        .catalog
        .find(vhost, call.snapshot, client)
        .await;
    let caller = Caller::Person {
        principal: principal.clone(),
        credential: Credential::Cookie,
    };
    let decided = destination(&arrival, call.snapshot, &lookup).and_then(|destination| {
        let now = destination.app.decision_time(&call.gateway.clock);
        check_access(&arrival, &caller, destination, now)
    });
    match decided {
        Ok(permit) => Ok(permit),
        Err(
            Decision::Refuse(refusal)
            | Decision::SaveForm(refusal)
            | Decision::SignIn { refusal, .. },
        ) => Err(refusal),
        Err(
            Decision::Endpoint(_)
            | Decision::Launcher
            | Decision::Redirect(_)
            | Decision::ForgetTenant { .. }
            | Decision::DropToken { .. }
            | Decision::ResendForm(_)
            | Decision::Fault { .. },
        ) => Err(not_found()),
    }
}

/// On an app's host: takes the ticket, sets this origin's own cookie, and goes on to the target.
pub(super) async fn enter(call: EndpointCall<'_, '_>) -> EndpointReply {
    let gateway = call.gateway;
    let vhost = &call.request.arrival.vhost;
    let cookies = call.request.cookies_or_none();
    let ticket = call.query("ticket").ok().flatten().unwrap_or_default();
    let taken = gateway
        .sessions
        .tickets
        .redeem(&ticket, vhost, cookies.bind.iter())
        .await;
    let ticket = match taken {
        Ok(ticket) => ticket,
        Err(why) => {
            tracing::info!(
                target: "audit", event = "ticket_refused", %why, client = %call.request.client,
                request_id = call.request.id_text(),
            );
            let refusal = Refusal::new(Reason::BadTicket);
            let target = "/".to_owned();
            return EndpointReply {
                reason: Some(LogReason::Refused(refusal.reason)),
                ..EndpointReply::new(Content::RefusalAt {
                    refusal,
                    vhost: *vhost,
                    target,
                })
            };
        }
    };
    let person = ticket.sign_in.principal().clone();
    let begun = app_session::begin(
        &gateway.sessions,
        call.request,
        &ticket.sign_in,
        &ticket.app,
        ticket.own_idle,
        "/",
    )
    .await;
    let Some((_, line)) = begun else {
        return EndpointReply::refuse(Reason::Unverifiable).with_person(person);
    };
    let target = call.site().url(vhost, &ticket.target);
    EndpointReply::redirect(StatusCode::SEE_OTHER, target)
        .with_cookie(Some(line))
        .with_person(person)
}
