//! Requests as HTTP and GraphQL see them.

use serde_json::json;

use super::{CREATE, namespace, new_app};
use crate::support::api::Api;

#[tokio::test(flavor = "multi_thread")]
async fn odd_documents_are_refused_before_anything_runs() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let aliases: String = (0..1000).map(|at| format!("a{at}: me {{ id }} ")).collect();
    let deep = format!("{{ me {} id {} }}", "{ groups".repeat(30), "}".repeat(30));
    let writes: String = (0..20)
        .map(|at| format!("a{at}: stopPhApplication(where: {{ id: \"x\" }}) {{ id }} "))
        .collect();
    for query in [
        format!("{{ {aliases} }}"),
        deep,
        format!("mutation {{ {writes} }}"),
        "{ secrets { id } }".to_owned(),
        "{ me { id ".to_owned(),
        "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }".to_owned(),
        String::new(),
    ] {
        let answer = api.call("alice", &query, json!({})).await;
        let code = &answer["errors"][0]["extensions"]["code"];
        let start: String = query.chars().take(60).collect();
        assert_eq!(code, "GRAPHQL_VALIDATION_FAILED", "{start}: {answer}");
        assert!(answer["data"].is_null());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_like_json_and_other_requests_have_a_json_error() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let bearer = format!(
        "Authorization: Bearer {}\r\n",
        api.provider.access_token("alice")
    );
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let body = "variables=%7B%7D&query=%7B+me+%7B+username+isAdmin+effectiveGroups+%7B+name+displayName+projectQuotaCpu+%7D+%7D+%7D";
    let start = "POST /api/graphql";
    let answer = api.send(start, &format!("{bearer}{form}"), body).await;
    let groups = json!([
        { "name": "friends", "displayName": "friends", "projectQuotaCpu": null },
        { "name": "phusers", "displayName": "PrimeHub users", "projectQuotaCpu": 2.0 },
    ]);
    let me = json!({ "username": "alice", "isAdmin": false, "effectiveGroups": groups });
    assert_eq!(answer.json(), json!({ "data": { "me": me } }));
    let json = "Content-Type: application/json\r\n";
    let large = format!("{{\"query\":\"{}\"}}", " ".repeat(600 * 1024));
    let forged = "Authorization: Bearer eyJhbGciOiJub25lIn0.e30.\r\n";
    for (start, head, body, status) in [
        ("POST /api/graphql", json.to_owned(), "{}", 401),
        ("POST /api/graphql", format!("{forged}{json}"), "{}", 401),
        (
            "POST /api/graphql",
            format!("{bearer}{bearer}{json}"),
            "{}",
            401,
        ),
        ("POST /api/graphql", bearer.clone(), "{}", 415),
        ("POST /api/graphql", format!("{bearer}{json}"), "{", 400),
        ("POST /api/graphql", format!("{bearer}{json}"), &large, 413),
        ("GET /api/graphql", bearer.clone(), "", 405),
        ("POST /api/nothing", bearer.clone(), "", 404),
    ] {
        let answer = api.send(start, &head, body).await;
        assert_eq!(answer.status(), status, "{start} {head}");
        let answer = answer.json();
        assert!(answer["errors"][0]["message"].is_string(), "{answer}");
        assert!(
            answer["errors"][0]["extensions"]["code"].is_string(),
            "{answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_of_an_answer_have_the_order_of_the_document() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
    let token = api.provider.access_token("alice");
    let more = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    // Each of the first two fields at the top waits for the cluster, and so do pods.
    let query = "{ phApplicationsConnection { edges { node { pods { name } instanceTypeSpec { name } id } cursor } } phAppTemplates { id } me { username } }";
    let body = json!({ "query": query }).to_string();
    let answer = api.send("POST /api/graphql", &more, &body).await.text();
    let keys = [
        "phApplicationsConnection",
        "edges",
        "node",
        "pods",
        "instanceTypeSpec",
        "name",
        "id",
        "cursor",
        "phAppTemplates",
        "me",
    ];
    let places = keys.map(|key| answer.find(&format!("\"{key}\":")));
    assert!(places.iter().all(Option::is_some), "{answer}");
    assert!(places.is_sorted(), "{answer}");
}
