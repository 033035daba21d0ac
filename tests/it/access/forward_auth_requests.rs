//! Which request a proxy asks about, who sent it, and what the session comes to
//! (docs/behaviour.md#other-proxies).

use std::time::Duration;

use super::rule_apps::add_apps;
use crate::support::{
    browser::From, forward_auth::trust_this_machine, message::Message, origins::Origins,
    world::World,
};

async fn world() -> World {
    World::with("", |settings| {
        trust_this_machine(settings);
        add_apps(settings);
    })
    .await
    .ready()
    .await
}

/// The lines that describe a request, as nginx, Traefik and Caddy send them.
fn described(method: &str, host: &str, uri: &str) -> String {
    format!(
        "X-Forwarded-Method: {method}\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: {host}\r\n\
         X-Forwarded-Uri: {uri}\r\n"
    )
}

async fn send_auth_request(world: &World, line: &str, host: &str, more: &str) -> Message {
    let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    let mut raw = world.raw().await;
    raw.send(head.replace("HOST", &world.host)).await;
    let answer = raw.reader.message(line.starts_with("HEAD ")).await;
    answer.expect("readable").expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auth_request_names_its_request_once_and_completely() {
    let world = world().await;
    let alice = world.signed_in("alice").await;
    let cookies = alice.cookie_line("/apps/grp/");
    let whole = described("GET", "HOST", "/apps/grp/x");
    let whole: Vec<&str> = whole.split_inclusive("\r\n").collect();
    let endpoint = "GET /oauth2/auth";
    let answer = send_auth_request(&world, endpoint, "HOST", &(whole.concat() + &cookies)).await;
    assert_eq!(answer.status(), 202);
    for at in 0..whole.len() {
        let mut missing = whole.clone();
        missing.remove(at);
        let doubled = [&whole[..], &[whole[at]]].concat();
        for lines in [missing, doubled] {
            let answer =
                send_auth_request(&world, endpoint, "HOST", &(lines.concat() + &cookies)).await;
            assert_eq!(answer.status(), 403, "{lines:?}");
            assert_eq!(answer.json()["reason"], "unknown_target");
        }
    }
    for (method, host, uri) in [
        ("GET", "evil.test", "/apps/grp/x"),
        ("GET", "HOST.", "/apps/grp/x"),
        ("GET", "HOST, HOST", "/apps/grp/x"),
        ("GET", "user@HOST", "/apps/grp/x"),
        ("GET", "127.0.0.1", "/apps/grp/x"),
        ("CONNECT", "HOST", "/apps/grp/x"),
        ("TRACE", "HOST", "/apps/grp/x"),
        ("GET GET", "HOST", "/apps/grp/x"),
    ] {
        let lines = described(method, host, uri) + &cookies;
        let answer = send_auth_request(&world, endpoint, "HOST", &lines).await;
        assert_eq!(answer.status(), 403, "{method} {host}");
        assert_eq!(answer.json()["reason"], "unknown_target");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_may_write_the_request_behind_the_path() {
    let world = world().await;
    let alice = world.signed_in("alice").await;
    let cookies = alice.cookie_line("/apps/grp/");
    for (line, more, status) in [
        ("GET /oauth2/auth/apps/grp/x", "", 200),
        ("GET /.ludgate/auth/apps/grp/a%2Fb?c=/../d", "", 200),
        ("POST /oauth2/auth/apps/grp/x", "Content-Length: 0\r\n", 200),
        ("HEAD /oauth2/auth/apps/grp/x", "", 200),
        ("DELETE /oauth2/auth/apps/grp/x", "", 200),
        ("GET /oauth2/auth/apps/grp/x?allowed_groups=other", "", 200),
        ("GET /oauth2/auth/apps/oth/x", "", 403),
        (
            "GET /oauth2/auth/apps/oth/x?allowed_groups=phusers",
            "",
            403,
        ),
        ("GET /oauth2/auth/", "", 403),
        ("GET /oauth2/auth//apps/grp/x", "", 403),
        ("GET /oauth2/auth/apps/grp/../pub/x", "", 403),
        ("GET /oauth2/auth/apps/grp/%2e%2e/x", "", 403),
        (
            "GET /oauth2/auth/apps/grp/x",
            "X-Forwarded-Uri: /apps/pub/\r\n",
            403,
        ),
        (
            "GET /oauth2/auth/apps/grp/x",
            "X-Forwarded-Host: HOST\r\n",
            403,
        ),
        (
            "GET /oauth2/auth/apps/grp/x",
            "X-Forwarded-Method: GET\r\n",
            403,
        ),
        (
            "GET /oauth2/auth/apps/grp/x",
            "X-Forwarded-Proto: https\r\n",
            403,
        ),
        (
            "GET /oauth2/auth/apps/grp/x",
            "X-Forwarded-Proto: http\r\n",
            200,
        ),
        ("GET /oauth2/authx/apps/grp/x", "", 404),
    ] {
        let answer = send_auth_request(&world, line, "HOST", &format!("{more}{cookies}")).await;
        assert_eq!(answer.status(), status, "{line} {more}");
    }
    assert_eq!(world.backend("grp").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_method_is_that_of_the_request() {
    let world = world().await;
    let preflight = "Origin: http://evil.test\r\nAccess-Control-Request-Method: PUT\r\n";
    for (method, uri, more, status) in [
        ("POST", "/apps/paths/hook", "", 202),
        ("GET", "/apps/paths/hook", "", 401),
        ("GET", "/apps/paths/open/x", "", 202),
        ("GET", "/apps/paths/team/x", "", 401),
        ("GET", "/apps/paths/open/%2e%2e/team/x", "", 401),
        ("OPTIONS", "/apps/cors/x", preflight, 202),
        ("GET", "/apps/cors/x", preflight, 401),
    ] {
        let lines = described(method, "HOST", uri) + more;
        let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
        assert_eq!(answer.status(), status, "{method} {uri}");
    }
    let lines = described("OPTIONS", "HOST", "/apps/cors/x") + preflight;
    for (body, status) in [
        ("Content-Length: 0\r\n\r\n", 202),
        ("Content-Length: 4\r\n\r\nbody", 401),
        ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 401),
    ] {
        let head = "GET /oauth2/auth HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n";
        let answer = world.exchange(&format!("{head}{lines}{body}")).await;
        assert_eq!(answer.status(), status, "a preflight has no body: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_replaces_path_or_method_is_refused_where_they_decide() {
    let world = world().await;
    let preflight = "Origin: http://evil.test\r\nAccess-Control-Request-Method: PUT\r\n";
    for name in [
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X_Original_Url",
    ] {
        for (method, uri, more, status) in [
            ("GET", "/apps/paths/open/x", "", 403),
            ("OPTIONS", "/apps/cors/x", preflight, 403),
            ("GET", "/apps/pub/x", "", 202),
        ] {
            let lines = format!("{}{more}{name}: /team\r\n", described(method, "HOST", uri));
            let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
            assert_eq!(answer.status(), status, "{method} {uri} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_is_a_success_even_to_a_grpc_call() {
    let world = world().await;
    let grpc = "Content-Type: application/grpc\r\n";
    let two = "Authorization: Basic YTpi\r\nAuthorization: Basic YTpj\r\n";
    let whole = described("POST", "HOST", "/apps/grp/x");
    for (line, host, more, status) in [
        ("GET /oauth2/auth", "HOST", whole.as_str(), 401),
        ("GET /oauth2/auth", "HOST", "", 403),
        ("GET /oauth2/auth?x", "HOST", "", 400),
        ("GET /oauth2/auth", "HOST", two, 400),
        ("GET /oauth2/auth", "evil.test", whole.as_str(), 421),
        ("POST /oauth2/auth/apps/grp/x", "HOST", "", 401),
        ("POST /oauth2/auth/apps/grp/%00", "HOST", "", 400),
        ("POST /.ludgate/auth/x", "HOST", "", 403),
    ] {
        let answer = send_auth_request(&world, line, host, &format!("{grpc}{more}")).await;
        assert_eq!(answer.status(), status, "{line} {host} {more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_opens_a_page_gets_the_address_to_sign_in_and_programs_do_not() {
    let world = world().await;
    let port = world.running.address.port();
    let app_host = format!("grp.localhost:{port}");
    for (from, host, uri, leads) in [
        (From::Navigation, "HOST", "/apps/grp/x?y=1", true),
        (From::Navigation, app_host.as_str(), "/x?y=1", true),
        (From::Fetch, "HOST", "/apps/grp/x", false),
        (From::Fetch, app_host.as_str(), "/x", false),
        (From::Frame, "HOST", "/apps/grp/x", false),
    ] {
        let lines = described("GET", host, uri) + from.headers();
        let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
        assert_eq!(answer.status(), 401, "{from:?} {host}");
        assert!(answer.header("www-authenticate").is_some());
        let location = answer.header("location");
        assert_eq!(location.is_some(), leads, "{from:?} {host}: {location:?}");
        let cookies = answer.all("set-cookie");
        let is_bound = leads && host != "HOST";
        assert_eq!(cookies.len(), usize::from(is_bound), "{cookies:?}");
        let Some(location) = location else { continue };
        let start = format!("http://{}/oauth2/start?rd=", world.host);
        assert!(location.starts_with(&start), "{location}");
        assert_eq!(location.contains("&bind="), is_bound, "{location}");
        let link = location.replace('&', "&#38;");
        assert!(answer.text().contains(&link), "{}", answer.text());
    }
    let post = described("POST", "HOST", "/apps/grp/x") + From::Navigation.headers();
    let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &post).await;
    assert_eq!((answer.status(), answer.header("location")), (401, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_one_host_counts_there_alone_and_not_for_other_sites_pages() {
    let world = world().await;
    let mut alice = Origins::new(&world);
    let page = format!("{}/", world.on_host("grp"));
    let (_, opened) = alice.follow(&page, "alice").await;
    assert_eq!(opened.status(), 200);
    let at_grp = page
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let at_usr = at_grp.replace("grp", "usr");
    let cookies = alice.at(&at_grp).cookie_line("/");
    let foreign = "Origin: http://evil.test\r\n";
    for (host, more, status) in [
        (&at_grp, "", 202),
        (&at_grp, From::Fetch.headers(), 202),
        (&at_grp, From::ForeignFetch.headers(), 401),
        (&at_grp, From::SiblingFetch.headers(), 401),
        (&at_grp, foreign, 401),
        (&at_usr, "", 401),
        (&world.host, "", 403),
    ] {
        let lines = format!("{}{more}{cookies}", described("GET", host, "/x"));
        let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
        assert_eq!(answer.status(), status, "{host} {more}");
    }
    let lines = format!("{}{cookies}", described("GET", &at_grp, "/x"));
    for endpoint in ["GET /.ludgate/auth", "GET /.ludgate/auth/x"] {
        let is_whole = endpoint.ends_with("/x");
        let more = if is_whole { &cookies } else { &lines };
        let answer = send_auth_request(&world, endpoint, &at_grp, more).await;
        assert_eq!(
            answer.status(),
            if is_whole { 200 } else { 202 },
            "{endpoint}"
        );
        assert_eq!(
            answer.header("x-auth-request-user").as_deref(),
            Some("alice")
        );
    }
    let seen = world.backend("grp").count();
    let answer = send_auth_request(&world, "GET /oauth2/auth", &at_grp, &lines).await;
    assert_eq!(answer.status(), 200, "on its host this path is the app's");
    assert_eq!(world.backend("grp").count(), seen + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auth_request_keeps_a_session_alive_and_a_revoked_one_counts_no_more() {
    let world = world().await;
    let mut alice = world.signed_in("alice").await;
    let cookies = alice.cookie_line("/apps/grp/");
    let lines = described("GET", "HOST", "/apps/grp/x") + &cookies;
    let sessions = world.running.internals().session_count();
    for _ in 0..4 {
        world.manual_clock.advance(Duration::from_secs(20 * 60));
        let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
        assert_eq!(answer.status(), 202);
    }
    let now = world.running.internals().session_count();
    assert!(
        now <= sessions,
        "none was begun: {sessions} before, {now} now"
    );
    assert_eq!(alice.sign_out().await.status(), 200);
    let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
    assert_eq!(answer.status(), 401, "signed out");
    let bob = world.signed_in("bob").await;
    let lines = described("GET", "HOST", "/apps/usr/x") + &bob.cookie_line("/apps/none/");
    let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
    assert_eq!(answer.status(), 202);
    world.manual_clock.advance(Duration::from_secs(30 * 60));
    let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
    assert_eq!(answer.status(), 401, "unused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_proves_a_person_and_an_invalid_one_proves_none() {
    let world = world().await;
    let token = world.provider.access_token("alice");
    for (authorization, status) in [
        (format!("Bearer {token}"), 202),
        (format!("Bearer {token}x"), 401),
        ("Basic YTpi".to_owned(), 401),
    ] {
        let lines = described("GET", "HOST", "/apps/grp/x");
        let lines = format!("{lines}Authorization: {authorization}\r\n");
        let answer = send_auth_request(&world, "GET /oauth2/auth", "HOST", &lines).await;
        assert_eq!(answer.status(), status, "{authorization}");
    }
}
