//! Answers to auth requests of another proxy (docs/behaviour.md#other-proxies).

use crate::support::{
    browser::{Browser, From},
    forward_auth::trust_this_machine,
    message::Message,
    world::World,
};

async fn world() -> World {
    World::with("", trust_this_machine).await.ready().await
}

/// An auth request that describes its request by headers.
struct AuthRequest<'r> {
    /// The path of the endpoint, and the proxy's query.
    endpoint: &'r str,
    method: &'r str,
    uri: &'r str,
    from: From,
    /// Further header lines of the client.
    more: String,
}

fn about(uri: &str) -> AuthRequest<'_> {
    AuthRequest {
        endpoint: "/oauth2/auth",
        method: "GET",
        uri,
        from: From::Program,
        more: String::new(),
    }
}

impl AuthRequest<'_> {
    /// With the cookies of a browser.
    fn sent_by(mut self, person: Option<&Browser>) -> Self {
        let path = self.uri.split('?').next().unwrap_or_default();
        self.more += &person.map_or_else(String::new, |person| person.cookie_line(path));
        self
    }

    fn with(mut self, lines: &str) -> Self {
        self.more += lines;
        self
    }

    async fn asked(&self, world: &World) -> Message {
        let AuthRequest {
            endpoint,
            method,
            uri,
            from,
            more,
        } = self;
        let from = from.headers();
        let answer = world
            .exchange(&format!(
                "GET {endpoint} HTTP/1.1\r\nHost: HOST\r\nX-Forwarded-Method: {method}\r\n\
                 X-Forwarded-Proto: http\r\nX-Forwarded-Host: HOST\r\nX-Forwarded-Uri: {uri}\r\n\
                 {from}{more}Connection: close\r\n\r\n"
            ))
            .await;
        let cache = answer.header("cache-control");
        assert_eq!(cache.as_deref(), Some("no-store"), "{uri}");
        answer
    }
}

/// Status, and the reason of a refusal.
fn verdict(answer: &Message) -> (u16, String) {
    let status = answer.status();
    if status / 100 == 2 {
        assert!(answer.body.is_empty(), "{}", answer.text());
        return (status, String::new());
    }
    let reason = answer.json()["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (status, reason)
}

fn identity(answer: &Message) -> Vec<String> {
    [
        "user",
        "email",
        "preferred-username",
        "groups",
        "groups-truncated",
    ]
    .iter()
    .flat_map(|name| answer.all(&format!("x-auth-request-{name}")))
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_of_the_app_at_the_forwarded_address_decides() {
    let world = world().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let reached = world.reached();
    for (person, uri, status, reason) in [
        (Some(&alice), "/apps/grp/x", 202, ""),
        (Some(&alice), "/apps/grp/a%2Fb//c;d?e=/../f", 202, ""),
        (Some(&alice), "/apps/usr/", 202, ""),
        (Some(&alice), "/apps/mine/x", 202, ""),
        (Some(&bob), "/apps/usr/x", 202, ""),
        (Some(&bob), "/apps/grp/x", 403, "not_in_group"),
        (Some(&bob), "/apps/mine/x", 403, "not_owner"),
        (Some(&alice), "/apps/oth/x", 403, "not_in_group"),
        (None, "/apps/grp/x", 401, "anonymous"),
        (None, "/apps/pub/x", 202, ""),
        (Some(&alice), "/apps/pub/x", 202, ""),
    ] {
        let answer = about(uri).sent_by(person).asked(&world).await;
        assert_eq!(verdict(&answer), (status, reason.to_owned()), "{uri}");
        assert!(
            answer.all("set-cookie").is_empty(),
            "{uri}: no session begins"
        );
        let expected: &[&str] = match (person, uri) {
            (_, "/apps/pub/x") => &[],
            (Some(person), _) if status == 202 && std::ptr::eq(person, &alice) => {
                &["alice", "alice@example.com", "alice", "phusers,friends"]
            }
            (Some(_), _) if status == 202 => &["bob", "bob@example.com", "bob", "friends"],
            _ => &[],
        };
        assert_eq!(identity(&answer), expected, "{uri}");
    }
    assert_eq!(world.reached(), reached, "no app was asked");
    let refused = world.log.line_with("not_owner").await;
    assert_eq!(refused["access"], "owner:alice");
    let allowed = "ludgate_decisions_total{decision=\"allow\",reason=\"owner\"} 1";
    world.until_counted(allowed).await;
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_no_app_is_refused_however_it_is_written() {
    let world = world().await;
    let alice = world.signed_in("alice").await;
    for uri in [
        "",
        "/",
        "/x",
        "x",
        "*",
        "/apps",
        "/apps/",
        "/apps/grp",
        "/apps/none/x",
        "/apps/GRP/x",
        "/apps/gr%70/x",
        "/%61pps/grp/x",
        "/apps%2Fgrp/x",
        "//apps/grp/x",
        "/apps//grp/x",
        "/apps;x/grp/x",
        "/apps/grp;x/x",
        "/apps/./grp/x",
        "/apps/grp/../usr/x",
        "/apps/grp/%2e%2e/usr/x",
        "/apps/grp/%252e%252e/x",
        "/apps/grp/..%2f..%2fx",
        "/apps/grp/..;/x",
        "/apps/grp/%00",
        "/apps/grp/%0d%0aSet-Cookie:a=b",
        "/apps/grp/%zz",
        "/apps/grp/\\x",
        "/apps/grp/x y",
        "/apps/grp/x\u{e9}",
        "/apps/grp/x#/apps/pub/",
        "/apps/pub/#/../grp/x",
        "http://HOST/apps/grp/x",
        "/oauth2/auth",
        "/oauth2/userinfo",
        "/oauth2/auth/apps/grp/x",
        "/.ludgate/jwks.json",
    ] {
        let auth_request = about(uri).with(&alice.cookie_line("/apps/grp/"));
        let refused = (403, "unknown_target".to_owned());
        assert_eq!(
            verdict(&auth_request.asked(&world).await),
            refused,
            "{uri:?}"
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_or_an_api_at_an_address_is_no_app_of_another_proxy() {
    let console = crate::support::backend::Backend::start("console").await;
    let text = format!("http://{}", console.address());
    let world = World::with("", |settings| {
        trust_this_machine(settings);
        let upstream = ludgate::settings::values::upstream(&text).expect("an upstream");
        let console =
            ludgate::model::app::App::console(upstream.clone(), std::time::Duration::from_secs(5));
        let api = ludgate::model::app::App::api(upstream, std::time::Duration::from_secs(5));
        let site = std::sync::Arc::get_mut(&mut settings.site).expect("not shared yet");
        site.console = console.map(std::sync::Arc::new);
        site.api = api.map(std::sync::Arc::new);
    })
    .await;
    for uri in ["/", "/secret/x", "/api/graphql"] {
        let answer = about(uri).asked(&world).await;
        assert_eq!(
            verdict(&answer),
            (403, "unknown_target".to_owned()),
            "{uri}"
        );
    }
    assert_eq!(console.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_no_proxy_of_ours_is_told_nothing() {
    let world = World::new().await.ready().await;
    let alice = world.signed_in("alice").await;
    let cookies = alice.cookie_line("/apps/grp/");
    for endpoint in ["/oauth2/auth", "/.ludgate/auth"] {
        for uri in ["/apps/grp/x", "/apps/pub/x", "/apps/none/x"] {
            let auth_request = AuthRequest {
                endpoint,
                ..about(uri).with(&cookies)
            };
            let answer = auth_request.asked(&world).await;
            let refused = (403, "untrusted_proxy".to_owned());
            assert_eq!(verdict(&answer), refused, "{endpoint} {uri}");
            assert!(identity(&answer).is_empty());
            let by_path = format!("{endpoint}{uri}");
            let lines = format!("GET {by_path} HTTP/1.1\r\nHost: HOST\r\n{cookies}\r\n");
            assert_eq!(verdict(&world.exchange(&lines).await), refused, "{by_path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_writes_about_itself_changes_nothing() {
    let world = world().await;
    let alice = world.signed_in("alice").await;
    let forged = "X-Auth-Request-User: root\r\n\
                  X-Auth-Request-Groups: other\r\nX-Forwarded-User: root\r\n\
                  X-Forwarded-Groups: other\r\nX-Ludgate-Assertion: x\r\n\
                  X-Original-URL: /apps/pub/\r\nX-Original-URI: /apps/pub/\r\n\
                  X-Rewrite-URL: /apps/pub/\r\nX-Forwarded-Path: /apps/pub/\r\n\
                  X_Forwarded_Uri: /apps/pub/\r\nForwarded: host=evil.test\r\n";
    let answer = about("/apps/oth/x")
        .sent_by(Some(&alice))
        .with(forged)
        .asked(&world)
        .await;
    assert_eq!(verdict(&answer), (403, "not_in_group".to_owned()));
    let answer = about("/apps/grp/x").with(forged).asked(&world).await;
    assert_eq!(verdict(&answer), (401, "anonymous".to_owned()));
    let answer = about("/apps/grp/x")
        .sent_by(Some(&alice))
        .with(forged)
        .asked(&world)
        .await;
    assert_eq!(answer.all("x-auth-request-user"), ["alice"]);
    for line in [
        "X-Forwarded-Uri: /apps/pub/\r\n",
        "X-Forwarded-Host: evil.test\r\n",
        "X-Forwarded-Proto: http\r\n",
        "X-Forwarded-Method: OPTIONS\r\n",
        // An app may read these as the headers that the proxy sets.
        "X_Auth_Request_User: root\r\n",
        "X-Auth-Request_Groups: other\r\n",
    ] {
        let answer = about("/apps/grp/x")
            .sent_by(Some(&alice))
            .with(line)
            .asked(&world)
            .await;
        assert_eq!(
            verdict(&answer),
            (403, "unknown_target".to_owned()),
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_groups_narrow_and_never_widen() {
    let world = world().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    for (person, uri, query, status, reason) in [
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=phusers",
            202,
            "",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=/phusers",
            202,
            "",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=other,friends",
            202,
            "",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=,phusers,phusers,,",
            202,
            "",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=%ff%2Cphusers",
            202,
            "",
        ),
        (
            Some(&bob),
            "/apps/usr/x",
            "?allowed_groups=phusers",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=PHUSERS",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=phusers%00",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=%20phusers",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=*",
            403,
            "not_in_group",
        ),
        (
            Some(&bob),
            "/apps/grp/x",
            "?allowed_groups=friends",
            403,
            "not_in_group",
        ),
        (
            Some(&bob),
            "/apps/mine/x",
            "?allowed_groups=friends",
            403,
            "not_owner",
        ),
        (
            None,
            "/apps/grp/x",
            "?allowed_groups=phusers",
            401,
            "anonymous",
        ),
        (
            None,
            "/apps/pub/x",
            "?allowed_groups=phusers",
            403,
            "not_in_group",
        ),
        (
            Some(&alice),
            "/apps/pub/x",
            "?allowed_groups=phusers",
            403,
            "not_in_group",
        ),
        // Parameters of the request itself are not parameters of the endpoint.
        (
            Some(&alice),
            "/apps/grp/x?allowed_groups=other",
            "",
            202,
            "",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=phusers&allowed_groups=x",
            400,
            "bad_query",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_emails=x",
            400,
            "bad_query",
        ),
        (
            Some(&alice),
            "/apps/usr/x",
            "?allowed_groups=phusers&x",
            400,
            "bad_query",
        ),
    ] {
        let endpoint = format!("/oauth2/auth{query}");
        let auth_request = AuthRequest {
            endpoint: &endpoint,
            ..about(uri).sent_by(person)
        };
        let answer = auth_request.asked(&world).await;
        assert_eq!(
            verdict(&answer),
            (status, reason.to_owned()),
            "{uri} {query}"
        );
    }
}
