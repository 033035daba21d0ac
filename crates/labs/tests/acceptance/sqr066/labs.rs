//! Routes of labs: each with status, headers and whole bodies.

use http::Method;
use ludgate_labs::events::LabEvent;
use serde_json::{Value, json};

use super::{form, parsed, person, site};
use crate::routes::{BASE_URL, TestRoutes, wait_for, without_ids};

fn routes(runs_at_once: bool) -> TestRoutes {
    TestRoutes::new(&site(), &[person("nina"), person("omar")], runs_at_once)
}

const RUNNING: &str = r#"{
    "username": "nina",
    "status": "running",
    "pod": "present",
    "internal_url": "http://nb-nina.nublado-nina:8888",
    "options": {
        "enable_debug": true,
        "image_list": "registry.example.com/people/lab:w_2024_10",
        "reset_user_env": true,
        "size": "large"
    },
    "env": { "JUPYTERHUB_API_URL": "http://hub.example:8081/nb/hub/api" },
    "uid": 40001,
    "gid": 40001,
    "groups": [
        { "name": "observers", "id": 50010 },
        { "name": "nina", "id": 40001 }
    ],
    "quotas": {
        "limits": { "cpu": 4.0, "memory": 12884901888 },
        "requests": { "cpu": 4.0, "memory": 1073741824 }
    },
    "events": [
        { "event": "info", "data": "lab creation initiated for nina" },
        { "event": "progress", "data": "2" },
        { "event": "info", "data": "Created Kubernetes objects for user lab" },
        { "event": "progress", "data": "30" },
        { "event": "complete", "data": "Operation complete for nina" }
    ]
}"#;

fn frames(events: &[(&str, &str)]) -> String {
    let frames = events.iter();
    frames
        .map(|(event, data)| format!("event: {event}\r\ndata: {data}\r\n\r\n"))
        .collect()
}

/// The events of a status, as a stream has them.
fn stream(status: &Value) -> String {
    let events = status["events"].as_array().expect("a list").iter();
    let text = |event: &Value, name: &str| event[name].as_str().expect("a text").to_owned();
    let pairs: Vec<(String, String)> = events
        .map(|event| (text(event, "event"), text(event, "data")))
        .collect();
    let pairs = pairs.iter();
    let pairs: Vec<(&str, &str)> = pairs
        .map(|(event, data)| (event.as_str(), data.as_str()))
        .collect();
    frames(&pairs)
}

async fn events(routes: &TestRoutes) -> String {
    let answer = routes.get("labs/nina/events", "nina").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    without_ids(&answer.body)
}

async fn assert_created(routes: &TestRoutes, body: &Value) {
    let created = routes.create("nina", body).await;
    assert_eq!(created.status, 303, "{}", created.body);
    let expected = format!("{BASE_URL}/nublado/spawner/v1/labs/nina");
    assert_eq!(TestRoutes::location(&created), expected);
}

#[test]
fn the_persons_with_labs_are_listed() {
    let routes = routes(true);
    wait_for(async {
        for username in ["omar", "nina"] {
            assert_eq!(routes.create(username, &form()).await.status, 303);
        }
        let listed = routes.get("labs", "").await;
        assert_eq!(
            (listed.status, listed.json()),
            (200, json!(["nina", "omar"]))
        );
    });
}

#[test]
fn a_lab_is_created_from_a_form_or_from_plain_values() {
    let mut plain = form();
    plain["options"] = json!({
        "enable_debug": true,
        "image_list": "registry.example.com/people/lab:w_2024_10",
        "reset_user_env": true,
        "size": "large",
    });
    for body in [form(), plain] {
        let routes = routes(true);
        wait_for(async {
            assert_created(&routes, &body).await;
            for (path, username) in [("labs/nina", ""), ("user-status", "nina")] {
                let answer = routes.get(path, username).await;
                assert_eq!((answer.status, answer.json()), (200, parsed(RUNNING)));
            }
            let again = routes.create("nina", &body).await;
            let exists = json!({ "msg": "Lab already exists for nina", "type": "lab_exists" });
            let exists = json!({ "detail": [exists] });
            assert_eq!((again.status, again.json()), (409, exists));
        });
    }
}

#[test]
fn progress_has_events_of_its_own_and_the_stream_ends_with_the_operation() {
    let routes = routes(true);
    wait_for(async {
        assert_created(&routes, &form()).await;
        let expected = frames(&[
            ("info", "lab creation initiated for nina"),
            ("progress", "2"),
            ("info", "Created Kubernetes objects for user lab"),
            ("progress", "30"),
            ("complete", "Operation complete for nina"),
        ]);
        assert_eq!(events(&routes).await, expected);
        assert_eq!(stream(&parsed(RUNNING)), expected);
    });
}

#[test]
fn a_listener_follows_a_pending_lab() {
    let routes = routes(false);
    wait_for(async {
        assert_created(&routes, &form()).await;
        let pending = routes.get("labs/nina", "").await.json();
        assert_eq!(pending["status"], "pending");
        assert_eq!(pending.get("internal_url"), None);
        let pod = async {
            tokio::task::yield_now().await;
            routes.labs.pod_is_made("nina");
            routes.labs.pod_event("nina", "Pulling image");
            routes.labs.pod_runs("nina");
        };
        let (followed, ()) = tokio::join!(events(&routes), pod);
        let expected = frames(&[
            ("info", "lab creation initiated for nina"),
            ("progress", "2"),
            ("info", "Created Kubernetes objects for user lab"),
            ("progress", "30"),
            ("info", "Pulling image"),
            ("progress", "35"),
            ("complete", "Operation complete for nina"),
        ]);
        assert_eq!(followed, expected);
    });
}

#[test]
fn a_failed_lab_is_kept_until_the_next_one_takes_its_place() {
    let routes = routes(false);
    wait_for(async {
        assert_created(&routes, &form()).await;
        let error = LabEvent::error("The pod does not start");
        routes.labs.spawn_fails("nina", error);
        let mut expected = parsed(RUNNING);
        expected["status"] = "failed".into();
        expected["pod"] = "missing".into();
        expected["events"] = json!([
            { "event": "info", "data": "lab creation initiated for nina" },
            { "event": "progress", "data": "2" },
            { "event": "error", "data": "The pod does not start" },
            { "event": "failed", "data": "Lab spawn failed" },
        ]);
        let fields = expected.as_object_mut().expect("an object");
        fields.remove("internal_url");
        assert_eq!(routes.get("labs/nina", "").await.json(), expected);
        assert_eq!(events(&routes).await, stream(&expected));
        assert_created(&routes, &form()).await;
        let replaced = routes.get("labs/nina", "").await.json();
        assert_eq!(replaced["status"], "pending");
        let told = replaced["events"].to_string();
        assert!(!told.contains("The pod does not start"), "{told}");
        // A pod that has ended is a failed lab as well: the document has no other word.
        routes.labs.pod_is_made("nina");
        routes.labs.pod_runs("nina");
        routes.labs.pod_is_in("nina", "Succeeded");
        let ended = routes.get("labs/nina", "").await.json();
        assert_eq!(
            (&ended["status"], &ended["pod"]),
            (&json!("failed"), &json!("present"))
        );
        assert_eq!(ended.get("internal_url"), None);
    });
}

#[test]
fn a_deletion_is_accepted_and_followed_by_its_events() {
    let routes = routes(true);
    wait_for(async {
        let unknown = routes.delete("nina").await;
        assert_eq!(unknown.status, 404);
        assert_created(&routes, &form()).await;
        let accepted = routes.delete("nina").await;
        assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
        let expected = frames(&[
            ("info", "Deleting lab for nina"),
            ("progress", "1"),
            ("info", "Shutting down Kubernetes pod"),
            ("progress", "25"),
            ("info", "Deleting user namespace"),
            ("progress", "50"),
            ("complete", "Lab for nina deleted"),
        ]);
        assert_eq!(events(&routes).await, expected);
        for (path, username) in [("labs/nina", ""), ("user-status", "nina")] {
            assert_eq!(routes.get(path, username).await.status, 404);
        }
    });
}

#[test]
fn the_form_has_the_options_of_a_lab_and_is_for_its_person() {
    let routes = routes(true);
    wait_for(async {
        let form = routes.get("lab-form/nina", "nina").await;
        assert_eq!(form.status, 200);
        assert_eq!(form.headers["content-type"], "text/html; charset=utf-8");
        let fields = crate::form::fields(&form.body);
        let mut options = json!({});
        for [kind, name, _, value, is_chosen, _] in &fields {
            // What a browser sends: what is checked, and the first entry of the list.
            let is_entry = kind.starts_with("option") && options["image_dropdown"].is_null();
            if is_entry {
                options["image_dropdown"] = json!([value]);
            } else if is_chosen == "true" || kind.contains("checkbox") {
                options[name] = json!([value]);
            }
        }
        let expected = json!({
            "enable_debug": ["true"],
            "image_dropdown": ["registry.example.com/people/lab:recommended@sha256:09"],
            "image_list": ["registry.example.com/people/lab:recommended@sha256:09"],
            "reset_user_env": ["true"],
            "size": ["small"],
        });
        assert_eq!(options, expected);
        let body = json!({ "options": options, "env": {} });
        assert_created(&routes, &body).await;
        for path in ["lab-form/omar", "labs/omar/events"] {
            assert_eq!(routes.get(path, "nina").await.status, 403);
        }
        let path = "labs/omar/create";
        let other = routes.call(Method::POST, path, "nina", Some(&body)).await;
        assert_eq!(other.status, 403);
    });
}

#[test]
fn a_bot_names_a_tag_or_a_type_of_image_and_a_size() {
    for (options, shown) in [
        (
            json!({ "image_type": "recommended", "size": "small" }),
            ("image_type", "recommended"),
        ),
        (
            json!({ "image_type": "latest-weekly", "size": "small" }),
            ("image_type", "latest-weekly"),
        ),
        (
            json!({ "image_type": "latest-daily", "size": "small" }),
            ("image_type", "latest-daily"),
        ),
        (
            json!({ "image_type": "latest-release", "size": "small" }),
            ("image_type", "latest-release"),
        ),
        (
            json!({ "image_tag": "w_2024_09", "size": "small" }),
            ("image_tag", "w_2024_09"),
        ),
        (
            json!({
                "image_type": ["latest-weekly"],
                "image_tag": ["w_2024_09"],
                "size": ["small"],
            }),
            ("image_tag", "w_2024_09"),
        ),
    ] {
        let routes = routes(true);
        wait_for(async {
            assert_created(&routes, &json!({ "options": options, "env": {} })).await;
            let (field, value) = shown;
            let mut expected = json!({
                "enable_debug": false,
                "reset_user_env": false,
                "size": "small",
            });
            expected[field] = value.into();
            let lab = routes.get("labs/nina", "").await.json();
            assert_eq!(lab["options"], expected);
        });
    }
}
