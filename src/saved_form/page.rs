//! The page that holds a saved form.

use askama::Template;
use http::{HeaderValue, StatusCode};

use super::sealed::FIELD;
use crate::{
    incoming::RESEND_MARK,
    model::{app::App, site::Site, vhost::VirtualHost},
    pages::{self, Page, Policy},
    route::path::RENEWED,
};

/// The page's script: the person signs in in a window of its own, then the form is sent. If no
/// window opens, the form is sent at once, and the same page is the answer if that was too early.
const SIGN_IN_FIRST: &str = "const form=document.querySelector('form');\
    form.querySelector('button').addEventListener('click',event=>{\
    event.preventDefault();\
    const opened=window.open(form.querySelector('a').href,'ludgate-renew','popup,width=520,height=680');\
    let seen=0,watch=0,sent=false;event.target.disabled=true;\
    const send=()=>{clearInterval(watch);if(!sent)form.submit();sent=true};\
    if(!opened)return send();\
    addEventListener('message',message=>{\
    if(message.origin===location.origin&&message.data?.renewed===true)send()});\
    watch=setInterval(()=>{seen=opened.closed?seen+1:0;if(seen>3)send()},500)})";

/// A page with a saved form, and why the form was not sent.
#[derive(Debug)]
pub struct SavedFormPage {
    /// The status of the answer.
    pub status: StatusCode,
    /// Why, in one sentence.
    pub sentence: String,
    /// The title of the app.
    pub app: String,
    /// The sealed form.
    pub sealed: String,
    /// Where the person signs in first.
    pub sign_in: String,
}

/// Where a person signs in before a form is sent to this app.
pub(super) fn sign_in_at(app: &App) -> String {
    match &app.spec.authentication {
        Some(requirement) => format!("{RENEWED}?{}", pages::parameters(requirement)),
        None => RENEWED.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "saved_form.html")]
struct SavedFormTemplate<'p> {
    status: String,
    sentence: &'p str,
    app: &'p str,
    request_id: &'p str,
    action: String,
    field: &'static str,
    sealed: &'p str,
    sign_in: &'p str,
    script: &'static str,
}

impl SavedFormPage {
    /// Renders it at the address that the form was sent to.
    pub fn render(&self, site: &Site, vhost: &VirtualHost, target: &str, id: &HeaderValue) -> Page {
        let separator = if target.contains('?') { '&' } else { '?' };
        let template = SavedFormTemplate {
            status: self.status.to_string(),
            sentence: &self.sentence,
            app: &self.app,
            request_id: id.to_str().unwrap_or_default(),
            action: site.url(vhost, &format!("{target}{separator}{RESEND_MARK}")),
            field: FIELD,
            sealed: &self.sealed,
            sign_in: &self.sign_in,
            script: SIGN_IN_FIRST,
        };
        // The app's answer may redirect anywhere, and browsers hold the redirects of a form to the
        // page's `form-action`.
        Page::new(self.status, &template, Policy::Forms(SIGN_IN_FIRST))
    }
}
