//! Parts of a gateway for the benchmarks: a configuration with apps, a session store,
//! and signed-in users.

use std::{path::Path, sync::Arc};

use http::{Request, request::Parts};
use ludgate::{
    catalog::snapshot::Snapshot,
    model::{
        access::GroupName,
        policy_changes::PolicyChanges,
        clock::{Clock, ManualClock},
        vhost::VirtualHost,
        principal::{PersonClaims, Principal},
        site::Site,
    },
    ops::metrics::Registry,
    session::{
        self,
        metrics::SessionMetrics,
        provider_tokens::ProviderTokens, record::SignIn,
        Sessions,
    },
    settings::{self, Settings},
};

/// A configuration whose apps all have this upstream.
pub fn settings(apps: usize, upstream: &str) -> Settings {
    let mut text = String::from(
        "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\nrequests = false\n\
         [site]\nurl = \"http://127.0.0.1:8080\"\n[identity]\nissuer = \"http://127.0.0.1:9\"\n\
         client_id = \"ludgate\"\nclient_secret = \"a-secret-for-benches-only\"\n",
    );
    for number in 0..apps {
        text += &format!("[[apps]]\nid = \"app-{number}\"\naccess = \"group:phusers\"\nupstream = \"{upstream}\"\n");
    }
    text += &format!("[[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"{upstream}\"\n");
    settings::parse(&text, Path::new("."), std::iter::empty()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A snapshot of the site with so many apps.
pub fn snapshot(apps: usize) -> Snapshot {
    let settings = settings(apps, "http://127.0.0.1:9");
    Snapshot::new(settings.site, settings.apps)
}

/// A user in five groups.
pub fn person() -> Arc<Principal> {
    numbered_person(0)
}

/// One of many users with different subjects, because the sign-ins of one user are limited.
pub fn numbered_person(number: usize) -> Arc<Principal> {
    let groups = ["friends", "phusers", "staff", "students", "users"];
    let claims = PersonClaims {
        subject: format!("0f8fad5b-d9cb-469f-a165-{number:012}"),
        name: Some("Alice Adams".into()),
        email: Some("alice@example.test".into()),
        preferred_username: Some("alice".into()),
        groups: groups.iter().filter_map(|name| GroupName::new(name)).collect(),
        ..PersonClaims::default()
    };
    Arc::new(Principal::new(claims, &[]))
}

/// A session store with a manual clock. `bytes` limits sign-ins and app sessions separately.
pub fn sessions(bytes: u64) -> (Sessions, Clock, ManualClock) {
    let (clock, manual_clock) = Clock::manual();
    let settings = session::SessionSettings { sign_in_bytes: bytes, app_session_bytes: bytes, ..session::SessionSettings::default() };
    (Sessions::new(settings, clock.clone(), PolicyChanges::new(), SessionMetrics::register(&Registry::new()).into()), clock, manual_clock)
}

/// Signs a user in and opens an app. Returns the sign-in, and the values of both cookies.
pub fn sign_in(sessions: &Sessions, snapshot: &Snapshot, app: &str) -> (Arc<SignIn>, String, String) {
    sign_in_of(person(), sessions, snapshot, app)
}

/// The same for a given user.
pub fn sign_in_of(
    person: Arc<Principal>,
    sessions: &Sessions,
    snapshot: &Snapshot,
    app: &str,
) -> (Arc<SignIn>, String, String) {
    let (id, sign_in) = sessions.store.begin(person, ProviderTokens::default()).expect("random bytes");
    let app = snapshot.find(app).expect("an app");
    let (session, _) = sessions.store.mint(&sign_in, app.id(), &VirtualHost::Site, None).expect("random bytes");
    (sign_in, id.as_str().to_owned(), session.as_str().to_owned())
}

/// A request that a browser sends from a page of an app.
pub fn request(site: &Site, path: &str, sign_in: &str, session: &str) -> Parts {
    let cookies = &site.cookies;
    let line = format!(
        "theme=dark; {}={sign_in}; {}={session}; _xsrf=2|7586b241|47c876d965112a2f547c63c95cbc44b1|1402910163",
        cookies.sign_in,
        cookies.app_at(&VirtualHost::Site)
    );
    let request = Request::get(path)
        .header("host", "127.0.0.1:8080")
        .header("connection", "keep-alive")
        .header("sec-ch-ua-platform", "\"Linux\"")
        .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36")
        .header("sec-ch-ua-mobile", "?0")
        .header("accept", "*/*")
        .header("sec-fetch-site", "same-origin")
        .header("sec-fetch-mode", "cors")
        .header("sec-fetch-dest", "empty")
        .header("referer", "http://127.0.0.1:8080/apps/app-3/lab")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .header("accept-language", "en-GB,en;q=0.9")
        .header("cookie", line);
    request.body(()).expect("a request").into_parts().0
}
