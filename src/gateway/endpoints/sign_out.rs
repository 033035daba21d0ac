//! `/oauth2/sign_out`: asks on a page that no app can read, then ends everything this sign-in
//! opened.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::Method;

use super::{Call, once, set_cookie};
use crate::{
    forward::body::Source,
    gateway::{
        access_log::Record,
        answer::Answer,
        decision::Reason,
        pages::{SignOutPage, SignedOutPage},
        respond, return_to,
    },
    model::{
        app::AppId,
        arrival::{Origin, Provenance, RequestClass},
        load::Holder,
        principal::Principal,
        vhost::VirtualHost,
    },
    session::cookie::{self, RecordKey},
};

/// Largest form, in bytes.
const MAX_FORM: usize = 16 * 1024;

impl Call<'_> {
    /// GET asks, POST does.
    pub async fn sign_out(&self, body: Source, record: &mut Record) -> Response<Answer> {
        if self.arrival.method == Method::POST {
            self.sign_out_now(body, record).await
        } else {
            self.ask_to_sign_out(record)
        }
    }

    /// Shown to document navigations only: a script of an app on this origin must not read the
    /// token.
    fn ask_to_sign_out(&self, record: &mut Record) -> Response<Answer> {
        if self.arrival.class != RequestClass::Navigation {
            return self.refuse(Reason::ForeignOrigin, record);
        }
        let site = self.snapshot.site();
        let asked = self.query("rd").ok().flatten();
        let target = self.after(asked.as_deref());
        let (Some((principal, key)), Some(oidc)) = (self.who_signs_out(), &self.gateway.oidc)
        else {
            return respond::redirect(StatusCode::SEE_OTHER, &target);
        };
        record.person = Some(principal.clone());
        let page = SignOutPage {
            person: &principal.display_name,
            action: site.endpoint("sign_out"),
            token: oidc.keys().form_token(&key.0),
            return_to: target,
            home: site.launcher(),
        };
        respond::html(StatusCode::OK, &page, false)
    }

    /// Needs the page's token, and that our own origin sent the form.
    async fn sign_out_now(&self, body: Source, record: &mut Record) -> Response<Answer> {
        if self.arrival.origin == Origin::Foreign {
            return self.refuse(Reason::ForeignOrigin, record);
        }
        let presented = self.cookies().unwrap_or_default();
        if presented.sign_in.is_empty() && presented.access_token.is_empty() {
            // Without a session the form has no effect, so its body is not read.
            return self.signed_out(
                respond::redirect(StatusCode::SEE_OTHER, &self.after(None)),
                &[],
            );
        }
        let known = self.sign_in().map(|sign_in| sign_in.principal().clone());
        let holder = Holder::new(known.as_deref(), record.client.limit_key);
        let collected = match self.gateway.forms.collect(holder, body, MAX_FORM).await {
            Ok(collected) => collected,
            Err(error) => return self.refuse(error.into(), record),
        };
        let form = &collected.bytes;
        let asked = once(form, "rd").ok().flatten();
        let target = self.after(asked.as_deref());
        let (Some((principal, key)), Some(oidc)) = (self.who_signs_out(), &self.gateway.oidc)
        else {
            // Nobody is signed in, as far as is known here: that is what was asked for.
            self.end_elsewhere(form);
            return self.signed_out(respond::redirect(StatusCode::SEE_OTHER, &target), &[]);
        };
        let token = once(form, "token").ok().flatten().unwrap_or_default();
        if !oidc.keys().is_form_token(&key.0, &token) {
            return self.refuse(Reason::BadForm, record);
        }
        // What the console's token has begun ends too; while the console keeps the token, another
        // begins by it.
        let mut apps = self
            .gateway
            .sessions
            .revoker
            .revoke_console_sign_ins(&principal.subject);
        let mut onward = None;
        if let Some(sign_in) = self.sign_in() {
            // Lookup first: whatever becomes of the rest, nothing of it is left.
            self.gateway.sessions.store.revoke(&sign_in);
            self.gateway
                .sessions
                .replication
                .publish_revocation(&sign_in)
                .await;
            apps.extend(sign_in.apps());
            let site = self.snapshot.site();
            self.gateway.revoke_at_provider(&sign_in);
            onward = oidc
                .logout
                .end_session_url(&sign_in, &site.url(&VirtualHost::Site, &site.launcher()));
        }
        if let Some(user) = &principal.arvados_user {
            // Of replicas that cannot be asked now the console's own tokens go on, as they would
            // without us.
            let _ = self
                .gateway
                .sessions
                .replication
                .load_by_subject(Some(user), None)
                .await;
            // What their tokens have begun on hosts of containers is theirs too.
            self.gateway.sessions.revoker.revoke_arvados_sign_ins(user);
        }
        tracing::info!(
            target: "audit", event = "sign_out", subject = %principal.subject,
            session = key.short(), client = %record.client, request_id = record.id(),
        );
        record.person = Some(principal);
        let response = match onward {
            Some(onward) => respond::html(StatusCode::OK, &SignedOutPage { onward }, false),
            None => respond::redirect(StatusCode::SEE_OTHER, &target),
        };
        self.signed_out(response, &apps)
    }

    /// The page may have been made by another replica, whose sign-in cannot be asked for now: it
    /// ends all the same.
    fn end_elsewhere(&self, form: &[u8]) {
        let (Some(presented), Some(oidc)) = (self.cookies(), &self.gateway.oidc) else {
            return;
        };
        let token = once(form, "token").ok().flatten().unwrap_or_default();
        for key in presented.sign_in.iter().filter_map(RecordKey::parse) {
            if self.arrival.provenance != Provenance::Foreign
                && oidc.keys().is_form_token(&key.0, &token)
            {
                self.gateway.sessions.replication.revoke_by_key(key);
            }
        }
    }

    /// The person, and what the form is tied to: the sign-in of this browser, or else the console's
    /// token.
    fn who_signs_out(&self) -> Option<(Arc<Principal>, RecordKey)> {
        let sign_in = self
            .sign_in()
            .map(|sign_in| (sign_in.principal().clone(), sign_in.key()));
        sign_in.or_else(|| self.signed_in_at_console())
    }

    /// Leaves the browser without any cookie of ours.
    fn signed_out(&self, mut response: Response<Answer>, apps: &[AppId]) -> Response<Answer> {
        let site = self.snapshot.site();
        let clear = HeaderName::from_static("clear-site-data");
        response
            .headers_mut()
            .insert(clear, HeaderValue::from_static("\"cache\""));
        for name in [&site.cookies.sign_in, &site.cookies.bind] {
            set_cookie(&mut response, cookie::clear(name, "/", site.origin.secure));
        }
        let name = site.cookies.app_at(&VirtualHost::Site);
        for app in apps {
            let path = format!("{}/{app}/", site.apps_prefix);
            set_cookie(
                &mut response,
                cookie::clear(&name, &path, site.origin.secure),
            );
        }
        response
    }

    /// Where people go afterwards: the launcher unless they asked for another place.
    fn after(&self, asked: Option<&str>) -> String {
        let site = self.snapshot.site();
        match asked {
            None | Some("") => site.launcher(),
            Some(_) => return_to::clean(asked, site),
        }
    }
}
