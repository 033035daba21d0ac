//! The gateway in front of the API, or as its process.

use ludgate::model::access::Access;
use serde_json::json;

use super::{CREATE, LIST, UPDATE, namespace, new_app};
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
    let created = world.graphql("alice", CREATE, new_app("lab", "phusers"));
    let created = created.await["data"].clone();
    assert_eq!(created["createPhApplication"]["id"], "lab");
    world.until(|snapshot| snapshot.find("lab").is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_for_all_who_sign_in_is_open_to_others_and_listed_for_its_group_only() {
    let namespace = namespace().await;
    let world = namespace.world_with_api().await;
    let created = world.graphql("alice", CREATE, new_app("lab", "phusers"));
    assert_eq!(created.await.get("errors"), None);
    world.until(|snapshot| snapshot.find("lab").is_some()).await;
    let mut bob = world.signed_in("bob").await;
    assert_eq!(bob.open("/apps/lab/").await.status(), 403);
    let change = json!({ "where": { "id": "lab" }, "data": { "scope": "primehub" } });
    let changed = world.graphql("alice", UPDATE, change).await["data"].clone();
    assert_eq!(changed["updatePhApplication"]["scope"], "primehub");
    world
        .until(|snapshot| {
            let app = snapshot.find("lab");
            app.is_some_and(|app| app.spec.access == Access::User)
        })
        .await;
    // It has no pod, which only those are told who have access.
    let opened = bob.open("/apps/lab/").await;
    assert_eq!(opened.status(), 503, "{}", opened.text());
    for (person, count) in [("alice", 1), ("bob", 0)] {
        let listed = world.graphql(person, LIST, json!({})).await["data"].clone();
        let edges = listed["phApplicationsConnection"]["edges"].as_array();
        assert_eq!(edges.map(Vec::len), Some(count), "{person}: {listed}");
    }
}
