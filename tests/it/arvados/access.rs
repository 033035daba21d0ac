//! Who may reach which port of which container, by whichever name
//! (docs/behaviour.md#access).

use serde_json::json;

use crate::support::{browser::From, cluster::Cluster, process::program};

#[tokio::test(flavor = "multi_thread")]
async fn a_private_port_is_for_owner_and_admins_and_is_hidden_except_from_readers() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    for port in ["8080", "9998"] {
        // 9998 is not listed: reached like a private one, and nothing is there.
        let url = cluster.url(format!("{}-{port}", container.uuid), "/x");
        let there = if port == "8080" { 200 } else { 502 };
        for (who, status) in [
            (Some(&cluster.alice), there),
            (Some(&cluster.admin), there),
            (Some(&cluster.bob), 404),
            (None, 401),
        ] {
            let answer = cluster.request("GET", &url, who).await;
            assert_eq!(
                answer.status(),
                status,
                "{port} {:?}",
                who.map(|who| &who.uuid)
            );
        }
    }
    assert_eq!(cluster.app.count(), 2, "O5");
    // A user who may read the record learns the reason of the refusal.
    cluster
        .arvados
        .allow_reading(&container.uuid, &cluster.bob.uuid);
    cluster
        .world
        .manual_clock
        .advance(std::time::Duration::from_secs(10));
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let answer = cluster.request("GET", &url, Some(&cluster.bob)).await;
    assert_eq!(
        (answer.status(), answer.json()["reason"].as_str()),
        (403, Some("not_owner"))
    );
    assert_eq!(cluster.app.count(), 2, "O5");
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_port_needs_no_sign_in_and_sends_no_identity() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", container.uuid), "/a/b%2Fc//d?e=%41&&f");
    let mut visitor = cluster.visitor();
    let token = format!("Authorization: Bearer {}\r\n", cluster.alice.token_v2);
    let cookie = "Cookie: own=1; arvados_api_token=djIvenp6enotZ2ozc3UtMDc3ejMyYXV4OGRnMnMxL3NlY3JldA==; other=2\r\n";
    let answer = visitor
        .send("GET", &url, From::Program, &format!("{token}{cookie}"), b"")
        .await;
    assert_eq!(answer.status(), 200);
    assert!(answer.all("set-cookie").is_empty());
    let seen = cluster.app.last();
    assert_eq!(seen.target(), "/a/b%2Fc//d?e=%41&&f");
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("cookie").as_deref(), Some("own=1; other=2"));
    assert_eq!(seen.header("x-forwarded-user"), None);
    assert_eq!(
        cluster.arvados.calls_to("/arvados/v1/users"),
        0,
        "no call to the API server"
    );
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_s_rule_holds_by_whichever_name_it_is_reached() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    cluster
        .arvados
        .add_link("notebook", &container.request_uuids[0], 8080);
    cluster.arvados.add_link("page", &container.uuid, 80);
    let labels = [
        format!("{}-8080", container.uuid),
        format!("{}-8080", container.request_uuids[0]),
        "notebook".to_owned(),
        "NoteBook".to_owned(),
    ];
    for label in &labels {
        let url = cluster.url(label, "/x");
        for (who, status) in [
            (Some(&cluster.alice), 200),
            (Some(&cluster.bob), 404),
            (None, 401),
        ] {
            assert_eq!(
                cluster.request("GET", &url, who).await.status(),
                status,
                "{label}"
            );
        }
        let line = cluster
            .world
            .log
            .line_with(&cluster.app.last().header("x-request-id").expect("an id"))
            .await;
        assert_eq!(
            line["app"],
            format!("{}:8080", container.uuid),
            "one app by every name"
        );
    }
    assert_eq!(
        cluster
            .request("GET", &cluster.url("page", "/x"), None)
            .await
            .status(),
        200
    );
    // A uuid alone is port 80, if that is published.
    let silent = cluster.publishing(&[&cluster.alice], json!({})).await;
    let (alone, with_port) = (
        cluster.url(&silent.uuid, "/x"),
        cluster.url(format!("{}-80", silent.uuid), "/x"),
    );
    assert_eq!(
        cluster
            .request("GET", &alone, Some(&cluster.alice))
            .await
            .status(),
        404
    );
    assert_eq!(
        cluster
            .request("GET", &with_port, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    for label in [&container.uuid, &container.request_uuids[0]] {
        assert_eq!(
            cluster
                .request("GET", &cluster.url(label, "/x"), None)
                .await
                .status(),
            200,
            "{label}"
        );
    }
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_never_shadows_an_app_nor_a_uuid_and_of_two_equal_names_neither_leads_anywhere() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let other = cluster.container(&[&cluster.bob]).await;
    cluster.arvados.add_link("pub", &container.uuid, 80);
    cluster
        .arvados
        .add_link(&format!("{}-80", other.uuid), &container.uuid, 8080);
    cluster.arvados.add_link("twice", &container.uuid, 80);
    cluster.arvados.add_link("twice", &other.uuid, 80);
    let answer = cluster
        .request("GET", &cluster.url("pub", "/x"), None)
        .await;
    assert_eq!(answer.text(), "pub /x", "the app of the file");
    assert_eq!(
        cluster
            .request(
                "GET",
                &cluster.url(format!("{}-80", other.uuid), "/x"),
                None
            )
            .await
            .status(),
        200
    );
    assert_eq!(
        cluster
            .request("GET", &cluster.url("twice", "/x"), None)
            .await
            .status(),
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_two_submitters_is_for_admins_alone() {
    let cluster = Cluster::start().await;
    let shared = cluster.container(&[&cluster.alice, &cluster.bob]).await;
    let twice = cluster.container(&[&cluster.alice, &cluster.alice]).await;
    let at = |uuid: &str| cluster.url(format!("{uuid}-8080"), "/x");
    // Both submitted a request and so may read the record: they are told that it is not theirs
    // alone.
    for (who, status) in [
        (&cluster.alice, 403),
        (&cluster.bob, 403),
        (&cluster.admin, 200),
    ] {
        assert_eq!(
            cluster
                .request("GET", &at(&shared.uuid), Some(who))
                .await
                .status(),
            status
        );
    }
    for request in &shared.request_uuids {
        assert_eq!(
            cluster
                .request("GET", &at(request), Some(&cluster.alice))
                .await
                .status(),
            403
        );
    }
    assert_eq!(
        cluster
            .request("GET", &at(&twice.uuid), Some(&cluster.alice))
            .await
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_started_is_503_and_what_has_ended_is_410_for_those_who_may_know() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    for (state, status) in [
        ("Queued", 503),
        ("Locked", 503),
        ("Running", 200),
        ("Complete", 410),
        ("Cancelled", 410),
    ] {
        cluster.arvados.set_state(&container.uuid, state);
        cluster
            .world
            .manual_clock
            .advance(std::time::Duration::from_secs(61));
        let answer = cluster.request("GET", &url, Some(&cluster.alice)).await;
        assert_eq!(answer.status(), status, "{state}");
        assert_eq!(
            answer.header("retry-after").is_some(),
            status == 503,
            "{state}"
        );
        // Who may not is not told the state.
        assert_eq!(
            cluster
                .request("GET", &url, Some(&cluster.bob))
                .await
                .status(),
            404,
            "{state}"
        );
        assert_eq!(
            cluster.request("GET", &url, None).await.status(),
            401,
            "{state}"
        );
    }
    let page = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n";
    let public = cluster.url(format!("{}-80", container.uuid), "/x");
    let answer = cluster
        .visitor()
        .send("GET", &public, From::Program, page, b"")
        .await;
    assert_eq!(answer.status(), 410);
    assert!(answer.text().contains("has ended"), "{}", answer.text());
    assert_eq!(cluster.app.count(), 1, "only while it ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_where_nothing_listens_is_502() {
    let cluster = Cluster::start().await;
    let container = cluster
        .publishing(&[&cluster.alice], json!({"9999": {"access": "public"}}))
        .await;
    let answer = cluster
        .request(
            "GET",
            &cluster.url(format!("{}-9999", container.uuid), "/x"),
            None,
        )
        .await;
    assert_eq!(answer.status(), 502);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_is_judged_alike_and_arrives_as_it_was_sent() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(
        format!("{}-8080", container.uuid),
        "/a%2Fb//c;d?q=%2B+&&=x&%zz",
    );
    for method in [
        "GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS", "DELETE", "PROPFIND",
    ] {
        let before = cluster.app.count();
        for (who, status) in [(None, 401), (Some(&cluster.bob), 404)] {
            assert_eq!(
                cluster.request(method, &url, who).await.status(),
                status,
                "{method}"
            );
        }
        assert_eq!(cluster.app.count(), before, "O5: {method}");
        assert_eq!(
            cluster
                .request(method, &url, Some(&cluster.alice))
                .await
                .status(),
            200,
            "{method}"
        );
        let seen = cluster.app.last();
        assert_eq!(
            seen.start,
            format!("{method} /a%2Fb//c;d?q=%2B+&&=x&%zz HTTP/1.1")
        );
    }
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_signs_in_is_their_arvados_user_where_the_api_takes_the_provider_s_tokens() {
    let cluster = Cluster::with("accept_sign_in = true\n").await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let (end, answer) = cluster.visitor().follow(&url, "alice").await;
    assert_eq!((answer.status(), end), (200, url.clone()));
    assert_eq!(
        cluster.arvados.calls_to("/arvados/v1/users/current"),
        1,
        "asked at the sign-in"
    );
    assert_eq!(
        cluster.app.last().header("x-forwarded-user").as_deref(),
        Some("alice")
    );
    // Known and not the owner, and unknown to the API: signed in all the same.
    for person in ["bob", "carol"] {
        let mut visitor = cluster.visitor();
        assert_eq!(
            visitor.follow(&url, person).await.1.status(),
            404,
            "{person}"
        );
        let (_, page) = visitor.follow(&cluster.url("usr", "/x"), person).await;
        assert_eq!(page.status(), 200, "{person}");
    }
    assert_eq!(cluster.app.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_that_no_user_token_is_sent_to_the_api() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    assert_eq!(
        cluster.visitor().follow(&url, "alice").await.1.status(),
        404
    );
    assert_eq!(cluster.arvados.calls_to("/arvados/v1/users/current"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_asks_the_api_about_a_container_as_the_gateway_would() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let config = cluster.file("ludgate.toml", &cluster.config());
    for (label, person, said) in [
        (
            format!("{}-80", container.uuid),
            None,
            "decision  allow (public)",
        ),
        (
            format!("{}-8080", container.request_uuids[0]),
            Some(&cluster.alice),
            "decision  allow (owner)",
        ),
        (
            format!("{}-8080", container.uuid),
            Some(&cluster.bob),
            "decision  deny (not_owner)",
        ),
        (
            "zzzzz-dz642-000000000000000".to_owned(),
            None,
            "decision  deny (unknown_app)",
        ),
        (
            format!("{}-080", container.uuid),
            None,
            "decision  malformed (bad_host)",
        ),
    ] {
        let mut command = tokio::process::Command::new(program());
        command.args(["explain", "--config", &config, &cluster.url(&label, "/x")]);
        command.args(
            person
                .map(|person| ["--user", &person.uuid])
                .into_iter()
                .flatten(),
        );
        let output = command.output().await.expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains(said),
            "{label}: {text}"
        );
        assert!(!text.contains(&cluster.arvados.root_token()));
    }
}
