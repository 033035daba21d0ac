//! The admin listener: probes and metrics open, the rest behind a token, nothing of it on the
//! public listener.

use ludgate::model::{access::Access, secret::Secret};

use crate::support::{browser::From, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_metrics_are_open_and_never_public() {
    let world = World::new().await.ready().await;
    assert_eq!(world.admin("/livez", "").await.status(), 200);
    assert_eq!(world.admin("/readyz", "").await.text(), "ok\n");
    let verbose = world.admin("/readyz?verbose", "").await.text();
    assert!(
        verbose.starts_with("waiting for: nothing\ndegraded: nothing\n"),
        "{verbose}"
    );
    assert!(
        verbose.contains("identity provider: known") && verbose.contains("apps: 7"),
        "{verbose}"
    );
    let mut alice = world.signed_in("alice").await;
    alice.fetch("/apps/grp/x").await;
    alice.fetch("/apps/oth/x").await;
    world.log.line_with("not_in_group").await;
    let metrics = world.admin("/metrics", "").await.text();
    for line in [
        "ludgate_requests_total{class=\"program\",code=\"403\"} 1",
        "ludgate_decisions_total{decision=\"allow\",reason=\"group\"} 1",
        "ludgate_decisions_total{decision=\"deny\",reason=\"not_in_group\"} 1",
        "ludgate_oidc_requests_total{endpoint=\"token\",result=\"ok\"} 1",
        "ludgate_catalog_apps 7",
        "ludgate_build_info{version=",
        "ludgate_config_last_reload_success 1",
        "ludgate_request_duration_seconds_count",
        "ludgate_requests_in_flight",
        "ludgate_streams",
        "ludgate_session_lookups_total{result=\"sign_in\"}",
        "ludgate_upstream_connections",
        "ludgate_catalog_age_seconds",
        "ludgate_sessions",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    for unconfigured in [
        "ludgate_session_store_up",
        "ludgate_certificates_last_read_success",
        "ludgate_certificate_expires_seconds",
    ] {
        assert!(
            !metrics.contains(unconfigured),
            "an alert on 0 would fire: {unconfigured}"
        );
    }
    for name in ["alice", "grp", "/apps"] {
        assert!(
            !metrics.contains(name),
            "no app and no person in a label: {name}"
        );
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(
            world
                .browser()
                .send("GET", path, From::Program, "", b"")
                .await
                .status(),
            404,
            "{path}"
        );
    }
    assert_eq!(
        world.admin("/apps", "").await.status(),
        404,
        "without a token file the route does not exist"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_apps_needs_the_token_and_names_what_is_wrong() {
    let world = World::with("", |settings| {
        settings.admin.token = Some(Secret::new("admin-token-CANARY"));
        settings.apps[0].access = Access::parse("primehub");
    })
    .await;
    for more in [
        "",
        "Authorization: Bearer wrong\r\n",
        "Authorization: admin-token-CANARY\r\n",
    ] {
        assert_eq!(world.admin("/apps", more).await.status(), 401, "{more:?}");
    }
    let answer = world
        .admin("/apps", "Authorization: Bearer admin-token-CANARY\r\n")
        .await;
    assert_eq!(answer.status(), 200);
    let apps = answer.json()["apps"].as_array().cloned().expect("a list");
    let broken: Vec<_> = apps
        .iter()
        .filter(|app| !app["problem"].is_null())
        .collect();
    assert_eq!((apps.len(), broken.len()), (7, 1));
    assert!(
        broken[0]["problem"]
            .as_str()
            .expect("a text")
            .contains("primehub")
    );
    let rebound = format!(
        "GET /apps HTTP/1.1\r\nHost: evil.test:{}\r\nAuthorization: Bearer admin-token-CANARY\r\n\r\n",
        world.running.admin.port()
    );
    let answer = crate::support::raw::Raw::exchange(world.running.admin, rebound).await;
    assert_eq!(
        answer.status(),
        401,
        "a page that rebinds its name gets nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_json_line_per_request_says_who_what_and_why() {
    let world = World::new().await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let answer = alice
        .send(
            "GET",
            "/apps/grp/some/path?token=CANARY-QUERY",
            From::Fetch,
            trace,
            b"",
        )
        .await;
    let line = world.log.line_with("/apps/grp/some/path").await;
    for (name, value) in [
        ("class", "program"),
        ("method", "GET"),
        ("path", "/apps/grp/some/path"),
        ("app", "grp"),
        ("subject", "alice"),
        ("decision", "allow"),
        ("reason", "group"),
        ("client", "127.0.0.1"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(line[name], value, "{name}: {line}");
    }
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes"].as_u64(), Some(answer.body.len() as u64));
    assert!(line["duration_ms"].as_f64() >= line["upstream_ms"].as_f64());
    assert_eq!(
        world
            .backend("grp")
            .last()
            .header("x-request-id")
            .as_deref(),
        line["request_id"].as_str()
    );
    assert!(!world.log.text().contains("CANARY-QUERY"));
    assert_eq!(
        world.backend("grp").last().header("traceparent").as_deref(),
        Some(trace[13..].trim())
    );
}
