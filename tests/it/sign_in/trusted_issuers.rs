//! Bearer tokens of other issuers: their accounts reach what names them, and nothing else.

use aws_lc_rs::hmac;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ludgate::{
    demo::provider::DemoProvider,
    model::{
        access::Access,
        app::{AppId, AppSpec},
        clock::Clock,
    },
    settings::Settings,
};
use serde_json::{Value, json};

use crate::support::{
    message::Message,
    raw::Raw,
    until::until_async,
    world::{World, client, free_port},
};

/// Apps beside those of every world, at the address of `usr`.
const APPS: [(&str, &str); 4] = [
    ("deploy", "owner:ci:deploy"),
    ("builders", "group:ci:builders"),
    ("repository", "claim:/repository=a/b"),
    ("department", "claim:/department=sales"),
];

struct Rig {
    world: World,
    ci: DemoProvider,
}

fn add_apps(settings: &mut Settings) {
    let usr = settings.apps[1].clone();
    let added = APPS.map(|(id, access)| AppSpec {
        id: AppId::new(id).expect("an id"),
        access: Access::parse(access),
        ..usr.clone()
    });
    settings.apps.extend(added);
}

impl Rig {
    /// A site that trusts another issuer. `keys` are more keys of its table.
    async fn start(keys: &str) -> Rig {
        let (clock, manual_clock) = Clock::manual();
        let port = free_port();
        let people = client(&format!("127.0.0.1:{port}"));
        let provider = DemoProvider::start(people, clock.clone());
        let provider = provider.await.expect("a provider");
        let ci = DemoProvider::start(client("127.0.0.1:1"), clock.clone());
        let ci = ci.await.expect("an issuer");
        ci.publish_keys_only();
        let table = format!(
            "[[identity.trusted_issuers]]\nissuer = \"{}\"\naudiences = [\"ludgate-ci\"]\n\
             subject_prefix = \"ci:\"\nclaims = [\"/repository\"]\n{keys}\n",
            ci.issuer()
        );
        let world = World::behind(provider, clock, manual_clock, port, &table, add_apps);
        let world = world.await.ready().await;
        let rig = Rig { world, ci };
        let token = rig.token(|_, _| {});
        until_async("the other issuer is discovered", async || {
            rig.status("deploy", &token).await != 503
        })
        .await;
        rig
    }

    /// A token of the other issuer, changed before it is signed.
    fn token(&self, change: impl FnOnce(&mut Value, &mut Value)) -> String {
        let (mut header, mut claims) = self.parts();
        change(&mut header, &mut claims);
        self.ci.sign(&header, &claims)
    }

    fn parts(&self) -> (Value, Value) {
        let now = self.world.running.internals().wall_seconds();
        let header = json!({"alg": "ES256", "kid": self.ci.key_id()});
        let claims = json!({
            "iss": self.ci.issuer(), "aud": "ludgate-ci", "sub": "deploy", "iat": now,
            "exp": now + 600, "azp": "a-job", "groups": ["builders", "phusers"],
            "repository": "a/b", "department": "sales", "email": "alice@example.com",
            "email_verified": true, "preferred_username": "alice",
        });
        (header, claims)
    }

    async fn get(&self, app: &str, token: &str) -> Message {
        self.world.get_with_token(app, token).await
    }

    async fn status(&self, app: &str, token: &str) -> u16 {
        self.get(app, token).await.status()
    }

    /// The public key of the other issuer: an uncompressed point.
    async fn public_key(&self) -> Vec<u8> {
        let host = self.ci.issuer().trim_start_matches("http://");
        let request = format!("GET /keys HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let keys = Raw::exchange(host.parse().expect("an address"), request)
            .await
            .json();
        let coordinate = |name: &str| {
            let text = keys["keys"][0][name].as_str().expect("a coordinate");
            URL_SAFE_NO_PAD.decode(text).expect("base64")
        };
        [vec![4], coordinate("x"), coordinate("y")].concat()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_another_issuer_reach_only_the_apps_whose_rules_name_them() {
    let rig = Rig::start("groups_claim = \"groups\"").await;
    let token = rig.token(|_, _| {});
    rig.world
        .canaries
        .lock()
        .expect("no panic")
        .push(token.clone());
    for (app, wanted) in [
        ("pub", 200),
        ("usr", 403),
        ("grp", 403),
        ("oth", 403),
        ("mine", 403),
        ("deploy", 200),
        ("builders", 200),
        ("repository", 200),
        // The claim is not listed, so nothing is known of it.
        ("department", 403),
    ] {
        let answer = rig.get(app, &token).await;
        assert_eq!(answer.status(), wanted, "{app}: {}", answer.text());
        assert!(answer.all("set-cookie").is_empty(), "{app}");
    }
    let seen = rig.world.backend("usr").last();
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(
        seen.header("x-forwarded-user").as_deref(),
        Some("ci:deploy")
    );
    let groups = seen.header("x-forwarded-groups");
    assert_eq!(groups.as_deref(), Some("ci:builders,ci:phusers"));
    assert_eq!(seen.header("x-forwarded-email"), None);
    assert_eq!(seen.header("x-forwarded-preferred-username"), None);
    // The owner of `mine` has the same name at the configured issuer.
    let alice = rig.token(|_, claims| claims["sub"] = "alice".into());
    assert_eq!(rig.status("mine", &alice).await, 403);
    let refused = rig.get("usr", &token).await;
    assert!(
        refused.text().contains("other_issuer"),
        "{}",
        refused.text()
    );
    assert_eq!(rig.world.running.internals().session_count(), 0);
    rig.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_share_groups_and_the_rule_for_users() {
    let rig = Rig::start("groups_claim = \"groups\"\ngroup_prefix = \"\"\nare_users = true").await;
    let token = rig.token(|_, _| {});
    for (app, wanted) in [("usr", 200), ("grp", 200), ("mine", 403), ("builders", 403)] {
        assert_eq!(rig.status(app, &token).await, wanted, "{app}");
    }
    let admin = rig.token(|_, claims| claims["groups"] = json!(["admins"]));
    assert_eq!(rig.status("mine", &admin).await, 403, "never an admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_a_known_issuer_did_not_give_us_is_refused() {
    let rig = Rig::start("").await;
    let reached = rig.world.reached();
    type Change = fn(&mut Value, &mut Value);
    let cases: [(&str, Change); 14] = [
        ("the audience of people", |_, c| c["aud"] = "ludgate".into()),
        ("other audiences", |_, c| c["aud"] = json!(["x", "y"])),
        ("no audience", |_, c| c["aud"] = json!([])),
        ("an audience that is no text", |_, c| c["aud"] = 7.into()),
        ("expired", |_, c| {
            c["exp"] = (c["iat"].as_i64().expect("iat") - 61).into();
        }),
        ("no exp", |_, c| {
            c.as_object_mut().expect("claims").remove("exp");
        }),
        ("too early", |_, c| {
            c["nbf"] = (c["iat"].as_i64().expect("iat") + 61).into();
        }),
        ("no name", |_, c| c["sub"] = "".into()),
        ("an ID token", |_, c| c["nonce"] = "x".into()),
        ("a logout token", |h, _| h["typ"] = "logout+jwt".into()),
        ("alg none", |h, _| h["alg"] = "none".into()),
        ("alg HS256", |h, _| h["alg"] = "HS256".into()),
        ("alg RS256", |h, _| h["alg"] = "RS256".into()),
        ("no such key", |h, _| h["kid"] = "x".into()),
    ];
    for (name, change) in cases {
        let token = rig.token(change);
        assert_eq!(rig.status("deploy", &token).await, 401, "{name}");
    }
    let (header, claims) = rig.parts();
    // Signed by the other issuer of the two, with its own key and with the name of the right one.
    let own_key = json!({"alg": "ES256", "kid": rig.world.provider.key_id()});
    for header in [&header, &own_key] {
        let token = rig.world.provider.sign(header, &claims);
        assert_eq!(rig.status("deploy", &token).await, 401, "{header}");
        let as_people = json!({
            "iss": rig.world.provider.issuer(), "aud": "ludgate", "sub": "alice",
            "iat": claims["iat"], "exp": claims["exp"],
        });
        let token = rig.ci.sign(header, &as_people);
        assert_eq!(rig.status("usr", &token).await, 401, "{header}");
    }
    // The public key as the secret of a MAC.
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let symmetric = json!({"alg": "HS256", "kid": rig.ci.key_id()});
    let input = format!("{}.{}", encode(&symmetric), encode(&claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &rig.public_key().await);
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, input.as_bytes()));
    assert_eq!(rig.status("deploy", &format!("{input}.{tag}")).await, 401);
    let unsigned = json!({"alg": "none"});
    let input = format!("{}.{}", encode(&unsigned), encode(&claims));
    assert_eq!(rig.status("deploy", &format!("{input}.")).await, 401);
    assert_eq!(rig.world.reached(), reached);
    let several = rig.token(|_, claims| claims["aud"] = json!(["x", "ludgate-ci"]));
    assert_eq!(rig.status("deploy", &several).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_issuer_is_called_that_is_not_configured() {
    let rig = Rig::start("").await;
    let (clock, _hands) = Clock::manual();
    let stranger = DemoProvider::start(client("127.0.0.1:1"), clock);
    let stranger = stranger.await.expect("an issuer");
    let (mut header, mut claims) = rig.parts();
    header["kid"] = stranger.key_id().into();
    header["jku"] = format!("{}/keys", stranger.issuer()).into();
    let slashed = format!("{}/", rig.ci.issuer());
    for issuer in [stranger.issuer(), slashed.as_str()] {
        claims["iss"] = issuer.into();
        let token = stranger.sign(&header, &claims);
        let answer = rig.get("deploy", &token).await;
        assert_eq!(answer.status(), 401);
        assert!(answer.text().contains("anonymous"), "it is not ours");
    }
    claims["iss"] = rig.ci.issuer().into();
    let token = stranger.sign(&header, &claims);
    assert_eq!(rig.status("deploy", &token).await, 401);
    assert_eq!(
        (stranger.calls("discovery"), stranger.calls("keys")),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_issuer_rotate_and_unknown_ones_cost_one_call() {
    let rig = Rig::start("").await;
    let before = rig.ci.calls("keys");
    for n in 0..50 {
        let token = rig.token(|header, _| header["kid"] = format!("unknown-{n}").into());
        assert_eq!(rig.status("deploy", &token).await, 401);
    }
    assert_eq!(rig.ci.calls("keys") - before, 1);
    let old = rig.token(|_, _| {});
    assert_eq!(rig.status("deploy", &old).await, 200);
    let pause = std::time::Duration::from_secs(31);
    rig.world.manual_clock.advance(pause);
    rig.ci.rotate_keys(true).expect("a key");
    let new = rig.token(|_, _| {});
    assert_eq!(rig.status("deploy", &new).await, 200);
    assert_eq!(rig.status("deploy", &old).await, 401, "its key is gone");
}
