//! Answers of an introspection endpoint.

use std::sync::atomic::AtomicBool;

use openidconnect::IssuerUrl;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::*;
use crate::{
    model::{
        access::{GroupName, clause::ClaimPointer},
        clock::Clock,
    },
    oidc::{
        account_mapping::AccountMapping,
        provider::{DiscoveryScope, Provider},
        settings::IntrospectionSettings,
    },
    ops::http_client::{CallCounter, HttpClient},
};

const NOW: i64 = 1_000_000;

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: IssuerUrl::new("https://id.test".to_owned()).expect("a URL"),
        accounts: AccountMapping::default(),
        name: None,
        client_id: "ludgate".to_owned(),
        client_secret: None,
        scopes: Vec::new(),
        groups_claim: "groups".to_owned(),
        claims: ClaimPointer::new("/department").into_iter().collect(),
        directory: None,
        admin_groups: GroupName::new("admins").into_iter().collect(),
        audiences: vec!["hub".to_owned()],
        sign_out_at_provider: true,
        ca: None,
        providers: Vec::new(),
        trusted_issuers: Vec::new(),
        introspection: IntrospectionSettings {
            url: None,
            scopes: vec!["apps".to_owned()],
        },
    }
}

fn answer() -> Map<String, Value> {
    let answer = json!({
        "active": true, "iss": "https://id.test", "aud": "hub", "sub": "alice",
        "scope": "openid apps", "exp": NOW + 60, "token_type": "Bearer",
    });
    answer.as_object().expect("an object").clone()
}

fn with(changes: &Value) -> Map<String, Value> {
    let mut answer = answer();
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            answer.remove(name);
        } else {
            answer.insert(name.clone(), value.clone());
        }
    }
    answer
}

#[test]
fn an_answer_counts_if_it_is_active_now_and_for_us() {
    for (changes, wanted) in [
        (json!({}), true),
        (json!({ "active": false }), false),
        (json!({ "active": "true" }), false),
        (json!({ "active": 1 }), false),
        (json!({ "active": null }), false),
        (json!({ "iss": null }), true),
        (json!({ "iss": "https://id.test/" }), false),
        (json!({ "iss": 7 }), false),
        (json!({ "aud": ["x", "hub"] }), true),
        (json!({ "aud": ["x"] }), false),
        (json!({ "aud": [] }), false),
        (json!({ "aud": "ludgate" }), false),
        (json!({ "aud": 7, "client_id": "ludgate" }), false),
        (json!({ "aud": null }), false),
        (json!({ "aud": null, "client_id": "ludgate" }), true),
        (json!({ "aud": null, "client_id": "hub" }), true),
        (json!({ "aud": null, "client_id": "other" }), false),
        (json!({ "scope": "apps" }), true),
        (json!({ "scope": "openid" }), false),
        (json!({ "scope": "myapps apps2" }), false),
        (json!({ "scope": ["apps"] }), false),
        (json!({ "scope": null }), false),
        (json!({ "sub": null }), false),
        (json!({ "sub": "" }), false),
        (json!({ "sub": 7 }), false),
        (json!({ "exp": null }), true),
        (json!({ "exp": NOW }), false),
        (json!({ "exp": "9999999999" }), false),
        (json!({ "nbf": NOW + SKEW }), true),
        (json!({ "nbf": NOW + SKEW + 1 }), false),
        (json!({ "nbf": "0" }), false),
        (json!({ "token_type": null }), true),
        (json!({ "token_type": "bearer" }), true),
        (json!({ "token_type": "DPoP" }), false),
        (json!({ "cnf": { "jkt": "x" } }), false),
    ] {
        let found = active_token(&with(&changes), &settings(), NOW);
        assert_eq!(found.is_some(), wanted, "{changes}");
    }
}

#[test]
fn a_person_is_as_the_answer_says_and_nothing_more() {
    let bare = active_token(&answer(), &settings(), NOW).expect("active");
    assert_eq!(bare.expires, Some(NOW + 60));
    let person = &bare.principal;
    assert_eq!(&*person.subject, "alice");
    assert!(person.are_groups_partial() && person.groups().is_empty());
    assert!(person.email.is_none() && !person.is_admin);
    let more = json!({
        "groups": ["admins", "a"], "email": "alice@example.com", "email_verified": true,
        "preferred_username": "al", "username": "root", "department": "sales",
    });
    let full = active_token(&with(&more), &settings(), NOW).expect("active");
    let person = &full.principal;
    assert!(person.is_admin && !person.are_groups_partial());
    assert_eq!(person.verified_email(), Some("alice@example.com"));
    assert_eq!(person.preferred_username.as_deref(), Some("al"));
    let department = ClaimPointer::new("/department").expect("a pointer");
    let values = person.claims.values(&department).expect("known");
    assert_eq!((values.len(), &*values[0]), (1, "sales"));
    assert_ne!(full, bare);
    let unverified = with(&json!({ "email": "eve@example.com", "email_verified": false }));
    let unverified = active_token(&unverified, &settings(), NOW).expect("active");
    assert_eq!(unverified.principal.email, None);
}

/// An endpoint, and its URL.
async fn endpoint() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, format!("http://{address}/"))
}

#[tokio::test]
async fn introspections_that_hang_leave_slots_to_other_calls() {
    let (hanging, hanging_url) = endpoint().await;
    let (answering, answering_url) = endpoint().await;
    let http = HttpClient::new(None, CallCounter::default()).expect("a client");
    let http = Arc::new(http);
    let mut settings = settings();
    settings.client_secret = Some(Secret::new("secret"));
    settings.introspection.url = Some(hanging_url.parse().expect("a URL"));
    let (clock, _manual_clock) = Clock::manual();
    let provider = Provider::new(
        settings.issuer.clone(),
        DiscoveryScope::SignIn,
        http.clone(),
        clock.clone(),
    );
    let introspection = Arc::new(Introspection::new(Arc::new(ProviderContext {
        settings,
        redirect_uri: String::new(),
        provider,
        clock,
        keeps_access_tokens: AtomicBool::new(false),
    })));
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let introspection = introspection.clone();
        let token = Secret::new(format!("guess-{number}"));
        calls.spawn(async move { introspection.introspect(&token).await.is_ok() });
    }
    let mut open = Vec::new();
    for _ in 0..MAX_CALLS {
        open.push(hanging.accept().await.expect("a connection"));
    }
    assert_eq!(introspection.permits.available_permits(), 0);
    let answer = async {
        let (mut stream, _) = answering.accept().await.expect("a connection");
        let mut head = [0; 1024];
        assert!(stream.read(&mut head).await.expect("a request") > 0);
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(response).await.expect("sent");
        stream
    };
    let request = Request::get(answering_url).body(Vec::new());
    let call = http.call("token", request.expect("a request"));
    let (response, _stream) = tokio::time::timeout(CallLimits::default().deadline, async {
        tokio::join!(call, answer)
    })
    .await
    .expect("a slot is free");
    assert_eq!(response.expect("a response").status(), StatusCode::OK);
}
