//! `/sessions`: who is signed in, and ending that: a person's, one of them, or all of an app.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;

use super::{Admin, json_text, text};
use crate::{model::app::AppId, session::record::SignIn};

/// What is asked about.
enum Which {
    /// Everything of a person.
    Subject(String),
    /// One sign-in of a person, by the beginning of its key as the log shows it.
    Session(String, String),
    /// All sessions of an app.
    App(AppId),
}

impl Which {
    fn of(request: &Request<Incoming>) -> Option<Which> {
        let query = request.uri().query().unwrap_or_default();
        let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        match *pairs {
            [("subject", subject)] if !subject.is_empty() => Some(Which::Subject(subject.to_owned())),
            [("subject", subject), ("session", session)] => {
                Some(Which::Session(subject.to_owned(), session.to_owned()))
            }
            [("app", app)] => AppId::new(app).map(Which::App),
            _ => None,
        }
    }
}

impl Admin {
    /// `GET /sessions?subject=…`.
    pub(super) async fn sessions(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let Some(Which::Subject(subject)) = Which::of(request) else { return what_is_meant() };
        if self.gateway.sessions.bring_all_of(Some(&subject), None).await.is_err() {
            return store_is_away();
        }
        let now = self.gateway.clock.now();
        let list: Vec<_> = self
            .gateway
            .sessions
            .of(&subject)
            .iter()
            .map(|sign_in| {
                let left = sign_in.time_left(now);
                json!({
                    "session": sign_in.key().short(),
                    "apps": sign_in.apps().iter().map(AppId::as_str).collect::<Vec<_>>(),
                    "groups": sign_in.principal().groups().iter().map(|group| group.as_str()).collect::<Vec<_>>(),
                    "ends_when_idle_for_seconds": left.idle / 1000,
                    "ends_in_seconds": left.absolute / 1000,
                })
            })
            .collect();
        json_text(&json!({ "subject": subject, "sessions": list }))
    }

    /// `DELETE /sessions?…`: what is open under them ends too.
    pub(super) async fn end_sessions(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let sessions = &self.gateway.sessions;
        let end = |subject: &str, is_meant: &dyn Fn(&SignIn) -> bool| {
            let theirs = sessions.of(subject);
            let meant = theirs.iter().filter(|sign_in| is_meant(sign_in));
            let ended = meant.inspect(|sign_in| {
                sessions.end(sign_in);
                self.gateway.revoke_at_provider(sign_in);
            });
            ended.count()
        };
        let which = Which::of(request);
        let known = match &which {
            Some(Which::Subject(subject) | Which::Session(subject, _)) => {
                sessions.bring_all_of(Some(subject), None).await
            }
            Some(Which::App(_)) | None => Ok(()),
        };
        let ended = match &which {
            Some(Which::Subject(subject)) => end(subject, &|_| true),
            Some(Which::Session(subject, session)) => {
                end(subject, &|sign_in| sign_in.key().short() == *session)
            }
            Some(Which::App(app)) => sessions.end_of_app(app).await,
            None => return what_is_meant(),
        };
        let query = request.uri().query().unwrap_or_default();
        tracing::info!(target: "audit", event = "revoked", query, ended);
        if known.is_err() { store_is_away() } else { json_text(&json!({ "ended": ended })) }
    }
}

fn store_is_away() -> Response<Full<Bytes>> {
    let what =
        "the session store cannot be asked now; what is in the memory of this process was looked at alone\n";
    text(StatusCode::SERVICE_UNAVAILABLE, what)
}

fn what_is_meant() -> Response<Full<Bytes>> {
    let known =
        "say which: ?subject=…, ?subject=…&session=… (the first eight digits), or for DELETE ?app=…\n";
    text(StatusCode::BAD_REQUEST, known)
}
