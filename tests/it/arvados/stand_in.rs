//! The stand-in of Arvados behaves as Arvados does: what other tests conclude rests on this.

mod clients;
mod container_gateways;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use self::clients::{cluster, get, list, published, request, running, uuids};
use crate::support::{
    arvados::{ELSEWHERE, Fault},
    until::until,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_api_shows_a_container_and_its_request_with_their_documented_fields() {
    let (arvados, alice, container, _) = running().await;
    let answer = get(
        &arvados,
        &format!("containers/{}", container.uuid),
        &arvados.root_token(),
    )
    .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(
        answer.header("content-type").as_deref(),
        Some("application/json; charset=utf-8")
    );
    let record = answer.json();
    assert_eq!(
        (&record["kind"], &record["state"]),
        (&json!("arvados#container"), &json!("Running"))
    );
    assert!(container.uuid.starts_with("zzzzz-dz642-") && container.uuid.len() == 27);
    assert!(
        record["gateway_address"]
            .as_str()
            .expect("a text")
            .starts_with("127.0.0.1:")
    );
    assert_eq!(record["published_ports"], published());
    assert_eq!(record["runtime_status"], json!({}));
    let started = record["started_at"].as_str().expect("a time");
    assert!(started.len() == 30 && started.ends_with('Z'), "{started}");
    let request = &container.request_uuids[0];
    let record = get(
        &arvados,
        &format!("container_requests/{request}"),
        &alice.token_v2,
    )
    .await
    .json();
    assert_eq!(record["kind"], "arvados#containerRequest");
    assert_eq!(
        (&record["container_uuid"], &record["state"]),
        (&json!(container.uuid), &json!("Committed"))
    );
    assert_eq!(record["modified_by_user_uuid"], json!(alice.uuid));
    assert!(
        record["published_ports"]["80"]["external_port"].is_null(),
        "it has no place to be found at"
    );
    let path = format!("containers/{}", container.uuid);
    let selected = list(
        &arvados,
        &path,
        &alice.token_v2,
        &[("select", "[\"state\"]")],
    )
    .await
    .json();
    assert_eq!(
        selected,
        json!({ "kind": "arvados#container", "state": "Running" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_in_both_forms_and_schemes_until_it_is_revoked() {
    let arvados = cluster().await;
    let (alice, bob) = (
        arvados.add_user("alice", false),
        arvados.add_user("bob", false),
    );
    let me = "/arvados/v1/users/current";
    for good in [
        format!("Bearer {}", alice.token_v1),
        format!("Bearer {}", alice.token_v2),
        format!("OAuth2 {}", alice.token_v2),
    ] {
        let answer = request(&arvados, "GET", me, &good)
            .await
            .expect("an answer");
        assert_eq!(
            (answer.status(), &answer.json()["uuid"]),
            (200, &json!(alice.uuid)),
            "{good}"
        );
    }
    let uuid_of_bobs = bob.token_v2.split('/').nth(1).expect("a uuid");
    for bad in [
        String::new(),
        "Bearer -".into(),
        format!("bearer {}", alice.token_v1),
        format!("Bearer v2/{uuid_of_bobs}/{}", alice.token_v1),
        format!("Bearer v2//{}", alice.token_v1),
        format!("Bearer {}x", alice.token_v1),
    ] {
        let answer = request(&arvados, "GET", me, &bad).await.expect("an answer");
        assert_eq!(answer.status(), 401, "{bad}");
        let (error, id) = (answer.json(), answer.header("x-request-id").expect("an id"));
        assert_eq!(error["errors"], json!([format!("Not logged in ({id})")]));
        assert!(
            error["error_token"]
                .as_str()
                .expect("a token")
                .contains('+')
        );
    }
    arvados.revoke(&alice.token_v2);
    assert_eq!(
        get(&arvados, "users/current", &alice.token_v1)
            .await
            .status(),
        401
    );
    assert_eq!(
        get(&arvados, "users/current", &bob.token_v2).await.status(),
        200
    );
    let root = get(&arvados, "users/current", &arvados.root_token())
        .await
        .json();
    assert_eq!(
        (&root["is_admin"], &root["username"]),
        (&json!(true), &json!("root"))
    );
    let calls = arvados.calls();
    assert_eq!(calls.len(), 12);
    assert_eq!(
        (calls[2].method.as_str(), calls[2].path_and_query.as_str()),
        ("GET", me)
    );
    assert_eq!(
        (calls[2].token.as_ref(), calls[3].token.as_ref()),
        (Some(&alice.token_v2), None)
    );
    assert_eq!(
        (
            arvados.calls_to("/arvados/v1/users/"),
            arvados.api_handshakes()
        ),
        (12, 12)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_shown_to_its_submitter_its_readers_and_administrators() {
    let (arvados, alice, container, _) = running().await;
    let (bob, boss) = (
        arvados.add_user("bob", false),
        arvados.add_user("boss", true),
    );
    let record = format!("containers/{}", container.uuid);
    let request_path = format!("container_requests/{}", container.request_uuids[0]);
    for path in [&record, &request_path] {
        for (token, status) in [
            (&alice.token_v2, 200),
            (&boss.token_v1, 200),
            (&bob.token_v2, 404),
        ] {
            assert_eq!(get(&arvados, path, token).await.status(), status, "{path}");
        }
    }
    let hidden = get(&arvados, &record, &bob.token_v2).await.json();
    assert!(
        hidden["errors"][0]
            .as_str()
            .expect("an error")
            .starts_with("Path not found (req-"),
        "{hidden}"
    );
    assert_eq!(
        list(&arvados, "containers", &bob.token_v2, &[])
            .await
            .json()["items_available"],
        0
    );
    arvados.allow_reading(&container.uuid, &bob.uuid);
    assert_eq!(get(&arvados, &record, &bob.token_v2).await.status(), 200);
    assert_eq!(
        get(&arvados, &request_path, &bob.token_v2).await.status(),
        200
    );
    arvados.set_active(&bob.uuid, false);
    assert_eq!(get(&arvados, &record, &bob.token_v2).await.status(), 404);
    let own = get(&arvados, "users/current", &bob.token_v2).await.json();
    assert_eq!(
        (&own["is_active"], &own["full_name"]),
        (&json!(false), &json!("Bob Example"))
    );
    assert_eq!(own["email"], "bob@example.com");
    arvados.set_active(&bob.uuid, true);
    assert_eq!(get(&arvados, &record, &bob.token_v2).await.status(), 200);
    let nowhere = "/arvados/v1/containers/zzzzz-dz642-000000000000000";
    let root = format!("Bearer {}", arvados.root_token());
    for (method, target, status) in [
        ("GET", nowhere, 404),
        ("GET", "/", 404),
        ("PUT", nowhere, 405),
        ("GET", "/arvados/v1/groups", 404),
    ] {
        let answer = request(&arvados, method, target, &root)
            .await
            .expect("an answer");
        assert_eq!(answer.status(), status, "{method} {target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_filtered_ordered_cut_and_counted() {
    let (arvados, alice, first, _) = running().await;
    let bob = arvados.add_user("bob", false);
    let both = arvados
        .add_container(&[&alice.uuid, &bob.uuid], json!({}), &[])
        .await;
    arvados.set_state(&first.uuid, "Complete");
    let root = arvados.root_token();
    let of_both = json!([["container_uuid", "=", both.uuid]]).to_string();
    let parameters = [
        ("filters", of_both.as_str()),
        ("limit", "1"),
        ("order", "uuid desc"),
    ];
    let answer = list(&arvados, "container_requests", &root, &parameters).await;
    let (object, last) = (
        answer.json(),
        both.request_uuids.iter().max().expect("two").clone(),
    );
    assert_eq!(object["kind"], "arvados#containerRequestList");
    assert_eq!(
        (&object["limit"], &object["offset"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        (&object["items_available"], uuids(&answer)),
        (&json!(2), vec![last.clone()])
    );
    let next = [
        &parameters[..],
        &[("offset", "1"), ("count", "none"), ("select", "[\"uuid\"]")],
    ]
    .concat();
    let answer = list(&arvados, "container_requests", &root, &next).await;
    assert!(answer.json().get("items_available").is_none());
    assert_eq!(
        answer.json()["items"][0]
            .as_object()
            .expect("a record")
            .len(),
        2,
        "uuid and kind"
    );
    assert_ne!(uuids(&answer), [last]);
    let of_bob = list(
        &arvados,
        "container_requests",
        &bob.token_v2,
        &[("filters", &of_both)],
    )
    .await;
    assert_eq!(
        uuids(&of_bob),
        both.request_uuids[1..],
        "what bob may see of it"
    );
    for (filter, expected) in [
        (r#"[["state","in",["Running","Queued"]]]"#, &both),
        (r#"[["state","=","Running"]]"#, &both),
        (r#"[["state","!=","Running"]]"#, &first),
        (
            r#"[["state","not in",["Running"]],["published_ports.80","!=",null]]"#,
            &first,
        ),
    ] {
        let found = list(&arvados, "containers", &root, &[("filters", filter)]).await;
        assert_eq!(uuids(&found), [expected.uuid.as_str()], "{filter}");
    }
    let newest = list(&arvados, "containers", &root, &[]).await;
    assert_eq!(
        uuids(&newest)[0],
        first.uuid,
        "what changed last comes first"
    );
    for bad in [
        ("filters", r#"[["state","~","x"]]"#),
        ("filters", r#"[["nothing","=","x"]]"#),
        ("filters", r#"["state"]"#),
        ("filters", r#"[["state","in","x"]]"#),
        ("select", r#"["nothing"]"#),
        ("limit", "many"),
        ("count", "all"),
        ("order", "uuid up"),
    ] {
        assert_eq!(
            list(&arvados, "containers", &root, &[bad]).await.status(),
            422,
            "{bad:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_found_by_those_who_may_read_its_target() {
    let (arvados, alice, container, _) = running().await;
    let bob = arvados.add_user("bob", false);
    arvados.add_link("blast", &container.request_uuids[0], 80);
    let named = r#"[["link_class","=","published_port"],["name","=","blast"]]"#;
    for (token, count) in [
        (&alice.token_v2, 1),
        (&bob.token_v2, 0),
        (&arvados.root_token(), 1),
    ] {
        let answer = list(&arvados, "links", token, &[("filters", named)]).await;
        assert_eq!(answer.json()["items_available"], count);
        if count == 1 {
            let link = &answer.json()["items"][0];
            assert_eq!(
                (&link["head_uuid"], &link["kind"]),
                (&json!(container.request_uuids[0]), &json!("arvados#link"))
            );
            assert_eq!(link["properties"], json!({ "port": 80 }));
        }
    }
    arvados.remove_link("blast");
    let answer = list(
        &arvados,
        "links",
        &arvados.root_token(),
        &[("filters", named)],
    )
    .await;
    assert_eq!(answer.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_can_fail_in_five_ways_and_get_well() {
    let (arvados, alice, ..) = running().await;
    let me = "/arvados/v1/users/current";
    let bearer = format!("Bearer {}", alice.token_v2);
    arvados.fail(Some(Fault::Hang));
    let came = async {
        until("the request has come", || arvados.calls_to(me) == 1).await;
        // An answer would come now.
        sleep(Duration::from_millis(200)).await;
    };
    tokio::select! {
        _ = request(&arvados, "GET", me, &bearer) => panic!("it answers"),
        () = came => {}
    }
    arvados.fail(Some(Fault::Close));
    assert!(request(&arvados, "GET", me, &bearer).await.is_none());
    arvados.fail(Some(Fault::Status(503)));
    let down = request(&arvados, "GET", me, &bearer)
        .await
        .expect("an answer");
    assert!(down.status() == 503 && down.json()["errors"].is_array());
    arvados.fail(Some(Fault::Garbage));
    let garbage = request(&arvados, "GET", me, &bearer)
        .await
        .expect("an answer");
    assert!(garbage.status() == 200 && serde_json::from_slice::<Value>(&garbage.body).is_err());
    arvados.fail(Some(Fault::Redirect));
    let away = request(&arvados, "GET", me, &bearer)
        .await
        .expect("an answer");
    assert_eq!(
        (away.status(), away.header("location").as_deref()),
        (302, Some(ELSEWHERE))
    );
    assert_eq!((arvados.calls_to(me), arvados.calls_to(ELSEWHERE)), (5, 0));
    arvados.fail(None);
    assert_eq!(
        get(&arvados, "users/current", &alice.token_v2)
            .await
            .status(),
        200
    );
}
