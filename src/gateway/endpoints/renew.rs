//! Renewing a session without leaving the page: a window signs the person in and tells the page
//! that opened it, and nobody else. `/.ludgate/renew.js` opens it; `/.ludgate/renewed` is where it
//! ends.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::Call;
use crate::{
    authorize::Denied,
    catalog::lookup::Lookup,
    gateway::{
        access_log::Record,
        answer::Answer,
        decision::Reason,
        pages::{self, RenewedPage},
        respond,
    },
    model::{arrival::RequestClass, vhost::VirtualHost},
    route::path::RENEWED,
};

/// What the page does: tells whoever opened it, if that is a page of this very origin.
const TELL: &str = "if(opener){opener.postMessage({renewed:true},location.origin)}close()";
/// What an app loads.
const SCRIPT: &str = include_str!("../../../templates/renew.js");

impl Call<'_> {
    /// The end of a window that renews; a person without a session signs in first.
    pub fn renewed(&self, lookup: &Lookup, record: &mut Record) -> Response<Answer> {
        if !self.has_session(lookup) {
            if self.arrival.class != RequestClass::Navigation {
                return self.refuse(Reason::Denied(Denied::Anonymous), record);
            }
            let site = self.snapshot.site();
            return match self.arrival.vhost {
                VirtualHost::Site => {
                    respond::redirect(StatusCode::FOUND, &pages::start(site, RENEWED))
                }
                VirtualHost::Host(_) | VirtualHost::Port(_) => self.lead_to_site(RENEWED, record),
            };
        }
        with_script(
            respond::html(StatusCode::OK, &RenewedPage { script: TELL }, false),
            TELL,
        )
    }

    /// The script, the same for everybody.
    pub fn renew_script(&self) -> Response<Answer> {
        let mut response = respond::ours(StatusCode::OK, Answer::whole(SCRIPT));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/javascript; charset=utf-8"),
        );
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=3600"),
        );
        response
    }

    fn has_session(&self, lookup: &Lookup) -> bool {
        let (Some(presented), now) = (self.cookies(), self.gateway.clock.now()) else {
            return false;
        };
        match (self.arrival.vhost, lookup) {
            (VirtualHost::Site, _) => self.sign_in().is_some(),
            (vhost, Lookup::App(app)) => {
                let sessions = &self.gateway.sessions;
                sessions
                    .store
                    .find(
                        presented.app.iter(),
                        std::iter::empty(),
                        app.id(),
                        &vhost,
                        now,
                    )
                    .is_some()
            }
            (_, _) => false,
        }
    }
}

/// A page of ours that runs this script and no other, and stays within reach of the page that
/// opened its window: another opener policy would cut the two apart.
pub fn with_script(mut page: Response<Answer>, script: &str) -> Response<Answer> {
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, pages::policy_for(script));
    headers.remove(HeaderName::from_static("cross-origin-opener-policy"));
    page
}
