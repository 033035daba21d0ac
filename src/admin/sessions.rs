//! `/sessions`: lists sign-ins, and revokes those of a person, a single one, or all of an app.

use http::{StatusCode, Uri};
use serde_json::json;

use crate::{
    gateway::Gateway,
    model::app::AppId,
    ops::admin::{self, Reply, text},
    session::record::SignIn,
};

/// The sessions that a query selects.
enum SessionSelector {
    /// All sign-ins of a person.
    Subject(String),
    /// One sign-in of a person, by the first eight digits of its key, as in the log.
    Session(String, String),
    /// All sessions of an app.
    App(AppId),
}

impl SessionSelector {
    fn parse(uri: &Uri) -> Option<SessionSelector> {
        let query = uri.query().unwrap_or_default();
        let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        match *pairs {
            [("subject", subject)] if !subject.is_empty() => {
                Some(SessionSelector::Subject(subject.to_owned()))
            }
            [("subject", subject), ("session", session)] => Some(SessionSelector::Session(
                subject.to_owned(),
                session.to_owned(),
            )),
            [("app", app)] => AppId::new(app).map(SessionSelector::App),
            _ => None,
        }
    }
}

/// `GET /sessions?subject=…`: the sign-ins of a person.
pub(super) async fn list(gateway: &Gateway, uri: &Uri) -> Reply {
    let Some(SessionSelector::Subject(subject)) = SessionSelector::parse(uri) else {
        return selector_required();
    };
    if gateway
        .sessions
        .bring_all_of(Some(&subject), None)
        .await
        .is_err()
    {
        return store_unavailable();
    }
    let now = gateway.clock.now();
    let list: Vec<_> = gateway
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
    admin::json(&json!({ "subject": subject, "sessions": list }))
}

/// `DELETE /sessions?…`. Streams of these sessions end too.
pub(super) async fn end(gateway: &Gateway, uri: &Uri) -> Reply {
    let sessions = &gateway.sessions;
    let end = |subject: &str, is_meant: &dyn Fn(&SignIn) -> bool| {
        let theirs = sessions.of(subject);
        let meant = theirs.iter().filter(|sign_in| is_meant(sign_in));
        let ended = meant.inspect(|sign_in| {
            sessions.end(sign_in);
            gateway.revoke_at_provider(sign_in);
        });
        ended.count()
    };
    let which = SessionSelector::parse(uri);
    let known = match &which {
        Some(SessionSelector::Subject(subject) | SessionSelector::Session(subject, _)) => {
            sessions.bring_all_of(Some(subject), None).await
        }
        Some(SessionSelector::App(_)) | None => Ok(()),
    };
    let ended = match &which {
        Some(SessionSelector::Subject(subject)) => end(subject, &|_| true),
        Some(SessionSelector::Session(subject, session)) => {
            end(subject, &|sign_in| sign_in.key().short() == *session)
        }
        Some(SessionSelector::App(app)) => sessions.end_of_app(app).await,
        None => return selector_required(),
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
    let what = "the session store cannot be asked now; what is in the memory of this process was looked at alone\n";
    text(StatusCode::SERVICE_UNAVAILABLE, what)
}

fn selector_required() -> Reply {
    let known = "say which: ?subject=…, ?subject=…&session=… (the first eight digits), or for DELETE ?app=…\n";
    text(StatusCode::BAD_REQUEST, known)
}
