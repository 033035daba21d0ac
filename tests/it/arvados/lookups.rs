//! What looking containers up costs, and what happens when the API server does not answer.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    arvados::{ELSEWHERE, Fault},
    browser::From,
    cluster::Cluster,
    message::PATIENCE,
    raw::Raw,
    until::{until, until_async},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_private_request_costs_no_call_and_no_handshake() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-8080", container.uuid), "/x");
    let mut alice = cluster.visitor();
    let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
    assert_eq!(
        alice
            .send("GET", &url, From::Fetch, &cookie, b"")
            .await
            .status(),
        200
    );
    let (calls, handshakes) = (cluster.calls(), cluster.arvados.handshakes(&container.uuid));
    let api = cluster.arvados.api_handshakes();
    for method in ["GET", "POST", "GET", "DELETE", "GET"] {
        assert_eq!(
            alice
                .send(method, &url, From::Fetch, "", b"")
                .await
                .status(),
            200
        );
    }
    assert_eq!(cluster.calls() - calls, 0);
    assert_eq!(cluster.arvados.handshakes(&container.uuid) - handshakes, 0);
    assert_eq!(cluster.arvados.api_handshakes() - api, 0);
    assert_eq!(handshakes, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_first_requests_at_once_cost_one_look_up_of_each_record() {
    let cluster = Cluster::with(
        "[limits]\nconnections_per_client = 1000\nrequests_per_app = 1000\nclient_share = 100\n",
    )
    .await;
    let container = cluster.container(&[&cluster.alice]).await;
    let host = format!(
        "{}-8080.localhost:{}",
        container.request_uuids[0],
        cluster.world.running.address.port()
    );
    let request = format!(
        "GET /x HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        cluster.alice.token_v2
    );
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (address, request) = (cluster.world.running.address, request.clone());
        all.spawn(async move { Raw::exchange(address, request).await.status() });
    }
    let statuses = all.join_all().await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    for (path, calls) in [
        (
            format!(
                "/arvados/v1/container_requests/{}",
                container.request_uuids[0]
            ),
            1,
        ),
        (format!("/arvados/v1/containers/{}", container.uuid), 1),
        ("/arvados/v1/container_requests?".to_owned(), 1),
        ("/arvados/v1/users/current".to_owned(), 1),
    ] {
        assert_eq!(cluster.arvados.calls_to(&path), calls, "{path}");
    }
    assert_eq!(cluster.calls(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_costs_a_handful_of_look_ups_and_a_known_container_goes_on() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let known = cluster.url(format!("{}-80", container.uuid), "/x");
    assert_eq!(cluster.request("GET", &known, None).await.status(), 200);
    let before = cluster.calls();
    let mut found = 0;
    for n in 0..1000 {
        let guess = cluster.url(format!("zzzzz-dz642-{n:015}-80"), "/x");
        match cluster.request("GET", &guess, None).await.status() {
            404 => found += 1,
            status => assert_eq!(status, 503, "neither there nor not there"),
        }
    }
    assert!(found > 0);
    assert!(
        cluster.calls() - before <= 80,
        "{} calls",
        cluster.calls() - before
    );
    assert_eq!(cluster.request("GET", &known, None).await.status(), 200);
    // The same wrong address again and again costs one look-up in five seconds.
    cluster.world.manual_clock.advance(60 * SECOND);
    let wrong = cluster.url("zzzzz-dz642-zzzzzzzzzzzzzzz-80", "/x");
    let before = cluster
        .arvados
        .calls_to("/arvados/v1/containers/zzzzz-dz642-zzzzzzzzzzzzzzz");
    for _ in 0..20 {
        assert_eq!(cluster.request("GET", &wrong, None).await.status(), 404);
    }
    assert_eq!(
        cluster
            .arvados
            .calls_to("/arvados/v1/containers/zzzzz-dz642-zzzzzzzzzzzzzzz"),
        before + 1
    );
    // What has no port is not even looked up.
    let before = cluster.calls();
    for label in [
        "zzzzz-tpzed-000000000000000-80",
        "zzzzz-4zz18-000000000000000",
        "zzzzz-gj3su-000000000000000-1",
    ] {
        assert_eq!(
            cluster
                .request("GET", &cluster.url(label, "/x"), None)
                .await
                .status(),
            404,
            "{label}"
        );
    }
    assert_eq!(cluster.calls(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_record_counts_within_seconds() {
    let cluster = Cluster::start().await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", container.uuid), "/x");
    assert_eq!(cluster.request("GET", &url, None).await.status(), 200);
    cluster.arvados.set_published(
        &container.uuid,
        serde_json::json!({"80": {"access": "private"}}),
    );
    cluster.world.manual_clock.advance(5 * SECOND);
    // The first one after five seconds has the record read again; those behind it find the new one.
    until_async("closed", async || {
        cluster.request("GET", &url, None).await.status() == 401
    })
    .await;
    assert_eq!(
        cluster
            .arvados
            .calls_to(&format!("/arvados/v1/containers/{}", container.uuid)),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_is_away_what_is_known_goes_on_and_what_is_not_is_503() {
    for fault in [
        Fault::Close,
        Fault::Status(500),
        Fault::Status(503),
        Fault::Garbage,
        Fault::Redirect,
    ] {
        let cluster = Cluster::start().await;
        let known = cluster.container(&[&cluster.alice]).await;
        let unknown = cluster.container(&[&cluster.alice]).await;
        let url = cluster.url(format!("{}-8080", known.uuid), "/x");
        let mut alice = cluster.visitor();
        let cookie = format!("Cookie: arvados_api_token={}\r\n", cluster.alice.token_v2);
        assert_eq!(
            alice
                .send("GET", &url, From::Fetch, &cookie, b"")
                .await
                .status(),
            200
        );
        cluster.arvados.fail(Some(fault));
        for _ in 0..4 {
            cluster.world.manual_clock.advance(240 * SECOND);
            assert_eq!(
                alice.send("GET", &url, From::Fetch, "", b"").await.status(),
                200,
                "{fault:?}"
            );
        }
        for other in [format!("{}-80", unknown.uuid), "a-name".to_owned()] {
            let answer = cluster
                .request("GET", &cluster.url(&other, "/x"), None)
                .await;
            assert_eq!(answer.status(), 503, "{fault:?} {other}");
            assert!(answer.header("retry-after").is_some());
        }
        // A token that was never verified cannot be checked now: the request is refused.
        assert_eq!(
            cluster
                .request("GET", &url, Some(&cluster.bob))
                .await
                .status(),
            503,
            "{fault:?}"
        );
        assert_eq!(
            cluster.arvados.calls_to(ELSEWHERE),
            0,
            "no redirect is followed"
        );
        cluster.arvados.fail(None);
        cluster.world.manual_clock.advance(5 * SECOND);
        let found = cluster
            .request(
                "GET",
                &cluster.url(format!("{}-80", unknown.uuid), "/x"),
                None,
            )
            .await;
        assert_eq!(found.status(), 200, "{fault:?}: and it recovers by itself");
        cluster.world.check_oracles().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_during_a_look_up_is_logged_without_a_decision() {
    let cluster = Cluster::start().await;
    cluster.arvados.fail(Some(Fault::Hang));
    let address = cluster.world.running.address;
    let mut raw = Raw::connect(address).await;
    raw.send(format!(
        "GET /left HTTP/1.1\r\nHost: zzzzz-dz642-000000000000000-80.localhost:{}\r\n\r\n",
        address.port()
    ))
    .await;
    let inside = cluster.world.running.internals();
    until("the request waits", || inside.requests_in_flight() == 1).await;
    drop(raw);
    let line = cluster.world.log.line_with("/left").await;
    let logged = ["status", "decision", "reason", "outcome"].map(|field| &line[field]);
    assert_eq!(
        logged,
        [
            &json!(499),
            &json!("undecided"),
            &json!("client_closed"),
            &json!("client_closed")
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_hangs_does_not_delay_known_users() {
    let cluster = Cluster::start().await;
    let known = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", known.uuid), "/x");
    assert_eq!(cluster.request("GET", &url, None).await.status(), 200);
    cluster.arvados.fail(Some(Fault::Hang));
    // A request for an unknown container waits for the API.
    let waiting = {
        let (address, port) = (
            cluster.world.running.address,
            cluster.world.running.address.port(),
        );
        tokio::spawn(async move {
            let host = format!("zzzzz-dz642-000000000000000-80.localhost:{port}");
            Raw::exchange(address, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
                .await
                .status()
        })
    };
    // Requests for known containers do not wait, also while their records are read again.
    cluster.world.manual_clock.advance(30 * SECOND);
    for _ in 0..10 {
        assert_eq!(cluster.request("GET", &url, None).await.status(), 200);
    }
    assert!(!waiting.is_finished());
    assert_eq!(
        waiting.await.expect("no panic"),
        503,
        "after the deadline of a call"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_by_clients_that_leave_are_bounded_and_delay_no_other() {
    let cluster = Cluster::start().await;
    let address = cluster.world.running.address;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..400 {
        let request = format!(
            "GET /x HTTP/1.1\r\nHost: zzzzz-dz642-{n:015}-80.localhost:{}\r\n\r\n",
            address.port()
        );
        all.spawn(async move {
            let mut raw = Raw::connect(address).await;
            raw.send(request).await;
            // Every other one does not wait for the answer.
            if n % 2 == 0 {
                raw.answer().await.expect("an answer").status()
            } else {
                0
            }
        });
    }
    let statuses = tokio::time::timeout(PATIENCE, all.join_all())
        .await
        .expect("every request is answered");
    assert!(
        statuses.iter().all(|status| [0, 404, 503].contains(status)),
        "{statuses:?}"
    );
    // Two calls a look-up.
    assert!(cluster.calls() <= 2 * 200, "{} calls", cluster.calls());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_that_polls_a_dead_name_leaves_look_ups_to_others() {
    let cluster = Cluster::start().await;
    let dead = cluster.url("dead-name", "/x");
    for _ in 0..200 {
        assert_eq!(cluster.request("GET", &dead, None).await.status(), 404);
        cluster
            .world
            .manual_clock
            .advance(Duration::from_millis(100));
    }
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", container.uuid), "/x");
    assert_eq!(cluster.request("GET", &url, None).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_threads_keep_connections_of_their_own_and_give_up_those_of_a_changed_record() {
    let cluster = Cluster::with_threads(2, "").await;
    let container = cluster.container(&[&cluster.alice]).await;
    let url = cluster.url(format!("{}-80", container.uuid), "/x");
    let each = |count: usize| {
        let (cluster, url) = (&cluster, &url);
        async move {
            for _ in 0..count {
                assert_eq!(cluster.request("GET", url, None).await.status(), 200);
            }
        }
    };
    each(40).await;
    let handshakes = cluster.arvados.handshakes(&container.uuid);
    assert!((1..=2).contains(&handshakes), "{handshakes}");
    cluster.arvados.set_state(&container.uuid, "Locked");
    cluster.arvados.set_state(&container.uuid, "Running");
    cluster.world.manual_clock.advance(61 * SECOND);
    each(40).await;
    assert!(cluster.arvados.handshakes(&container.uuid) <= handshakes + 2);
}
