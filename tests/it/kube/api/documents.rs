//! Requests as HTTP and GraphQL see them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{CREATE, GET, LIST, UPDATE, mutation, namespace, new_app};
use crate::support::{api::Api, message::Message, raw::Raw, world::World};

/// The only error of an answer without data.
fn only_error(answer: &Value) -> &Value {
    let errors = answer["errors"].as_array().map(Vec::as_slice);
    let Some([error]) = errors else {
        panic!("not one error: {answer}")
    };
    assert!(answer["data"].is_null(), "{answer}");
    error
}

/// A document whose operation reaches a field through so many fragments, each on this type.
fn chain_of_fragments(count: usize, on: &str) -> String {
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').collect();
    // Three letters, since a body has a limit; `on` is no name.
    let name = |at: usize| -> String {
        let places = [at / (52 * 52), at / 52 % 52, at % 52];
        places.map(|place| letters[place]).iter().collect()
    };
    let fragment = |at: usize| format!("fragment {} on {on}{{...{}}}", name(at), name(at + 1));
    let chain: String = (0..count).map(fragment).collect();
    let (first, last) = (name(0), name(count));
    format!("{{...{first}}}{chain}fragment {last} on {on}{{me{{id}}}}")
}

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
        // As long as a body may be, and longer than a stack is deep.
        chain_of_fragments(17_000, "Query"),
        chain_of_fragments(20_000, "Q"),
        String::new(),
    ] {
        let answer = api.call("alice", &query, json!({})).await;
        let code = &only_error(&answer)["extensions"]["code"];
        let start: String = query.chars().take(60).collect();
        assert_eq!(code, "GRAPHQL_VALIDATION_FAILED", "{start}: {answer}");
    }
    let me = api.data("alice", "{ me { username } }", json!({})).await;
    assert_eq!(me["me"]["username"], "alice", "the process goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_reported_once_and_two_mistakes_are_reported_twice() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    for (query, count) in [
        ("{ me { secret } }", 1),
        // What is not known is not looked into.
        ("{ secrets { of { all } } }", 1),
        ("{ me { secret password } }", 2),
        ("{ me { groups { secret } effectiveGroups { secret } } }", 2),
        // A wrong field of a fragment is one mistake, wherever the fragment is used.
        (
            "{ me { ...F } again: me { ...F } } fragment F on User { secret }",
            1,
        ),
        // An argument that is missing, and one that does not exist.
        ("{ phApplication(id: \"lab\") { id } }", 2),
        ("{ phApplication { id } }", 1),
    ] {
        let answer = api.call("alice", query, json!({})).await;
        let errors = answer["errors"].as_array().expect("errors");
        assert_eq!(errors.len(), count, "{query}: {answer}");
        for error in errors {
            let code = &error["extensions"]["code"];
            assert_eq!(code, "GRAPHQL_VALIDATION_FAILED", "{query}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_wrong_type_are_refused_and_nothing_is_written() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let with = |field: &str, value: Value| {
        let mut app = new_app("lab", "phusers");
        app["data"][field] = value;
        app
    };
    let update = |data: Value| json!({ "where": { "id": "lab" }, "data": data });
    let (get, list, stop) = (GET.to_owned(), LIST.to_owned(), mutation("stop"));
    let (create, change) = (CREATE.to_owned(), UPDATE.to_owned());
    for (query, variables, wanted) in [
        (&create, with("id", json!({})), "GRAPHQL_VALIDATION_FAILED"),
        (
            &create,
            with("id", json!(null)),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (
            &create,
            with("scope", json!(["public"])),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (
            &create,
            with("more", json!("x")),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (&create, json!({ "data": [] }), "GRAPHQL_VALIDATION_FAILED"),
        (&create, json!({}), "GRAPHQL_VALIDATION_FAILED"),
        (
            &create,
            with("env", json!([{ "name": "A", "value": 7 }])),
            "REQUEST_BODY_INVALID",
        ),
        (
            &create,
            with("env", json!({ "A": "1" })),
            "REQUEST_BODY_INVALID",
        ),
        (
            &get,
            json!({ "where": { "id": {} } }),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (&get, json!({ "where": [] }), "GRAPHQL_VALIDATION_FAILED"),
        (&list, json!({ "where": [] }), "GRAPHQL_VALIDATION_FAILED"),
        (
            &list,
            json!({ "where": { "id": {} } }),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (&list, json!({ "first": "12" }), "GRAPHQL_VALIDATION_FAILED"),
        (
            &stop,
            json!({ "where": "lab" }),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (
            &change,
            update(json!({ "scope": 7 })),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (&change, update(json!([])), "GRAPHQL_VALIDATION_FAILED"),
    ] {
        let answer = api.call("alice", query, variables.clone()).await;
        let errors = answer["errors"].as_array().map(Vec::as_slice);
        let Some([error]) = errors else {
            panic!("not one error of {variables}: {answer}")
        };
        let code = &error["extensions"]["code"];
        assert_eq!(code, wanted, "{variables}: {answer}");
        let said = error["message"].as_str().expect("a text");
        assert!(!said.is_empty() && said.len() < 250, "{said}");
    }
    let listed = api.data("carol", LIST, json!({})).await;
    assert_eq!(listed["phApplicationsConnection"]["edges"], json!([]));
}

/// Sends a body of ten megabytes, and returns the answer. The connection ends after it, and is not
/// reset, so no client can lose the answer.
async fn send_much(server: SocketAddr, host: &str, token: &str) -> Message {
    let body = format!("{{\"query\":\"{}\"}}", " ".repeat(10 << 20));
    let length = body.len();
    let head = format!(
        "POST /api/graphql HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut raw = Raw::connect(server).await;
    raw.send(head + &body).await;
    let answer = raw.answer().await.expect("an answer");
    let rest = raw.reader.rest().await.expect("an end without a reset");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_ten_megabytes_is_refused_and_the_connection_ends_cleanly() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    let world = World::of_site(&format!("api = \"http://{}\"\n", api.running.address)).await;
    let token = api.provider.access_token("alice");
    let (server, gateway) = (api.running.address, world.running.address);
    let host = server.to_string();
    for (address, host, token, status) in [
        (server, &host, token.as_str(), 413),
        (server, &host, "no-token", 401),
        (gateway, &world.host, token.as_str(), 413),
    ] {
        let answer = send_much(address, host, token).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
        let answer = answer.json();
        assert!(only_error(&answer)["message"].is_string());
    }
    let me = api.data("alice", "{ me { username } }", json!({})).await;
    assert_eq!(me["me"]["username"], "alice");
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
