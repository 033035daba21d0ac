//! API tokens: how people get them, and how long they work.

use serde_json::json;

use super::namespace;
use crate::support::api::Api;

const ME: &str = "{\"query\":\"{ me { username } }\"}";

impl Api {
    /// A token of a person that the provider does not replace.
    fn offline_token(&self, person: &'static str) -> String {
        self.provider.offline_token(person).expect("a token")
    }

    /// The status of a call with this token.
    async fn status(&self, token: &str) -> u16 {
        let more = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.send("POST /api/graphql", &more, ME).await.status()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_calls_with_one_token_ask_the_provider_once() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let token = api.offline_token("alice");
    let calls = (0..100).map(|_| api.status(&token));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    assert_eq!(api.provider.calls("refresh"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offline_token_of_keycloak_is_an_api_token_although_it_is_a_jwt() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let token = api.provider.keycloak_offline_token("alice");
    let token = token.expect("a token");
    let calls = (0..100).map(|_| api.status(&token));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    assert_eq!(api.provider.calls("refresh"), 1);
    // Only the provider can tell that this is not its token.
    let altered = format!("{}A", &token[..token.len() - 1]);
    assert_ne!(altered, token);
    assert_eq!(api.status(&altered).await, 401);
    api.provider.end_grants();
    api.clock.advance(std::time::Duration::from_secs(31));
    assert_eq!(api.status(&token).await, 401, "revoked");
    assert_eq!(api.provider.calls("refresh"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_works_for_half_a_minute_at_most() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let token = api.offline_token("alice");
    assert_eq!(api.status(&token).await, 200);
    api.provider.end_grants();
    api.clock.advance(std::time::Duration::from_secs(29));
    assert_eq!(api.status(&token).await, 200, "as cached");
    api.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(api.status(&token).await, 401);
    for _ in 0..20 {
        assert_eq!(api.status(&token).await, 401);
    }
    assert_eq!(api.provider.calls("refresh"), 2, "a refusal is cached too");
    for odd in [
        "",
        "x",
        "a b",
        &"x".repeat(9000),
        "eyJhbGciOiJub25lIn0.e30.",
    ] {
        assert_eq!(api.status(odd).await, 401, "{:.20}", odd);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_gets_a_token_in_the_browser_and_a_program_uses_it() {
    let namespace = namespace().await;
    let world = namespace.world_with_api().await;

    // PrimeHub's client looks for the redirect with HEAD.
    let head = "HEAD /oidc/auth-flow/request HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
    assert_eq!(world.exchange(head).await.status(), 302);

    let mut browser = world.browser();
    let start = browser.open("/oidc/auth-flow/request").await;
    assert_eq!(start.status(), 302);
    let location = start.header("location").expect("a redirect");
    assert!(location.contains("offline_access") && location.contains("prompt=consent"));
    let page = browser.sign_in_from(&start, "alice").await;
    assert_eq!(page.status(), 200, "{}", page.text());
    let code = page.copied_code();

    let exchange = async |code: &str| {
        let body = format!("code={code}");
        let request = format!(
            "POST /oidc/auth-flow/exchange HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        world.exchange(&request).await
    };
    for wrong in ["", "x", &code[1..]] {
        let refused = exchange(wrong).await;
        assert_eq!(
            (refused.status(), refused.text()),
            (400, "Bad Request".to_owned())
        );
    }
    let granted = exchange(&code).await.json();
    let endpoint = format!("http://{}/api/graphql", world.host);
    assert_eq!(granted["endpoint"], endpoint);
    assert_eq!(exchange(&code).await.status(), 400, "a code works once");

    let token = granted["api-token"].as_str().expect("a token");
    let call = format!(
        "POST /api/graphql HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ME}",
        ME.len()
    );
    for _ in 0..2 {
        let answer = world.exchange(&call).await.json();
        assert_eq!(answer, json!({ "data": { "me": { "username": "alice" } } }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_of_another_browser_or_with_an_error_gives_no_code() {
    let namespace = namespace().await;
    let world = namespace.world_with_api().await;
    let mut mallory = world.browser();
    let start = mallory.open("/oidc/auth-flow/request").await;
    let mut alice = world.browser();
    let page = alice.sign_in_from(&start, "alice").await;
    assert_eq!(page.status(), 400);
    assert!(
        page.text().contains("started in another browser"),
        "{}",
        page.text()
    );
    assert!(!page.text().contains("<code>"));
    for query in [
        "",
        "?error=access_denied",
        "?code=a&state=b",
        "?error=%3Cscript%3E",
    ] {
        let page = alice
            .open(&format!("/oidc/auth-flow/callback{query}"))
            .await;
        assert_eq!(page.status(), 400, "{query}");
        assert!(page.text().contains("Try again"), "{}", page.text());
        assert!(!page.text().contains("<script>"));
    }
}
