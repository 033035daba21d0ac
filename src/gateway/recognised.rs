//! The session that a connection brought last. A browser sends the same cookies with all that a
//! page of an app loads, so they are taken apart and looked up once, and then only recognised.
//!
//! Recognised by a hash under a key of the connection's own: what lies in memory leads to no
//! cookie, and nobody can find another line that is taken for this one.

use std::{
    cell::RefCell,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use http::{HeaderMap, header};

use crate::{
    incoming::cookies::Presented,
    model::{app::AppId, clock::Moment, vhost::VirtualHost},
    session::{live::Live, record::AppSession},
};

/// Of one connection.
#[derive(Debug, Default)]
pub struct Recognised {
    key: RandomState,
    last: RefCell<Option<(u64, Arc<AppSession>)>>,
}

impl Recognised {
    /// The session of the same cookies as last time, if it counts for this app at this place now.
    pub fn find(
        &self,
        headers: &HeaderMap,
        app: &AppId,
        vhost: &VirtualHost,
        now: Moment,
    ) -> Option<Arc<AppSession>> {
        let mut last = self.last.borrow_mut();
        if last
            .as_ref()
            .is_some_and(|(_, session)| !session.is_live(now))
        {
            // What is over is not held for as long as somebody stays connected.
            *last = None;
        }
        let (known, session) = last.as_ref()?;
        (session.is_for(app, vhost) && self.hash(headers) == Some(*known)).then(|| session.clone())
    }

    /// Notes what these cookies led to, unless it depends on more than the session itself.
    pub fn note(&self, headers: &HeaderMap, presented: &Presented<'_>, live: &Live) {
        let Live::App(session) = live else { return };
        let alone =
            presented.app.iter().nth(1).is_none() && session.sign_in().tokens.console.is_none();
        let hash = self.hash(headers).filter(|_| alone);
        self.last.replace(hash.map(|hash| (hash, session.clone())));
    }

    fn hash(&self, headers: &HeaderMap) -> Option<u64> {
        let mut lines = headers.get_all(header::COOKIE).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => Some(self.key.hash_one(line.as_bytes())),
            (None | Some(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;
    use crate::{
        incoming::cookies,
        model::{
            clock::Clock,
            cookie_names::CookieNames,
            policy_changes::PolicyChanges,
            principal::{PersonClaims, Principal},
        },
        ops::metrics::Registry,
        session::{
            SessionSettings, Sessions, metrics::SessionMetrics, provider_tokens::ProviderTokens,
        },
    };

    fn line(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::COOKIE,
            HeaderValue::from_str(text).expect("a value"),
        )])
    }

    #[test]
    fn only_the_same_cookies_are_recognised_for_the_same_app_while_the_session_counts() {
        let (clock, manual_clock) = Clock::manual();
        let metrics = SessionMetrics::register(&Registry::new()).into();
        let sessions = Sessions::new(
            SessionSettings::default(),
            clock.clone(),
            PolicyChanges::new(),
            metrics,
        );
        let person = Arc::new(Principal::new(PersonClaims::default(), &[]));
        let (_, sign_in) = sessions
            .store
            .begin(person, ProviderTokens::default())
            .expect("random bytes");
        let (grp, other) = (
            AppId::new("grp").expect("an id"),
            AppId::new("other").expect("an id"),
        );
        let names = CookieNames::new(false, "c", &[]);
        let recognised = Recognised::default();
        let find = |headers: &HeaderMap, app| {
            recognised
                .find(headers, app, &VirtualHost::Site, clock.now())
                .is_some()
        };
        let note = |text: &str, live: &Live| {
            let headers = line(text);
            let presented =
                cookies::scan(&headers, &names, &VirtualHost::Site).expect("few cookies");
            recognised.note(&headers, &presented, live);
        };
        assert!(!find(&line("a=1"), &grp), "nothing was noted");
        let (_, session) = sessions
            .store
            .mint(&sign_in, &grp, &VirtualHost::Site)
            .expect("a session");
        note("a=1; b=2", &Live::App(session.clone()));
        assert!(find(&line("a=1; b=2"), &grp));
        for (text, app) in [("a=1; b=3", &grp), ("a=1", &grp), ("a=1; b=2", &other)] {
            assert!(!find(&line(text), app), "{text} {app}");
        }
        let mut two = line("a=1; b=2");
        two.append(header::COOKIE, HeaderValue::from_static("c=3"));
        assert!(!find(&two, &grp) && !find(&HeaderMap::new(), &grp));
        session.revoke();
        assert!(!find(&line("a=1; b=2"), &grp), "it was ended");
        let (_, session) = sessions
            .store
            .mint(&sign_in, &grp, &VirtualHost::Site)
            .expect("a session");
        note("a=1", &Live::App(session.clone()));
        manual_clock.advance(Duration::from_secs(31 * 60));
        assert!(!find(&line("a=1"), &grp), "it was not used");
        let (_, session) = sessions
            .store
            .mint(&sign_in, &grp, &VirtualHost::Site)
            .expect("a session");
        let app = names.app_at(&VirtualHost::Site);
        note(&format!("{app}=1; {app}=2"), &Live::App(session.clone()));
        assert!(
            !find(&line(&format!("{app}=1; {app}=2")), &grp),
            "which of them it is may change"
        );
        note("a=1", &Live::SignIn(sign_in.clone()));
        assert!(!find(&line("a=1"), &grp), "no session of the app");
    }
}
