//! A form that somebody sent when their session was over: sealed, in the page that tells them so,
//! and nowhere else.

use askama::Template;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::{access_log::Record, answer::Answer, endpoints::renew::with_script, pages, respond};
use crate::{
    model::{arrival::Arrival, site::Site, vhost::VirtualHost},
    route::path::RENEWED,
    session::{
        keys::{KeyRing, Purpose},
        stored::StoredVirtualHost,
    },
};

/// The end of the query of a form that comes again: to its own address, so that the app's cookies
/// come along, and that what it answers is read from there.
pub const MARK: &str = "ludgate-resume";
/// The field that holds it then.
pub const FIELD: &str = "ludgate-parked";
/// Largest body that is kept, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// The sealed form in the form that sends it: base64 and what JSON escapes, in bytes.
pub const MAX_SEALED: usize = 256 * 1024;
/// It can be sent for so long, in seconds.
pub const MAX_AGE: i64 = 600;
/// The clocks of two replicas may differ by so much, in seconds.
const SKEW: i64 = 60;

/// What the page does: has the person sign in in a window of its own, and then sends the form.
/// Where no window opens, or one that cannot be seen, the form is sent as it is, and the page comes
/// again if that was too early.
const SIGN_IN_FIRST: &str = "const form=document.querySelector('form');\
    form.querySelector('button').addEventListener('click',event=>{\
    event.preventDefault();\
    const opened=window.open('/.ludgate/renewed','ludgate-renew','popup,width=520,height=680');\
    let seen=0,watch=0,sent=false;event.target.disabled=true;\
    const send=()=>{clearInterval(watch);if(!sent)form.submit();sent=true};\
    if(!opened)return send();\
    addEventListener('message',message=>{\
    if(message.origin===location.origin&&message.data?.renewed===true)send()});\
    watch=setInterval(()=>{seen=opened.closed?seen+1:0;if(seen>3)send()},500)})";

/// The form and all that it is bound to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parked {
    /// Whose it is.
    pub person: String,
    /// For which app.
    pub app: String,
    /// At which origin.
    #[serde(rename = "place")]
    pub vhost: StoredVirtualHost,
    /// Path and query there.
    pub target: String,
    /// What was typed.
    pub body: String,
    /// When it came, in seconds since 1970.
    pub came: i64,
}

/// The page that holds it.
#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage<'p> {
    status: String,
    sentence: &'p str,
    app: &'p str,
    request_id: &'p str,
    action: String,
    field: &'static str,
    parked: &'p str,
    sign_in: &'static str,
    script: &'static str,
}

impl Parked {
    /// Seals it for the page.
    pub fn seal(&self, keys: &KeyRing) -> Option<String> {
        keys.seal(Purpose::ParkedForm, &serde_json::to_vec(self).ok()?)
            .ok()
    }

    /// Opens what a page sent, if it is ours, young, and of this origin.
    pub fn open(sealed: &str, keys: &KeyRing, vhost: &VirtualHost, now: i64) -> Option<Parked> {
        let plain = keys.open(Purpose::ParkedForm, sealed).ok()?;
        let parked: Parked = serde_json::from_slice(&plain).ok()?;
        let is_young = (-SKEW..=MAX_AGE).contains(&now.saturating_sub(parked.came));
        (is_young && parked.vhost.to_vhost() == Some(*vhost)).then_some(parked)
    }
}

/// The page. `sealed` is what [`Parked::seal`] made.
pub fn page(
    arrival: &Arrival,
    site: &Site,
    (app, sealed): (&str, &str),
    (status, sentence): (StatusCode, &str),
    record: &mut Record,
) -> Response<Answer> {
    (record.decision, record.reason) = ("deny", "parked");
    let (target, separator) = (
        arrival.target.as_str(),
        if arrival.target.query().is_some() {
            '&'
        } else {
            '?'
        },
    );
    let page = ParkedPage {
        status: status.to_string(),
        sentence,
        app,
        request_id: record.id.to_str().unwrap_or_default(),
        action: site.url(&arrival.vhost, &format!("{target}{separator}{MARK}")),
        field: FIELD,
        parked: sealed,
        sign_in: RENEWED,
        script: SIGN_IN_FIRST,
    };
    let mut response = with_script(respond::html(status, &page, false), SIGN_IN_FIRST);
    let headers = response.headers_mut();
    // The app's answer may lead anywhere, and browsers hold that to where a page may send its
    // forms.
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        pages::policy_for_forms(SIGN_IN_FIRST),
    );
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"ludgate\""),
        );
    }
    if status.is_server_error() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}
