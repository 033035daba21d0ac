//! What is published, and where it leads.

use serde_json::json;

use super::*;

fn object(object: &Value) -> Box<Object> {
    Box::new(serde_json::from_value(object.clone()).expect("an object"))
}

fn definition(expose: &Value) -> Value {
    json!({
        "metadata": { "name": "grafana" },
        "spec": { "displayName": "Grafana", "expose": expose },
    })
}

fn installation(status: &Value) -> Value {
    json!({
        "metadata": { "name": "dash", "namespace": "team", "generation": 2 },
        "spec": {
            "applicationRef": { "name": "grafana", "version": "1" },
            "namespace": { "name": "team-apps" },
        },
        "status": status,
    })
}

fn ready(generation: i64) -> Value {
    let condition = json!({ "status": "True", "observedGeneration": generation });
    json!({
        "conditions": { "Accepted": condition, "Ready": condition },
        "helmRelease": { "name": "team-dash", "info": { "status": "deployed" } },
        "placement": { "target": "self", "namespace": "team-apps" },
    })
}

/// The Service of the release, at the port 3000, and a slice with its pod.
fn service(release: &str) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "team-apps", "annotations": {
            "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "team-apps",
        } },
        "spec": {
            "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 3000 }],
        },
    })
}

fn slice(namespace: &str) -> Value {
    let pod = json!({ "addresses": ["10.0.0.7"], "targetRef": { "kind": "Pod", "uid": "1" } });
    json!({
        "metadata": { "name": "web-1", "namespace": namespace, "labels": {
            "kubernetes.io/service-name": "web",
        } },
        "addressType": "IPv4",
        "endpoints": [pod],
        "ports": [{ "name": "http", "port": 8080 }],
    })
}

/// A list of one object.
fn list(listed: &Value) -> [ObjectEvent; 3] {
    [
        ObjectEvent::Init,
        ObjectEvent::InitApply(object(listed)),
        ObjectEvent::InitDone,
    ]
}

fn watched(definition: &Value, installation: &Value, more: [&Value; 2]) -> WatchedInstallations {
    let mut watched = WatchedInstallations::new(1);
    let [service, slice] = more;
    for event in list(definition) {
        watched.apply_definition(event);
    }
    for event in list(installation) {
        watched.apply(0, event);
    }
    for event in list(service) {
        watched.services.apply_service(event);
    }
    assert!(!watched.is_known());
    for event in list(slice) {
        watched.services.apply_slice(event);
    }
    assert!(watched.is_known());
    watched
}

fn published_with(
    definition: &Value,
    installation: &Value,
    more: [&Value; 2],
) -> (Vec<AppSpec>, Vec<String>) {
    let watched = watched(definition, installation, more);
    let pods = ReadyPods::new(watched.slices());
    let mut problems = Vec::new();
    let specs = watched.specs(&pods, Duration::from_secs(1), &mut problems);
    let problems = problems.into_iter().map(|problem| problem.what);
    (specs, problems.collect())
}

fn published(definition: &Value, installation: &Value) -> (Vec<AppSpec>, Vec<String>) {
    let more = [&service("team-dash"), &slice("team-apps")];
    published_with(definition, installation, more)
}

#[test]
fn an_app_leads_to_the_service_of_its_definition() {
    let expose = json!({ "service": "web", "port": 3000, "access": "group:ops" });
    let (specs, problems) = published(&definition(&expose), &installation(&ready(2)));
    let [spec] = specs.as_slice() else {
        panic!("{specs:?}")
    };
    assert_eq!(spec.id.as_str(), "/team/dash");
    assert_eq!(&*spec.upstream.host, "web.team-apps.svc");
    assert_eq!(spec.upstream.port, 3000);
    let UpstreamScheme::Pods(pods) = &spec.upstream.scheme else {
        panic!("{:?}", spec.upstream);
    };
    assert_eq!(pods.to_vec(), [SocketAddr::from(([10, 0, 0, 7], 8080))]);
    assert_eq!(spec.access.to_string(), "group:ops");
    assert_eq!(spec.state, AppState::Running);
    assert_eq!(spec.name.as_deref(), Some("Grafana (dash)"));
    assert_eq!(problems, [""; 0]);
}

#[test]
fn nothing_is_reachable_before_the_controller_accepted_the_spec() {
    let expose = json!({ "service": "web", "port": 3000, "access": "user" });
    let mut refused = ready(2);
    refused["conditions"]["Ready"] =
        json!({ "status": "False", "observedGeneration": 2, "message": "no right" });
    refused["helmRelease"] = json!(null);
    let mut upgrading = ready(2);
    upgrading["conditions"]["Ready"]["status"] = "Unknown".into();
    for (status, wanted) in [
        (json!(null), AppState::Starting),
        (ready(1), AppState::Starting),
        (ready(2), AppState::Running),
        (upgrading, AppState::Running),
        (refused, AppState::Failed),
    ] {
        let (specs, _) = published(&definition(&expose), &installation(&status));
        assert_eq!(specs[0].state, wanted, "{status}");
    }
    let mut deleted = installation(&ready(2));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let (specs, _) = published(&definition(&expose), &deleted);
    assert_eq!(specs[0].state, AppState::Stopping);
}

#[test]
fn an_unknown_rule_denies_and_a_wrong_service_publishes_nothing() {
    let web = |access: &Value| json!({ "service": "web", "port": 80, "access": access });
    for access in [json!("User"), json!("group:"), json!(""), json!(null)] {
        let (specs, problems) = published(&definition(&web(&access)), &installation(&ready(2)));
        assert!(matches!(specs[0].access, Access::Unknown(_)), "{access}");
        assert_eq!(problems.len(), 1);
    }
    for expose in [
        json!({ "service": "a.b", "port": 80, "access": "user" }),
        json!({ "service": "web", "port": 0, "access": "user" }),
        json!({ "service": "web", "port": 65536, "access": "user" }),
        json!({}),
    ] {
        let (specs, problems) = published(&definition(&expose), &installation(&ready(2)));
        assert!(specs.is_empty() && problems.len() == 1, "{expose}");
    }
    let (specs, problems) = published(&definition(&json!(null)), &installation(&ready(2)));
    assert!(specs.is_empty() && problems.is_empty());
    let mut elsewhere = installation(&ready(2));
    elsewhere["status"]["placement"]["target"] = "edge".into();
    let (specs, problems) = published(&definition(&web(&json!("user"))), &elsewhere);
    assert!(specs.is_empty());
    assert_eq!(problems, ["it is on the target \"edge\""]);
}

#[test]
fn an_app_is_reachable_only_by_the_service_of_its_release_where_it_was_permitted() {
    let expose = json!({ "service": "web", "port": 3000, "access": "user" });
    let definition = definition(&expose);
    let installed = installation(&ready(2));
    let mut unplaced = installed.clone();
    unplaced["status"]["placement"] = json!(null);
    // The spec and the labels are its author's.
    unplaced["metadata"]["labels"] = json!({ "ludgate.dev/target": "self" });
    let mut unnamed = installed.clone();
    unnamed["status"]["helmRelease"]["name"] = json!(null);
    let own = service("team-dash");
    let other = service("team-other");
    let (here, there) = (slice("team-apps"), slice("team"));
    for (installation, service, slice, wanted) in [
        (&installed, &own, &here, AppState::Running),
        (&installed, &own, &there, AppState::Starting),
        (&installed, &other, &here, AppState::Failed),
        (&unplaced, &own, &here, AppState::Starting),
        (&unnamed, &own, &here, AppState::Starting),
    ] {
        let (specs, problems) = published_with(&definition, installation, [service, slice]);
        assert_eq!(specs[0].state, wanted, "{installation} {service} {slice}");
        let UpstreamScheme::Pods(pods) = &specs[0].upstream.scheme else {
            panic!("{:?}", specs[0].upstream);
        };
        assert_eq!(pods.is_empty(), wanted != AppState::Running);
        assert_eq!(problems, [""; 0]);
    }
}
