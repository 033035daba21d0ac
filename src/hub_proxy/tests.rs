//! The API as a hub uses it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;

use super::*;
use crate::model::{access::Access, clock::Clock, policy_changes::PolicyChanges};

const TOKEN: &str = "a-token-for-tests";
const TARGET: &str = "{\"target\":\"http://10.0.0.7:8888\",\"user\":\"alice\",\"jupyterhub\":true}";

fn api() -> HubProxyApi {
    let (clock, _) = Clock::manual();
    let settings = HubRouteSettings {
        prefix: "/nb".into(),
        access: Access::Public,
        timeout: Duration::from_secs(1),
        own: vec!["127.0.0.1:9090".parse().expect("an address")],
    };
    let routes = HubRoutes::new(settings, clock, PolicyChanges::new());
    HubProxyApi::new(Secret::new(TOKEN), Arc::new(routes))
}

/// The status and the body of an answer.
async fn request_as(
    api: &HubProxyApi,
    authorization: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, authorization)
        .body(Full::new(Bytes::from(body.to_owned())));
    let response = api.answer(request.expect("a request")).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body");
    let text = String::from_utf8(body.to_bytes().to_vec()).expect("a text");
    (status, text)
}

async fn request(api: &HubProxyApi, method: &str, path: &str, body: &str) -> (u16, String) {
    request_as(api, &format!("token {TOKEN}"), method, path, body).await
}

#[tokio::test]
async fn a_hub_adds_lists_and_removes_routes() {
    let api = api();
    let path = "/api/routes/nb/user/a%40b";
    assert_eq!(request(&api, "GET", "/api/routes", "").await.1, "{}");
    assert_eq!(request(&api, "GET", path, "").await.0, 404);
    let added = request(&api, "POST", path, TARGET).await;
    assert_eq!(added, (201, String::new()));
    for listing in ["/api/routes", "/api/routes/"] {
        let (status, text) = request(&api, "GET", listing, "").await;
        assert_eq!(status, 200);
        let routes: Value = serde_json::from_str(&text).expect("JSON");
        let route = &routes["/nb/user/a@b"];
        assert_eq!(route["target"], "http://10.0.0.7:8888");
        assert_eq!(route["user"], "alice");
        assert_eq!(route["jupyterhub"], true);
        assert!(route["last_activity"].is_string());
    }
    let (status, one) = request(&api, "GET", path, "").await;
    assert_eq!(status, 200);
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(one["user"], "alice");
    let inactive = "/api/routes?inactive_since=1971-01-01T00:00:00Z";
    assert_eq!(request(&api, "GET", inactive, "").await.1, "{}");
    assert_eq!(
        request(&api, "DELETE", path, "").await,
        (204, String::new())
    );
    assert_eq!(
        request(&api, "DELETE", path, "").await,
        (404, String::new())
    );
    assert_eq!(request(&api, "GET", "/api/routes", "").await.1, "{}");
}

#[tokio::test]
async fn without_the_token_nothing_is_read_or_changed() {
    let api = api();
    let path = "/api/routes/nb";
    assert_eq!(request(&api, "POST", path, TARGET).await.0, 201);
    let bearer = format!("Bearer {TOKEN}");
    let longer = format!("token {TOKEN}x");
    for wrong in ["", "token", "token ", "token x", TOKEN, &bearer, &longer] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = request_as(&api, wrong, method, path, TARGET).await;
            assert_eq!(answer, (403, String::new()), "{wrong:?} {method}");
        }
    }
    for right in [format!("Token {TOKEN}"), format!("token  {TOKEN} ")] {
        assert_eq!(request_as(&api, &right, "GET", path, "").await.0, 200);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_route_is_said() {
    let api = api();
    let large = format!("{{\"target\":\"{}\"}}", "a".repeat(MAX_BODY));
    for (path, body, status, what) in [
        ("/user/alice", TARGET, 400, "base_url must be /nb/"),
        ("", TARGET, 400, "base_url must be /nb/"),
        ("/hub.test/nb/user/alice", TARGET, 400, "subdomain_host"),
        ("/nb/user/a%2Fb", TARGET, 400, "escaped slash"),
        ("/nb//alice", TARGET, 400, "segments of a URL"),
        ("/nb", "", 400, "not valid JSON"),
        ("/nb", "[]", 400, "not valid JSON"),
        ("/nb", "{}", 400, "Must specify 'target'"),
        ("/nb", "{\"target\":7}", 400, "Must specify 'target'"),
        ("/nb", "{\"target\":\"unix:/run/x\"}", 400, "http://"),
        (
            "/nb",
            "{\"target\":\"http://a/b\"}",
            400,
            "host and port only",
        ),
        (
            "/nb",
            "{\"target\":\"http://169.254.169.254\"}",
            400,
            "no route may lead",
        ),
        (
            "/nb",
            "{\"target\":\"http://127.0.0.1:9090\"}",
            400,
            "no route may lead",
        ),
        ("/nb", &large, 413, "16384 bytes"),
    ] {
        let path = format!("/api/routes{path}");
        let (found, text) = request(&api, "POST", &path, body).await;
        assert_eq!(found, status, "{path} {text}");
        assert!(text.contains(what), "{path} {text}");
    }
    assert_eq!(request(&api, "GET", "/api/routes", "").await.1, "{}");
    let (status, text) = request(&api, "GET", "/api/routes?inactiveSince=x", "").await;
    assert_eq!(status, 400);
    assert!(text.contains("must be ISO8601"), "{text}");
}

#[tokio::test]
async fn other_paths_and_methods_do_not_exist() {
    let api = api();
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/api/routesx", 404),
        ("GET", "/api", 404),
        ("PUT", "/api/routes/nb", 405),
        ("HEAD", "/api/routes", 405),
    ] {
        let answer = request(&api, method, path, "").await;
        assert_eq!(answer.0, status, "{method} {path}");
    }
}
