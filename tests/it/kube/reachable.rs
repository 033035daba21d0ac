//! An applied app can be opened, and a mistake in one app does not affect the others.

use std::time::{Duration, Instant};

use serde_json::json;

use super::namespace::Namespace;
use crate::support::{
    backend::Backend, kube_namespace::application, process::program, until::assert_soon,
};

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_application_that_kubectl_applies_is_reachable_within_a_second() {
    let namespace = Namespace::new().await;
    let app = namespace.running("bare", 0).await;
    let world = namespace.world().await;
    assert_eq!(
        world
            .exchange("GET /apps/bare/ HTTP/1.1\r\nHost: HOST\r\n\r\n")
            .await
            .status(),
        404
    );
    let written = application("bare", "public", json!({})).to_string();
    namespace.kubectl(&["apply", "-f", "-"], &written).await;
    let applied = Instant::now();
    world
        .until(|snapshot| snapshot.find("bare").is_some())
        .await;
    let answer = world
        .exchange("GET /apps/bare/x?y=1 HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(
        (answer.status(), answer.text().as_str()),
        (200, "bare /apps/bare/x")
    );
    assert_soon(SOON, applied.elapsed());
    assert_eq!(app.last().target(), "/apps/bare/x?y=1");
    assert_eq!(app.last().header("host"), Some(world.host.clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_and_groups_mean_what_they_say_and_anything_else_denies() {
    let namespace = Namespace::new().await;
    for (pod, (name, scope, more)) in (0..).zip([
        ("open", "public", json!({})),
        ("everyone", "primehub", json!({})),
        ("team", "group", json!({})),
        ("others", "group", json!({ "groupName": "other" })),
        ("odd", "Public", json!({})),
        ("no-group", "group", json!({ "groupName": "/" })),
    ]) {
        namespace.running(name, pod).await;
        namespace.app(name, scope, more).await;
    }
    let world = namespace.world().await;
    let mut alice = world.signed_in("alice").await;
    let mut anonymous = world.browser();
    for (name, without_session, person) in [
        ("open", 200, 200),
        ("everyone", 302, 200),
        ("team", 302, 200),
        ("others", 302, 403),
        ("odd", 403, 403),
        ("no-group", 403, 403),
    ] {
        let path = format!("/apps/{name}/");
        assert_eq!(
            anonymous.open(&path).await.status(),
            without_session,
            "{name}, anonymous"
        );
        assert_eq!(alice.open(&path).await.status(), person, "{name} for alice");
    }
    let listed = world.admin("/metrics", "").await.text();
    assert!(listed.contains("ludgate_catalog_problems 2"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rewrite_and_a_pods_own_port_are_honoured_and_app_root_is_no_link() {
    let namespace = Namespace::new().await;
    let app = namespace.running("lab", 0).await;
    namespace
        .app(
            "lab",
            "public",
            json!({ "rewrite": true, "appRoot": "/var/lib/lab", "displayName": "Lab <1>" }),
        )
        .await;
    let world = namespace.world().await;
    world
        .exchange("GET /apps/lab/a%2Fb//c HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(app.last().target(), "/a%2Fb//c");
    assert_eq!(
        app.last().header("x-forwarded-prefix").as_deref(),
        Some("/apps/lab")
    );
    let launcher = world.browser().open("/apps/").await.text();
    assert!(launcher.contains("href=\"/apps/lab/\""), "{launcher}");
    assert!(
        launcher.contains("Lab &#60;1&#62;") || launcher.contains("Lab &lt;1&gt;"),
        "{launcher}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_one_application_is_told_and_harms_that_one_only() {
    let namespace = Namespace::new().await;
    namespace.running("good", 0).await;
    namespace.app("good", "public", json!({})).await;
    namespace.running("silent", 1).await;
    let silent = application("silent", "public", json!({ "httpPort": null }));
    namespace
        .kubectl(&["apply", "-f", "-"], &silent.to_string())
        .await;
    namespace.running("later", 2).await;
    namespace.app("later", "public", json!({})).await;
    namespace
        .app("zzzzz-dz642-queuedcontainer-80", "public", json!({}))
        .await;
    let world = namespace.world().await;
    let status = async |name: &str| {
        world
            .exchange(&format!("GET /apps/{name}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            .await
            .status()
    };
    assert_eq!(status("good").await, 200);
    assert_eq!(status("silent").await, 404);
    assert_eq!(status("later").await, 200);
    // A port that is none: the app keeps its last good form, and its rule is the one that is
    // written now.
    namespace
        .app("later", "group", json!({ "httpPort": 70000 }))
        .await;
    world
        .until(|snapshot| {
            snapshot
                .problems()
                .iter()
                .any(|problem| problem.id == "later")
        })
        .await;
    assert_eq!(status("later").await, 401);
    assert_eq!(status("good").await, 200);
    let snapshot = world.running.internals().snapshot();
    let told: Vec<String> = snapshot
        .problems()
        .iter()
        .map(|problem| {
            format!(
                "{} {} {}",
                problem.object.rsplit('/').next().unwrap_or_default(),
                problem.what,
                problem.kept
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "later its httpPort is none: 1 to 65535 true",
            "silent it has no httpPort: there is nothing to open false",
            "zzzzz-dz642-queuedcontainer-80 its name has the form of an Arvados uuid false",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn people_keep_to_one_pod_and_move_on_when_it_is_gone() {
    let namespace = Namespace::new().await;
    let port = 5000;
    let pods: Vec<Backend> = (0..3)
        .map(|pod| Backend::on("wide", namespace.pods.listen(pod, port)))
        .collect();
    let addresses: Vec<_> = pods.iter().map(Backend::address).collect();
    namespace.endpoints("wide", &addresses).await;
    namespace.app("wide", "primehub", json!({})).await;
    let world = namespace.world().await;
    let mut alice = world.signed_in("alice").await;
    for _ in 0..6 {
        assert_eq!(alice.open("/apps/wide/").await.status(), 200);
    }
    let counts: Vec<usize> = pods.iter().map(Backend::count).collect();
    let hers = counts
        .iter()
        .position(|count| *count == 6)
        .unwrap_or_else(|| panic!("one pod has all: {counts:?}"));
    let left: Vec<_> = addresses
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != hers)
        .map(|(_, pod)| *pod)
        .collect();
    namespace.endpoints("wide", &left).await;
    let gone = addresses[hers].to_string();
    world
        .until(|snapshot| {
            snapshot
                .find("wide")
                .is_some_and(|app| !format!("{:?}", app.spec.upstream).contains(&gone))
        })
        .await;
    for _ in 0..4 {
        assert_eq!(alice.open("/apps/wide/").await.status(), 200);
    }
    assert_eq!(
        pods[hers].count(),
        6,
        "nothing more is sent to a pod that is not ready"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_refuses_is_passed_over_for_one_that_does_not() {
    let namespace = Namespace::new().await;
    let alive = Backend::on("half", namespace.pods.listen(1, 5000));
    let mut dead = alive.address();
    dead.set_ip(namespace.pods.unused_address());
    namespace.endpoints("half", &[dead, alive.address()]).await;
    namespace.app("half", "primehub", json!({})).await;
    let world = namespace.world().await;
    for person in ["alice", "bob", "carol"] {
        let mut browser = world.signed_in(person).await;
        assert_eq!(browser.open("/apps/half/").await.status(), 200, "{person}");
    }
    assert_eq!(alive.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_asks_the_cluster_and_says_what_is_wrong_with_an_application() {
    let namespace = Namespace::new().await;
    namespace.running("good", 0).await;
    namespace.app("good", "group", json!({})).await;
    namespace
        .app("bad", "public", json!({ "httpPort": 70000 }))
        .await;
    namespace.app("late", "public", json!({})).await;
    namespace
        .status(
            "late",
            json!({ "phase": "Starting", "message": "pulling the image" }),
        )
        .await;
    let config = namespace.kubeconfig().with_file_name("ludgate.toml");
    let site = "[site]\nurl = \"http://127.0.0.1:8080\"\n[identity]\nissuer = \"http://127.0.0.1:9700\"\nclient_id = \"ludgate\"\n";
    std::fs::write(&config, format!("{site}{}", namespace.toml())).expect("written");
    let explain = async |path: &str, more: &[&str]| {
        let output = tokio::process::Command::new(program())
            .args(["explain", "--config"])
            .arg(&config)
            .arg(path)
            .args(more)
            .output()
            .await
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let good = explain("/apps/good/x", &["--user", "alice", "--group", "phusers"]).await;
    assert!(
        good.contains("decision  allow (group)") && good.contains("app-good"),
        "{good}"
    );
    let bad = explain("/apps/bad/", &[]).await;
    assert!(
        bad.contains("/bad: its httpPort is none") && bad.contains("answer    404"),
        "{bad}"
    );
    let late = explain("/apps/late/", &[]).await;
    assert!(
        late.contains("state     starting: pulling the image") && late.contains("answer    503"),
        "{late}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_isolation_every_application_is_on_its_host_and_its_path_leads_there() {
    let namespace = Namespace::new().await;
    namespace.running("lab", 0).await;
    namespace.app("lab", "public", json!({})).await;
    let world = namespace.world_with("isolation = \"host\"").await;
    let led = world.browser().open("/apps/lab/x?y").await;
    assert_eq!(
        led.header("location"),
        Some(format!("{}/x?y", world.on_host("lab")))
    );
    let host = world
        .on_host("lab")
        .trim_start_matches("http://")
        .to_owned();
    let there = world
        .exchange(&format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .await;
    assert_eq!((there.status(), there.text().as_str()), (200, "lab /x"));
    let launcher = world.browser().open("/apps/").await.text();
    assert!(
        launcher.contains(&format!("href=\"{}/\"", world.on_host("lab"))),
        "{launcher}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_gateways_own_machine_is_no_app() {
    let namespace = Namespace::new().await;
    let own = std::net::TcpListener::bind((namespace.pods.ours(), 0)).expect("a port");
    let listening = Backend::on("operators", own);
    namespace.endpoints("ours", &[listening.address()]).await;
    namespace.app("ours", "public", json!({})).await;
    let world = namespace.world().await;
    let answer = world
        .exchange("GET /apps/ours/metrics HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(answer.status(), 502);
    assert_eq!(listening.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_that_the_service_names_is_the_one_and_no_other_of_that_number() {
    let namespace = Namespace::new().await;
    let admin = namespace.running("two", 0).await;
    // The slice has one port, `http`; the object's is `web`, and the other's number is what
    // `httpPort` says.
    let ports = json!({ "spec": { "ports": [{ "name": "web", "port": admin.address().port() }] } });
    namespace
        .app(
            "two",
            "public",
            json!({ "httpPort": admin.address().port(), "svcTemplate": ports }),
        )
        .await;
    let unnamed = json!({ "spec": { "ports": [] } });
    let world = namespace.world().await;
    let get = "GET /apps/two/ HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n\r\n";
    assert_eq!(world.exchange(get).await.json()["reason"], "starting");
    namespace
        .app(
            "two",
            "public",
            json!({ "httpPort": admin.address().port(), "svcTemplate": unnamed }),
        )
        .await;
    world.until_running("two").await;
    assert_eq!(world.exchange(get).await.status(), 200);
}
