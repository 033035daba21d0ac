//! A form that somebody sent when their session was over: sealed, in the page that tells them so, and nowhere else.

use askama::Template;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::{access_log::Record, answer::Answer, endpoints::renew::with_script, respond};
use crate::{
    model::{arrival::Arrival, place::Place, site::Site},
    route::path::{RENEWED, RESUME},
    session::{
        keys::{KeyRing, Purpose},
        written::WrittenPlace,
    },
};

/// Largest body that is kept, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// The sealed form in the form that sends it: base64 and what JSON escapes, in bytes.
pub const MAX_SEALED: usize = 256 * 1024;
/// It can be sent for so long, in seconds.
pub const MAX_AGE: i64 = 600;
/// The clocks of two replicas may differ by so much, in seconds.
const SKEW: i64 = 60;

/// What the page does: has the person sign in in a window of its own, and then sends the form. Where no window opens, or one that
/// cannot be seen, the form is sent as it is, and the page comes again if that was too early.
const SIGN_IN_FIRST: &str = "const form=document.querySelector('form');\
    form.querySelector('button').addEventListener('click',event=>{\
    event.preventDefault();\
    const opened=window.open('/.ludgate/renewed','ludgate-renew','popup,width=520,height=680');\
    let seen=0,watch=0;\
    const send=()=>{clearInterval(watch);form.submit()};\
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
    pub place: WrittenPlace,
    /// Path and query there.
    pub target: String,
    /// As the browser wrote it.
    pub content_type: String,
    /// What was typed.
    pub body: String,
    /// When it came, in seconds since 1970.
    pub came: i64,
}

/// The page that holds it.
#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage<'p> {
    sentence: &'p str,
    app: &'p str,
    request_id: &'p str,
    action: String,
    parked: &'p str,
    sign_in: &'static str,
    script: &'static str,
}

impl Parked {
    /// Seals it for the page.
    pub fn seal(&self, keys: &KeyRing) -> Option<String> {
        keys.seal(Purpose::ParkedForm, &serde_json::to_vec(self).ok()?).ok()
    }

    /// Opens what a page sent, if it is ours, young, and of this origin.
    pub fn open(sealed: &str, keys: &KeyRing, place: &Place, now: i64) -> Option<Parked> {
        let plain = keys.open(Purpose::ParkedForm, sealed).ok()?;
        let parked: Parked = serde_json::from_slice(&plain).ok()?;
        let is_young = (-SKEW..=MAX_AGE).contains(&now.saturating_sub(parked.came));
        (is_young && parked.place.read() == Some(*place)).then_some(parked)
    }
}

/// The page. `sealed` is what [`Parked::seal`] made.
pub fn page(
    arrival: &Arrival,
    site: &Site,
    (app, sealed): (&str, &str),
    sentence: &str,
    record: &mut Record,
) -> Response<Answer> {
    record.decision = "deny";
    record.reason = "parked";
    let action = match arrival.place {
        Place::Site => site.endpoint("resume"),
        Place::Host(_) | Place::Port(_) => RESUME.to_owned(),
    };
    let page = ParkedPage {
        sentence,
        app,
        request_id: record.id.to_str().unwrap_or_default(),
        action,
        parked: sealed,
        sign_in: RENEWED,
        script: SIGN_IN_FIRST,
    };
    let mut response = with_script(respond::html(StatusCode::UNAUTHORIZED, &page, false), SIGN_IN_FIRST);
    let challenge = HeaderValue::from_static("Bearer realm=\"ludgate\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}
