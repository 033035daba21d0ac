//! Callers by each source of identity, with a gateway and a user-info URL on loopback.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use axum::{Router, routing::get};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderName, HeaderValue, StatusCode};
use ludgate_ops::http_client::CallCounter;
use openidconnect::{IssuerUrl, JsonWebKeySetUrl};
use serde_json::json;

use super::*;

const PROXY: &str = "10.0.0.1";
const OTHER: &str = "192.0.2.1";

/// A gateway that publishes one key, and a user-info URL that knows the token `good`.
struct Neighbour {
    url: String,
    pair: EcdsaKeyPair,
    asked: Arc<AtomicUsize>,
    /// How often the keys were asked for.
    fetched: Arc<AtomicUsize>,
    /// Whether it has no keys to give.
    is_out_of_order: Arc<AtomicBool>,
}

impl Neighbour {
    async fn start() -> Neighbour {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = pair.public_key().as_ref().to_vec();
        let keys = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one",
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]),
            "y": URL_SAFE_NO_PAD.encode(&point[33..65]),
        }] });
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let user_info = move |headers: HeaderMap| {
            count.fetch_add(1, Ordering::Relaxed);
            let is_good = headers[header::AUTHORIZATION] == "Bearer good";
            let answer = json!({
                "username": "rachel",
                "uid": 1101,
                "gid": 1101,
                "groups": [{ "name": "rachel", "id": 1101 }],
            });
            async move {
                match is_good {
                    true => (StatusCode::OK, answer.to_string()),
                    false => (StatusCode::UNAUTHORIZED, String::new()),
                }
            }
        };
        let (fetched, is_out_of_order) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (fetches, is_broken) = (fetched.clone(), is_out_of_order.clone());
        let keys = move || {
            fetches.fetch_add(1, Ordering::Relaxed);
            let status = match is_broken.load(Ordering::Relaxed) {
                true => StatusCode::SERVICE_UNAVAILABLE,
                false => StatusCode::OK,
            };
            let keys = keys.to_string();
            async move { (status, [(header::CONTENT_TYPE, "application/json")], keys) }
        };
        let router = Router::new()
            .route("/jwks.json", get(keys))
            .route("/user-info", get(user_info));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Neighbour {
            url,
            pair,
            asked,
            fetched,
            is_out_of_order,
        }
    }

    fn callers(&self) -> LabCallers {
        self.callers_by(Clock::system())
    }

    fn callers_by(&self, clock: Clock) -> LabCallers {
        let settings = CallerSettings {
            claims: ClaimNames::default(),
            scopes: ScopeRules {
                notebook: vec![ScopeRule::User],
                files: Vec::new(),
                hub: vec![ScopeRule::Name("hub".to_owned())],
                admin: vec![ScopeRule::Group(GroupName::new("admins").unwrap())],
            },
            headers: TrustedHeaderSettings {
                peers: vec!["10.0.0.0/8".parse().unwrap()],
                ..TrustedHeaderSettings::default()
            },
            assertion: Some(AssertionSettings {
                jwks: JsonWebKeySetUrl::new(format!("{}/jwks.json", self.url)).unwrap(),
                issuer: IssuerUrl::new("https://hub.example.com".to_owned()).unwrap(),
                audience: "labs".to_owned(),
            }),
            user_info: Some(format!("{}/user-info", self.url).parse().unwrap()),
        };
        let http = HttpClient::new(None, CallCounter::default()).unwrap();
        LabCallers::new(settings, None, Arc::new(http), clock)
    }

    /// A signed assertion; `changed` replaces claims.
    fn assertion(&self, key: &str, changed: &Value) -> String {
        let now = Clock::system().wall_seconds();
        let mut claims = json!({
            "iss": "https://hub.example.com",
            "aud": "labs",
            "sub": "4711",
            "preferred_username": "rachel",
            "groups": ["admins"],
            "iat": now,
            "exp": now + 300,
        });
        for (name, value) in changed.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": key });
        let input = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.pair.sign(&SystemRandom::new(), input.as_bytes());
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature.unwrap()))
    }
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    fields.collect()
}

async fn identify(
    callers: &LabCallers,
    peer: &str,
    fields: &[(&str, &str)],
) -> Result<LabCaller, LabError> {
    let peer = peer.parse().unwrap();
    callers.identify(&headers(fields), peer).await
}

#[tokio::test]
async fn an_assertion_of_the_gateway_names_the_caller_from_any_peer() {
    let gateway = Neighbour::start().await;
    let callers = gateway.callers();
    let assertion = gateway.assertion("one", &json!({}));
    // What a client wrote in a trusted header counts for nothing beside it.
    let fields = [
        ("x-ludgate-assertion", assertion.as_str()),
        ("x-auth-request-user", "hub"),
        ("authorization", "Bearer good"),
    ];
    let caller = identify(&callers, OTHER, &fields).await.unwrap();
    assert_eq!(caller.username, "rachel");
    let expected = [LabScope::Notebook, LabScope::Admin];
    assert_eq!(caller.scopes, expected.into_iter().collect());
    assert!(caller.token.unwrap().matches(b"good"));
}

#[tokio::test]
async fn assertions_of_others_for_others_or_of_another_time_are_refused() {
    let gateway = Neighbour::start().await;
    let stranger = Neighbour::start().await;
    let callers = gateway.callers();
    let now = Clock::system().wall_seconds();
    let mut refused = vec![stranger.assertion("one", &json!({})), "a.b.c".to_owned()];
    for changed in [
        json!({ "aud": "mlflow" }),
        json!({ "iss": "https://other.example.com" }),
        json!({ "exp": now - 120 }),
        json!({ "iat": now + 120, "exp": now + 300 }),
        json!({ "exp": now + 3600 }),
        json!({ "preferred_username": null }),
    ] {
        refused.push(gateway.assertion("one", &changed));
    }
    refused.push(gateway.assertion("two", &json!({})));
    for assertion in refused {
        let fields = [("x-ludgate-assertion", assertion.as_str())];
        let caller = identify(&callers, PROXY, &fields).await;
        assert_eq!(caller.unwrap_err(), LabError::InvalidToken, "{assertion}");
    }
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_are_asked_for_again_soon_and_known_ones_stay() {
    let gateway = Neighbour::start().await;
    let (clock, manual) = Clock::manual();
    let callers = gateway.callers_by(clock.clone());
    let fetched = || gateway.fetched.load(Ordering::Relaxed);
    let set_broken = |is_broken| gateway.is_out_of_order.store(is_broken, Ordering::Relaxed);
    let verified = async |key: &str| {
        let now = clock.wall_seconds();
        let assertion = gateway.assertion(key, &json!({ "iat": now, "exp": now + 300 }));
        let fields = [("x-ludgate-assertion", assertion.as_str())];
        identify(&callers, OTHER, &fields).await.map(|_| ())
    };
    let unavailable = |verified| matches!(verified, Err(LabError::Unavailable(_)));

    set_broken(true);
    assert!(unavailable(verified("one").await));
    set_broken(false);
    assert!(unavailable(verified("one").await));
    assert_eq!(fetched(), 1);
    manual.advance(Duration::from_secs(5));
    assert_eq!(verified("one").await, Ok(()));
    assert_eq!(fetched(), 2);

    set_broken(true);
    manual.advance(Duration::from_secs(3600));
    assert_eq!(verified("one").await, Ok(()));
    assert_eq!(verified("one").await, Ok(()));
    assert_eq!(fetched(), 3);
    manual.advance(Duration::from_secs(5));
    assert_eq!(verified("one").await, Ok(()));
    assert_eq!(fetched(), 4);

    // A made-up key id costs a call only after a pause.
    set_broken(false);
    manual.advance(Duration::from_secs(5));
    for _ in 0..3 {
        assert_eq!(verified("two").await, Err(LabError::InvalidToken));
    }
    assert_eq!(fetched(), 5);
}

#[tokio::test]
async fn trusted_headers_count_from_listed_peers_only() {
    let callers = Neighbour::start().await.callers();
    let fields = [("x-auth-request-user", "hub")];
    let caller = identify(&callers, PROXY, &fields).await.unwrap();
    assert!(caller.require(LabScope::Hub).is_ok());
    assert!(caller.require(LabScope::Admin).is_err());
    let forged = identify(&callers, OTHER, &fields).await;
    assert_eq!(forged.unwrap_err(), LabError::InvalidToken);
}

#[tokio::test]
async fn without_an_identity_there_is_no_caller() {
    let callers = Neighbour::start().await.callers();
    for fields in [&[] as &[_], &[("authorization", "Bearer good")]] {
        let caller = identify(&callers, PROXY, fields).await;
        assert_eq!(caller.unwrap_err(), LabError::InvalidToken);
    }
}

#[tokio::test]
async fn uid_and_gid_are_asked_for_once_per_token_and_only_if_they_are_needed() {
    let neighbour = Neighbour::start().await;
    let callers = neighbour.callers();
    let caller = |username: &str, token: &str| LabCaller {
        username: username.to_owned(),
        scopes: [LabScope::Notebook].into_iter().collect(),
        token: Some(Secret::new(token)),
        user: None,
    };
    let both = tokio::join!(
        callers.complete(caller("rachel", "good")),
        callers.complete(caller("rachel", "good")),
    );
    for completed in [both.0, both.1] {
        let user = completed.unwrap().user.unwrap();
        assert_eq!((user.uid, user.gid, user.groups.len()), (1101, 1101, 1));
    }
    assert_eq!(neighbour.asked.load(Ordering::Relaxed), 1);
    // The token of another person.
    let other = callers.complete(caller("ross", "good")).await;
    assert_eq!(other.unwrap_err(), LabError::PermissionDenied);
    let refused = callers.complete(caller("rachel", "bad")).await;
    assert_eq!(refused.unwrap_err(), LabError::InvalidToken);
    let no_token = LabCaller {
        token: None,
        ..caller("rachel", "")
    };
    assert!(callers.complete(no_token).await.unwrap().user.is_none());
}
