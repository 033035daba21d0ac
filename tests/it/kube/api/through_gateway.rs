//! The gateway in front of the API, or as its process.

use serde_json::json;

use super::{CREATE, namespace, new_app};
use crate::support::{api::Api, backend::Backend, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_leads_to_the_api_and_passes_no_cookie_of_its_own() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let recorded = Backend::start("recorded").await;
    let world = World::of_site(&format!("api = \"http://{}\"\n", api.running.address)).await;
    let token = api.provider.access_token("alice");
    let body = json!({ "query": "{ me { username } }" }).to_string();
    let request = format!(
        "POST /api/graphql HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = world.exchange(&request).await;
    assert_eq!(
        answer.json(),
        json!({ "data": { "me": { "username": "alice" } } })
    );
    let log = format!(
        "GET /api/logs/pods/nope HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let answer = world.exchange(&log).await;
    assert_eq!(
        (answer.status(), answer.text()),
        (404, "there is no such pod\n".to_owned())
    );

    let world = World::of_site(&format!("api = \"http://{}\"\n", recorded.address())).await;
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/api/graphql").await.status(), 200);
    let seen = recorded.last();
    assert!(seen.all("cookie").is_empty(), "{seen:?}");
    assert!(seen.all("x-forwarded-user").is_empty(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_can_serve_the_api_itself() {
    let namespace = namespace().await;
    let world = namespace.world_with_api().await;
    let token = world.provider.access_token("alice");
    let body = json!({ "query": CREATE, "variables": new_app("lab", "phusers") }).to_string();
    let request = format!(
        "POST /api/graphql HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = world.exchange(&request).await;
    assert_eq!(answer.json()["data"]["createPhApplication"]["id"], "lab");
    world.until(|snapshot| snapshot.find("lab").is_some()).await;
}
