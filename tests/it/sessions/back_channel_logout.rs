//! Sign-out that another party decides (docs/behaviour.md#sessions): the provider (back-channel,
//! front-channel), an operator; and ours that goes on to the provider. Everything that the sign-in
//! opened ends with it.

use ludgate::model::secret::Secret;
use serde_json::{Value, json};

use crate::support::{browser::Browser, message::Message, raw::Raw, until::until, world::World};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The claims of a good token for one person's sign-in.
pub fn claims(world: &World, subject: Option<&str>, session: Option<&str>, id: &str) -> Value {
    let now = world.running.internals().wall_seconds();
    let mut claims = json!({
        "iss": world.provider.issuer(), "aud": "ludgate", "iat": now, "exp": now + 120, "jti": id,
        "events": {EVENT: {}},
    });
    if let Some(subject) = subject {
        claims["sub"] = subject.into();
    }
    if let Some(session) = session {
        claims["sid"] = session.into();
    }
    claims
}

pub fn header(world: &World) -> Value {
    json!({"alg": "ES256", "typ": "logout+jwt", "kid": world.provider.key_id()})
}

pub async fn send_logout_token(world: &World, token: &str) -> Message {
    let form = format!("logout_token={token}");
    world
        .exchange(&format!(
            "POST /oauth2/backchannel_logout HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ))
        .await
}

/// The session that the provider has for a browser.
pub fn session_of(world: &World, browser: &Browser) -> String {
    let cookie = browser.value("ludgate").expect("a sign-in");
    let gateway = world.running.internals();
    let sign_in = gateway.sign_in(&cookie);
    let sign_in = sign_in.expect("signed in");
    sign_in.provider_session().expect("a sid")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_token_that_does_not_hold_ends_nothing() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let good = || claims(&world, Some("alice"), None, "an id");
    let with = |change: &dyn Fn(&mut Value, &mut Value)| {
        let (mut header, mut claims) = (header(&world), good());
        change(&mut header, &mut claims);
        world.provider.sign(&header, &claims)
    };
    let unsigned = {
        let token = with(&|header, _| header["alg"] = "none".into());
        format!("{}.", token.rsplit_once('.').expect("a signature").0)
    };
    let whole = with(&|_, _| {});
    let old = world.running.internals().wall_seconds() - 700;
    for (name, token) in [
        ("nothing", String::new()),
        ("no JWT", "a.b.c".into()),
        ("unsigned", unsigned),
        (
            "no signature",
            format!("{}.", whole.rsplit_once('.').expect("a signature").0),
        ),
        (
            "another signature",
            with(&|_, claims| claims["sub"] = "x".into())
                .rsplit_once('.')
                .map(|(_, other)| {
                    format!("{}.{other}", whole.rsplit_once('.').expect("a signature").0)
                })
                .expect("a signature"),
        ),
        ("HS256", with(&|header, _| header["alg"] = "HS256".into())),
        (
            "another kind",
            with(&|header, _| header["typ"] = "at+jwt".into()),
        ),
        ("crit", with(&|header, _| header["crit"] = json!(["exp"]))),
        (
            "another key",
            with(&|header, _| header["kid"] = "other".into()),
        ),
        (
            "another issuer",
            with(&|_, claims| claims["iss"] = "https://evil.test".into()),
        ),
        (
            "another audience",
            with(&|_, claims| claims["aud"] = "other".into()),
        ),
        (
            "no audience",
            with(&|_, claims| claims["aud"] = Value::Null),
        ),
        ("a nonce", with(&|_, claims| claims["nonce"] = "n".into())),
        ("no event", with(&|_, claims| claims["events"] = json!({}))),
        (
            "another event",
            with(&|_, claims| claims["events"] = json!({"x": {}})),
        ),
        (
            "an event that is no object",
            with(&|_, claims| claims["events"] = json!({EVENT: true})),
        ),
        ("no time", with(&|_, claims| claims["iat"] = Value::Null)),
        ("an old one", with(&|_, claims| claims["iat"] = old.into())),
        (
            "one of tomorrow",
            with(&|_, claims| claims["iat"] = (old + 90_000).into()),
        ),
        (
            "expired",
            with(&|_, claims| claims["exp"] = (old + 600).into()),
        ),
        ("no end", with(&|_, claims| claims["exp"] = Value::Null)),
        ("no id", with(&|_, claims| claims["jti"] = Value::Null)),
        ("no subject", with(&|_, claims| claims["sub"] = Value::Null)),
        ("long", "a".repeat(20_000)),
    ] {
        let answer = send_logout_token(&world, &token).await;
        assert_eq!(
            (answer.status(), answer.header("cache-control").as_deref()),
            (400, Some("no-store")),
            "{name}"
        );
        assert_eq!(answer.json()["error"], "invalid_request", "{name}");
        assert_eq!(
            alice.fetch("/apps/usr/").await.status(),
            200,
            "{name}: the session lives"
        );
    }
    let get = world
        .exchange("GET /oauth2/backchannel_logout HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(get.status(), 405);
    // The good one works, once.
    assert_eq!(send_logout_token(&world, &whole).await.status(), 200);
    assert_eq!(alice.fetch("/apps/usr/").await.status(), 401);
    assert_eq!(
        send_logout_token(&world, &whole).await.status(),
        400,
        "replayed"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_ends_one_session_or_all_of_a_person_and_what_they_opened() {
    let world = World::new().await.ready().await;
    let (mut laptop, mut phone, mut bob) = (
        world.signed_in("alice").await,
        world.signed_in("alice").await,
        world.signed_in("bob").await,
    );
    let (mut socket, mut events) = (
        world.websocket(&laptop, "grp").await,
        world.events(&laptop, "usr").await,
    );
    let mut of_phone = world.websocket(&phone, "usr").await;
    let (sid, other) = (session_of(&world, &laptop), session_of(&world, &bob));
    let token = |subject: Option<&str>, session: Option<&str>, id: &str| {
        world
            .provider
            .sign(&header(&world), &claims(&world, subject, session, id))
    };
    // A session of another user, and one that does not exist.
    assert_eq!(
        send_logout_token(&world, &token(Some("alice"), Some(&other), "1"))
            .await
            .status(),
        200
    );
    assert_eq!(
        send_logout_token(&world, &token(None, Some("unknown"), "2"))
            .await
            .status(),
        200
    );
    assert_eq!(
        (
            laptop.fetch("/apps/usr/").await.status(),
            bob.fetch("/apps/usr/").await.status()
        ),
        (200, 200)
    );
    assert_eq!(
        send_logout_token(&world, &token(None, Some(&sid), "3"))
            .await
            .status(),
        200
    );
    assert_eq!(socket.farewell().await, Some(1008));
    assert!(events.is_closed().await);
    assert_eq!(laptop.fetch("/apps/usr/").await.status(), 401);
    assert!(of_phone.carries().await, "the other sign-in goes on");
    assert_eq!(phone.fetch("/apps/usr/").await.status(), 200);
    assert_eq!(
        send_logout_token(&world, &token(Some("alice"), None, "4"))
            .await
            .status(),
        200
    );
    assert_eq!(of_phone.farewell().await, Some(1008));
    assert_eq!(
        (
            phone.fetch("/apps/usr/").await.status(),
            bob.fetch("/apps/usr/").await.status()
        ),
        (401, 200)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_the_provider_ends_the_session_that_it_names() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let sid = session_of(&world, &alice);
    let issuer = percent_encoding::utf8_percent_encode(
        world.provider.issuer(),
        percent_encoding::NON_ALPHANUMERIC,
    )
    .to_string();
    let fetch = async |query: String| {
        Raw::exchange(
            world.running.address,
            format!(
                "GET /oauth2/frontchannel_logout?{query} HTTP/1.1\r\nHost: {}\r\n\r\n",
                world.host
            ),
        )
        .await
    };
    for query in [
        String::new(),
        format!("sid={sid}"),
        format!("iss={issuer}"),
        format!("iss={issuer}&sid=x"),
        format!("iss=https%3A%2F%2Fevil.test&sid={sid}"),
        format!("iss={issuer}&sid="),
    ] {
        let answer = fetch(query.clone()).await;
        assert_eq!((answer.status(), answer.body.len()), (200, 0), "{query}");
        assert_eq!(
            alice.fetch("/apps/usr/").await.status(),
            200,
            "{query}: the session lives"
        );
    }
    let answer = fetch(format!("iss={issuer}&sid={sid}")).await;
    let policy = answer.header("content-security-policy").expect("a policy");
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; frame-ancestors {}",
            world.provider.issuer()
        )
    );
    assert_eq!(alice.fetch("/apps/usr/").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_out_here_goes_on_to_sign_out_at_the_provider() {
    for (there, expected) in [(true, "/end_session"), (false, "/apps/")] {
        let more = format!("sign_out_at_provider = {there}");
        let world = World::with("", |settings| {
            settings
                .identity
                .as_mut()
                .expect("an identity section")
                .sign_out_at_provider = there;
        })
        .await
        .ready()
        .await;
        let mut alice = world.signed_in("alice").await;
        let done = alice.sign_out().await;
        let page = done.text();
        let onward = page
            .split("content=\"0;url=")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let onward = onward.map(|onward| onward.replace("&#38;", "&"));
        assert_eq!(
            (done.status(), onward.is_some()),
            if there { (200, true) } else { (303, false) },
            "{more}"
        );
        let location = onward.or(done.header("location")).expect("onward");
        assert!(location.contains(expected), "{more}: {location}");
        assert!(
            alice.jar.is_empty() && alice.fetch("/apps/usr/").await.status() == 401,
            "here first"
        );
        if there {
            let url = url::Url::parse(&location).expect("a URL");
            let query: std::collections::BTreeMap<_, _> = url.query_pairs().collect();
            assert_eq!(
                (&*query["client_id"], &*query["post_logout_redirect_uri"]),
                ("ludgate", &*format!("http://{}/apps/", world.host))
            );
            assert!(query["id_token_hint"].split('.').count() == 3);
        }
        let log = world.log.text();
        assert!(!log.contains("id_token_hint"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_and_ends_sessions_of_a_person_of_one_browser_and_of_an_app() {
    let world = World::with("", |settings| {
        settings.admin.token = Some(Secret::new("admin-token-CANARY"))
    })
    .await
    .ready()
    .await;
    let admin = async |method: &str, query: &str, token: &str| {
        let address = world.running.admin;
        let request = format!(
            "{method} /sessions{query} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        Raw::exchange(address, request).await
    };
    let good = "admin-token-CANARY";
    let (mut laptop, mut phone, mut bob) = (
        world.signed_in("alice").await,
        world.signed_in("alice").await,
        world.signed_in("bob").await,
    );
    for (method, query, token, status) in [
        ("GET", "?subject=alice", "wrong", 401),
        ("DELETE", "?subject=alice", "wrong", 401),
        ("POST", "?subject=alice", good, 405),
        ("GET", "", good, 400),
        ("GET", "?app=grp", good, 400),
        ("DELETE", "", good, 400),
        ("DELETE", "?subject=", good, 400),
        ("DELETE", "?subject=alice&app=grp", good, 400),
        ("DELETE", "?app=UPPER", good, 400),
    ] {
        assert_eq!(
            admin(method, query, token).await.status(),
            status,
            "{method} {query}"
        );
    }
    let list = admin("GET", "?subject=alice", good).await.json();
    let sessions = list["sessions"].as_array().expect("a list").clone();
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        (&sessions[0]["apps"], &sessions[0]["groups"]),
        (&json!(["usr"]), &json!(["friends", "phusers"]))
    );
    assert_eq!(
        admin("GET", "?subject=unknown", good).await.json()["sessions"],
        json!([])
    );
    // All of one app: who had it open opens it anew, by the same sign-in.
    let mut socket = world.websocket(&laptop, "usr").await;
    let mut other = world.events(&bob, "usr").await;
    assert_eq!(admin("DELETE", "?app=usr", good).await.json()["ended"], 3);
    assert_eq!(socket.farewell().await, Some(1008));
    assert!(other.is_closed().await);
    assert_eq!(laptop.fetch("/apps/usr/").await.status(), 200);
    // One browser, then all.
    let first = sessions[0]["session"].as_str().expect("a text");
    assert_eq!(
        admin("DELETE", &format!("?subject=alice&session={first}"), good)
            .await
            .json()["ended"],
        1
    );
    assert_eq!(
        (
            laptop.fetch("/apps/usr/").await.status(),
            phone.fetch("/apps/usr/").await.status()
        ),
        (401, 200)
    );
    let mut socket = world.websocket(&phone, "usr").await;
    assert_eq!(
        admin("DELETE", "?subject=alice", good).await.json()["ended"],
        1
    );
    assert_eq!(socket.farewell().await, Some(1008));
    assert_eq!(
        (
            phone.fetch("/apps/usr/").await.status(),
            bob.fetch("/apps/usr/").await.status()
        ),
        (401, 200)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_and_being_signed_out_by_an_operator_revoke_the_refresh_token() {
    let world = World::with("", |settings| {
        settings.admin.token = Some(Secret::new("admin-token-CANARY"))
    })
    .await
    .ready()
    .await;
    let revoked = async |count: u64| {
        until("the refresh token is revoked", || {
            world.provider.calls("revoke") >= count
        })
        .await;
        assert_eq!(world.provider.calls("revoke"), count);
        world
            .until_counted(&format!(
                "ludgate_oidc_requests_total{{endpoint=\"revoke\",result=\"ok\"}} {count}"
            ))
            .await;
    };
    let mut alice = world.signed_in("alice").await;
    alice.sign_out().await;
    revoked(1).await;
    let _bob = world.signed_in("bob").await;
    let address = world.running.admin;
    let request = format!(
        "DELETE /sessions?subject=bob HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer admin-token-CANARY\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(Raw::exchange(address, request).await.status(), 200);
    revoked(2).await;
}
