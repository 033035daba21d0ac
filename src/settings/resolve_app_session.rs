//! Keys of `[[apps]]` about the sessions of the app's users.

use std::time::Duration;

use super::section::ConfigSection;
use crate::model::{
    app::Isolation,
    session_policy::{KeepAlive, SessionPolicy},
};

/// Replicas exchange the time of use once a minute: a shorter idle time would end sessions that are
/// in use at another replica.
const MIN_IDLE: Duration = Duration::from_secs(5 * 60);

/// The sessions of an app; `idle` is that of all sessions.
pub(super) fn session_policy(
    app: &ConfigSection<'_>,
    isolation: Isolation,
    idle: Duration,
) -> SessionPolicy {
    let keep_alive = app.required_or("keep_alive", KeepAlive::Used, |text| match text {
        "used" => Ok(KeepAlive::Used),
        "open" => Ok(KeepAlive::Open),
        _ => Err(format!("{text:?} is neither used nor open")),
    });
    let own_idle = app.duration("idle");
    if let Some(own) = own_idle {
        check_idle(app, own, isolation, idle);
    }
    SessionPolicy {
        keep_alive,
        idle: own_idle,
        has_notice: app.switch("session_notice").unwrap_or(false),
    }
}

fn check_idle(app: &ConfigSection<'_>, own: Duration, isolation: Isolation, idle: Duration) {
    if isolation != Isolation::Host {
        let what = "needs isolation = \"host\": on a path the sign-in begins the session again";
        app.wrong("idle", what, None);
    }
    if own < MIN_IDLE {
        app.wrong("idle", "must be at least 5m", None);
    }
    if own > idle {
        let what = "must not be longer than session.idle, after which the sign-in itself expires";
        let instead = "for pages that stay open: keep_alive = \"open\"";
        app.wrong("idle", what, Some(instead.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    /// The policy of an app with these keys, or the errors.
    fn read(session: &str, keys: &str) -> Result<SessionPolicy, Vec<String>> {
        let text = format!(
            "[site]\nurl = \"https://hub.example.com\"\napps_domain = \"apps.example.net\"\n\
             [session]\n{session}\n[[apps]]\nid = \"a\"\nupstream = \"http://127.0.0.1:1\"\n\
             access = \"user\"\n{keys}\n"
        );
        let read = settings::parse(&text, std::path::Path::new("."), std::iter::empty());
        let shown = |error: settings::ConfigError| format!("{}: {}", error.key, error.what);
        match read {
            Ok(settings) => Ok(settings.apps[0].session),
            Err(errors) => Err(errors.0.into_iter().map(shown).collect()),
        }
    }

    #[test]
    fn each_key_is_read_and_has_a_default() {
        assert_eq!(read("", ""), Ok(SessionPolicy::default()));
        let keys = "keep_alive = \"open\"\nsession_notice = true\nidle = \"10m\"\n\
                    isolation = \"host\"";
        let expected = SessionPolicy {
            keep_alive: KeepAlive::Open,
            idle: Some(Duration::from_secs(600)),
            has_notice: true,
        };
        assert_eq!(read("", keys), Ok(expected));
        assert_eq!(
            read("", "keep_alive = \"used\"\nsession_notice = false"),
            Ok(SessionPolicy::default())
        );
    }

    #[test]
    fn an_idle_time_is_for_hosts_and_within_that_of_all_sessions() {
        let host = "isolation = \"host\"\n";
        for (session, idle) in [("", "5m"), ("", "30m"), ("idle = \"8h\"", "8h")] {
            let keys = format!("{host}idle = \"{idle}\"");
            assert!(read(session, &keys).is_ok(), "{session} {idle}");
        }
        for (session, keys, expected) in [
            (
                "",
                "idle = \"10m\"".to_owned(),
                "needs isolation = \"host\"",
            ),
            ("", format!("{host}idle = \"4m\""), "must be at least 5m"),
            ("", format!("{host}idle = \"0s\""), "must be at least 5m"),
            (
                "",
                format!("{host}idle = \"31m\""),
                "must not be longer than session.idle",
            ),
            (
                "idle = \"10m\"",
                format!("{host}idle = \"11m\""),
                "must not be longer than session.idle",
            ),
            ("", format!("{host}idle = 10"), "expected a duration"),
            (
                "",
                "keep_alive = \"always\"".to_owned(),
                "is neither used nor open",
            ),
            ("", "keep_alive = true".to_owned(), "expected text"),
            (
                "",
                "session_notice = \"yes\"".to_owned(),
                "expected true or false",
            ),
        ] {
            let errors = read(session, &keys).expect_err("an error");
            assert_eq!(errors.len(), 1, "{keys}: {errors:?}");
            let name = keys.lines().last().and_then(|line| line.split(' ').next());
            let key = format!("apps[0].{}: ", name.expect("a key"));
            assert!(errors[0].starts_with(&key), "{keys}: {errors:?}");
            assert!(errors[0].contains(expected), "{keys}: {errors:?}");
        }
    }
}
