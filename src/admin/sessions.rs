//! `/sessions`: lists the sign-ins of a person, and revokes all or one of them, or all sessions of
//! an app.

use http::{StatusCode, Uri};
use serde_json::json;

use crate::{
    gateway::Gateway,
    model::app::AppId,
    ops::admin::{self, Reply, text},
    session::record::SignIn,
};

/// The sessions that a request selects.
enum Which {
    /// All sign-ins of a person.
    Subject(String),
    /// One sign-in of a person, by the beginning of its key as the log shows it.
    Session(String, String),
    /// All sessions of an app.
    App(AppId),
}

impl Which {
    fn parse(uri: &Uri) -> Option<Which> {
        let query = uri.query().unwrap_or_default();
        let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        match *pairs {
            [("subject", subject)] if !subject.is_empty() => {
                Some(Which::Subject(subject.to_owned()))
            }
            [("subject", subject), ("session", session)] => {
                Some(Which::Session(subject.to_owned(), session.to_owned()))
            }
            [("app", app)] => app_id(app).map(Which::App),
            _ => None,
        }
    }
}

/// The id of an app, of a viewer, of an installation, or of a lab.
fn app_id(text: &str) -> Option<AppId> {
    match text.split_once('/') {
        Some(("", installation)) => {
            let (namespace, name) = installation.split_once('/')?;
            AppId::for_installation(namespace, name)
        }
        Some((namespace, name)) => AppId::for_viewer(namespace, name),
        None => match text.strip_prefix("lab:") {
            Some(username) => AppId::for_lab(username),
            None => AppId::new(text),
        },
    }
}

/// `GET /sessions?subject=…`.
pub(super) async fn list(gateway: &Gateway, uri: &Uri) -> Reply {
    let Some(Which::Subject(subject)) = Which::parse(uri) else {
        return usage_error();
    };
    if gateway
        .sessions
        .replication
        .load_by_subject(Some(&subject), None)
        .await
        .is_err()
    {
        return store_unavailable();
    }
    let now = gateway.clock.now();
    let list: Vec<_> = gateway
        .sessions
        .store.live_sign_ins(&subject)
        .iter()
        .map(|sign_in| {
            let left = sign_in.remaining(now);
            json!({
                "session": sign_in.key().short(),
                "apps": sign_in.apps().iter().map(AppId::as_str).collect::<Vec<_>>(),
                "groups": sign_in.principal().groups().iter().map(|group| group.as_str()).collect::<Vec<_>>(),
                "ends_when_idle_for_seconds": left.idle / 1000,
                "ends_in_seconds": left.absolute / 1000,
            })
        })
        .collect();
    admin::json(&json!({ "subject": subject, "sessions": list }))
}

/// `DELETE /sessions?…`: revokes sessions, and with them their open streams.
pub(super) async fn end(gateway: &Gateway, uri: &Uri) -> Reply {
    let sessions = &gateway.sessions;
    let end = |subject: &str, is_meant: &dyn Fn(&SignIn) -> bool| {
        let theirs = sessions.store.live_sign_ins(subject);
        let meant = theirs.iter().filter(|sign_in| is_meant(sign_in));
        let ended = meant.inspect(|sign_in| {
            sessions.store.revoke(sign_in);
            gateway.revoke_at_provider(sign_in);
        });
        ended.count()
    };
    let which = Which::parse(uri);
    let known = match &which {
        Some(Which::Subject(subject) | Which::Session(subject, _)) => {
            sessions
                .replication
                .load_by_subject(Some(subject), None)
                .await
        }
        Some(Which::App(_)) | None => Ok(()),
    };
    let ended = match &which {
        Some(Which::Subject(subject)) => end(subject, &|_| true),
        Some(Which::Session(subject, session)) => {
            end(subject, &|sign_in| sign_in.key().short() == *session)
        }
        Some(Which::App(app)) => sessions.revoker.revoke_app(app).await,
        None => return usage_error(),
    };
    let query = uri.query().unwrap_or_default();
    tracing::info!(target: "audit", event = "revoked", query, ended);
    if known.is_err() {
        store_unavailable()
    } else {
        admin::json(&json!({ "ended": ended }))
    }
}

fn store_unavailable() -> Reply {
    let what = "The session store is unavailable. Only the sessions in the memory of this process were searched.\n";
    text(StatusCode::SERVICE_UNAVAILABLE, what)
}

fn usage_error() -> Reply {
    let known =
        "Expected ?subject=…, ?subject=…&session=… (first eight digits), or for DELETE ?app=….\n";
    text(StatusCode::BAD_REQUEST, known)
}
