//! The session that a connection presented last. A browser sends the same cookies with everything
//! that a page loads, so they are scanned and looked up once, and recognised afterwards.
//!
//! The cookies are recognised by a hash under a key of the connection's own: memory holds no
//! cookie, and no client can construct another line that collides.

use std::{
    cell::RefCell,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use crate::{
    incoming::IncomingRequest,
    model::{app::AppId, clock::Moment},
    session::{live::Live, record::AppSession, usage::Usage},
};

/// The last session of one connection.
#[derive(Debug, Default)]
pub struct SessionMemo {
    key: RandomState,
    last: RefCell<Option<LastSession>>,
}

#[derive(Debug)]
struct LastSession {
    /// The hash of the cookies that presented it.
    cookies: u64,
    session: Arc<AppSession>,
    /// Shared by its requests.
    usage: Option<Usage>,
}

impl SessionMemo {
    /// The session of the same cookies as last time, if it is valid for this app and origin now.
    pub fn find(
        &self,
        request: &IncomingRequest<'_>,
        app: &AppId,
        now: Moment,
    ) -> Option<Arc<AppSession>> {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_some_and(|last| !last.session.is_live(now)) {
            // An expired session is not held for as long as the connection lives.
            *last = None;
        }
        let LastSession {
            cookies, session, ..
        } = last.as_ref()?;
        (session.is_for(app, &request.arrival.vhost) && self.hash(request) == Some(*cookies))
            .then(|| session.clone())
    }

    /// Remembers the session of these cookies, unless another cookie or the console's token matters
    /// too.
    pub fn note(&self, request: &IncomingRequest<'_>, live: &Live) {
        let (Live::App(session), Ok(cookies)) = (live, request.cookies()) else {
            return;
        };
        let alone =
            cookies.app.iter().nth(1).is_none() && session.sign_in().tokens.console.is_none();
        let hash = self.hash(request).filter(|_| alone);
        self.last.replace(hash.map(|cookies| LastSession {
            cookies,
            session: session.clone(),
            usage: None,
        }));
    }

    /// What records the use of this session: made once for the session of the last request.
    pub fn usage(&self, live: Live, make: impl FnOnce(Live) -> Usage) -> Usage {
        match (&live, &mut *self.last.borrow_mut()) {
            (Live::App(session), Some(last)) if Arc::ptr_eq(session, &last.session) => {
                last.usage.get_or_insert_with(|| make(live)).clone()
            }
            _ => make(live),
        }
    }

    fn hash(&self, request: &IncomingRequest<'_>) -> Option<u64> {
        request.cookie_line().map(|line| self.key.hash_one(line))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, header, uri::PathAndQuery};

    use super::*;
    use crate::{
        model::{
            arrival::Arrival,
            client::Client,
            clock::Clock,
            cookie_names::CookieNames,
            policy_changes::PolicyChanges,
            principal::{PersonClaims, Principal},
            site::{Site, WebOrigin},
            vhost::VirtualHost,
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

    fn request<'h>(headers: &'h HeaderMap, site: &'h Site) -> IncomingRequest<'h> {
        let target = PathAndQuery::from_static("/apps/grp/");
        let arrival = Arrival::navigation(VirtualHost::Site, target);
        let client = Client::at(std::net::Ipv4Addr::LOCALHOST.into());
        IncomingRequest::new(
            arrival,
            headers,
            site,
            HeaderValue::from_static("1"),
            client,
        )
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
        let origin = WebOrigin::new(false, "gw.test", 80);
        let site = Site::with_default_paths(origin, names.clone());
        let memo = SessionMemo::default();
        let find = |headers: &HeaderMap, app| {
            memo.find(&request(headers, &site), app, clock.now())
                .is_some()
        };
        let note = |text: &str, live: &Live| {
            let headers = line(text);
            memo.note(&request(&headers, &site), live);
        };
        assert!(!find(&line("a=1"), &grp), "nothing was noted");
        let (_, session) = sessions
            .store
            .mint(&sign_in, &grp, &VirtualHost::Site, None)
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
            .mint(&sign_in, &grp, &VirtualHost::Site, None)
            .expect("a session");
        note("a=1", &Live::App(session.clone()));
        manual_clock.advance(Duration::from_secs(31 * 60));
        assert!(!find(&line("a=1"), &grp), "it was not used");
        let (_, session) = sessions
            .store
            .mint(&sign_in, &grp, &VirtualHost::Site, None)
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
