//! `/oauth2/sign_out`, and `/.ludgate/sign_out` on every origin: asks for confirmation on a page
//! that no app can read, then revokes everything that this sign-in opened.

use std::sync::Arc;

use http::StatusCode;

use super::call::EndpointCall;
use crate::{
    decide::Reason,
    forward::body::Source,
    incoming::form::form_value,
    model::{
        app::AppId,
        arrival::{Origin, RequestClass},
        concurrency_limit::Holder,
        principal::Principal,
        vhost::VirtualHost,
    },
    pages::{Page, SignOutPage, SignedOutPage, with_return},
    respond::endpoint::EndpointReply,
    return_to,
    session::cookie::{self, RecordKey},
};

/// Largest form, in bytes.
const MAX_FORM: usize = 16 * 1024;

/// Asks for confirmation. Only a document navigation gets the page: a script of an app on this
/// origin must not read its token.
pub(super) fn confirmation(call: EndpointCall<'_, '_>) -> EndpointReply {
    if call.request.arrival.class != RequestClass::Navigation {
        return EndpointReply::refuse(Reason::ForeignOrigin);
    }
    if call.request.arrival.vhost != VirtualHost::Site {
        return lead_to_site(call);
    }
    let site = call.site();
    let asked = call.query("rd").ok().flatten();
    let target = target_after(call, asked.as_deref());
    let (Some((person, key)), Some(oidc)) = (signed_in(call), &call.gateway.oidc) else {
        return EndpointReply::redirect(StatusCode::SEE_OTHER, target);
    };
    let page = SignOutPage {
        person: &person.display_name,
        action: site.endpoint("sign_out"),
        token: oidc.keys().form_token(&key.0),
        return_to: target,
        home: site.launcher(),
    };
    let page = Page::plain(&page);
    EndpointReply::page(page).with_person(person)
}

/// On an app's host: the site asks. On the host a service worker of the app could read the page and
/// its token, and no cookie there names the sign-in.
fn lead_to_site(call: EndpointCall<'_, '_>) -> EndpointReply {
    let site = call.site();
    let vhost = &call.request.arrival.vhost;
    let sign_out = site.url(&VirtualHost::Site, &site.endpoint("sign_out"));
    let asked = call.query("rd").ok().flatten();
    let location = match asked.filter(|asked| !asked.is_empty()) {
        Some(asked) => {
            // A path is one of this host.
            let back = match asked.starts_with('/') {
                true => site.url(vhost, &asked),
                false => asked,
            };
            with_return(&sign_out, &return_to::clean(Some(&back), site))
        }
        None => sign_out,
    };
    EndpointReply::redirect(StatusCode::SEE_OTHER, location)
}

/// Signs out. Needs the token of the page, and that our own origin sent the form.
pub(super) async fn sign_out(call: EndpointCall<'_, '_>, body: Source) -> EndpointReply {
    let request = call.request;
    if request.arrival.origin == Origin::Foreign {
        return EndpointReply::refuse(Reason::ForeignOrigin);
    }
    let cookies = request.cookies_or_none();
    if cookies.sign_in.is_empty() && cookies.access_token.is_empty() {
        // Without a session the form has no effect, so its body is not read.
        return redirect_signed_out(call, target_after(call, None));
    }
    let known = call.sign_in().map(|sign_in| sign_in.principal().clone());
    let holder = Holder::new(known.as_deref(), request.client.limit_key);
    let collected = match call.gateway.forms.collect(holder, body, MAX_FORM).await {
        Ok(collected) => collected,
        Err(error) => return EndpointReply::refuse(error.into()),
    };
    let form = &collected.bytes;
    let asked = form_value(form, "rd").ok().flatten();
    let target = target_after(call, asked.as_deref());
    let token = form_value(form, "token").ok().flatten().unwrap_or_default();
    let (Some((person, key)), Some(oidc)) = (signed_in(call), &call.gateway.oidc) else {
        // This replica knows no sign-in, so there is none to revoke here.
        revoke_unknown(call, &token);
        return redirect_signed_out(call, target);
    };
    if !oidc.keys().is_form_token(&key.0, &token) {
        return EndpointReply::refuse(Reason::BadForm);
    }
    let Revoked { apps, onward } = revoke(call, &person).await;
    tracing::info!(
        target: "audit", event = "sign_out", subject = %person.subject, session = key.short(),
        client = %request.client, request_id = request.id_text(),
    );
    let reply = match onward {
        Some(onward) => EndpointReply::page(Page::plain(&SignedOutPage { onward })),
        None => EndpointReply::redirect(StatusCode::SEE_OTHER, target),
    };
    without_cookies(call, reply, &apps).with_person(person)
}

/// The result of a sign-out.
struct Revoked {
    /// Apps on paths, whose cookies are expired.
    apps: Vec<AppId>,
    /// Where the provider ends its own session.
    onward: Option<String>,
}

async fn revoke(call: EndpointCall<'_, '_>, person: &Principal) -> Revoked {
    let gateway = call.gateway;
    let mut apps = Vec::new();
    let mut onward = None;
    if let Some(sign_in) = call.sign_in() {
        // Locally first: this must hold even if a later step fails.
        gateway.sessions.store.revoke(&sign_in);
        gateway
            .sessions
            .replication
            .publish_revocation(&sign_in)
            .await;
        apps.extend(sign_in.apps());
        gateway.revoke_at_provider(&sign_in);
        let site = call.site();
        let back = site.url(&VirtualHost::Site, &site.launcher());
        let provider = gateway.provider(&sign_in);
        onward = provider.and_then(|it| it.logout.end_session_url(&sign_in, &back));
    }
    for source in gateway.callers.sources() {
        apps.extend(source.sign_out(person).await);
    }
    Revoked { apps, onward }
}

/// Another replica may have made the page, and its sign-in cannot be loaded now: it is revoked by
/// its key.
fn revoke_unknown(call: EndpointCall<'_, '_>, token: &str) {
    let (Ok(cookies), Some(oidc)) = (call.request.cookies(), &call.gateway.oidc) else {
        return;
    };
    for key in cookies.sign_in.iter().filter_map(RecordKey::parse) {
        if !call.is_foreign() && oidc.keys().is_form_token(&key.0, token) {
            call.gateway.sessions.replication.revoke_by_key(key);
        }
    }
}

/// The person, and the key that the form is bound to.
fn signed_in(call: EndpointCall<'_, '_>) -> Option<(Arc<Principal>, RecordKey)> {
    let sign_in = call
        .sign_in()
        .map(|sign_in| (sign_in.principal().clone(), sign_in.key()));
    sign_in.or_else(|| call.person_beside())
}

fn redirect_signed_out(call: EndpointCall<'_, '_>, target: String) -> EndpointReply {
    let reply = EndpointReply::redirect(StatusCode::SEE_OTHER, target);
    without_cookies(call, reply, &[])
}

/// Removes all our cookies from the browser.
fn without_cookies(
    call: EndpointCall<'_, '_>,
    mut reply: EndpointReply,
    apps: &[AppId],
) -> EndpointReply {
    let site = call.site();
    let secure = site.origin.secure;
    reply.clears_cache = true;
    for name in [&site.cookies.sign_in, &site.cookies.bind] {
        reply.cookies.extend(cookie::clear(name, "/", secure));
    }
    let name = site.cookies.app_at(&VirtualHost::Site);
    for app in apps {
        let path = format!("{}/", site.mount_of(app));
        reply.cookies.extend(cookie::clear(&name, &path, secure));
    }
    reply
}

/// The address to return to: the launcher, unless the request names another one.
fn target_after(call: EndpointCall<'_, '_>, asked: Option<&str>) -> String {
    let site = call.site();
    match asked {
        None | Some("") => site.launcher(),
        Some(_) => return_to::clean(asked, site),
    }
}
