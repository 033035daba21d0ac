//! What a hub does in the dialect of Nublado: statuses, bodies and bytes of streams.

use http::Method;
use ludgate_labs::{events::LabEvent, options::USE_DROPDOWN, user::LabUser};
use serde_json::{Value, json};

use crate::{
    data::Data,
    labs::NUBLADO,
    memory::Site,
    routes::{Answer, BASE_URL, TestRoutes, wait_for, without_ids},
    streams::stream,
};

pub(crate) const RACHEL: &str = "rachel";

/// A site of the data: its configuration, and the images and nodes of the names.
pub(crate) fn site(data: &Data, config: &str, nodes: &str) -> Site {
    Site {
        config: data.config(config).into(),
        catalog: data.catalog(config, "standard", nodes).into(),
        dialect: NUBLADO,
    }
}

pub(crate) fn standard(data: &Data, runs_at_once: bool) -> TestRoutes {
    let site = site(data, "standard", "standard");
    TestRoutes::new(&site, &[data.user(RACHEL)], runs_at_once)
}

pub(crate) fn body(data: &Data) -> Value {
    data.json("base/lab-specification.json")
}

/// The error of an answer, compared as a whole.
fn assert_fails(answer: &Answer, status: u16, detail: Value) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.json(), json!({ "detail": [detail] }));
}

fn unknown_user() -> Value {
    let message = format!("Unknown user {RACHEL}");
    json!({ "loc": ["path", "username"], "msg": message, "type": "unknown_user" })
}

fn denied() -> Value {
    json!({ "msg": "Permission denied", "type": "permission_denied" })
}

pub(crate) async fn assert_created(routes: &TestRoutes, body: &Value) {
    let created = routes.create(RACHEL, body).await;
    assert_eq!((created.status, created.body.as_str()), (201, ""));
    let expected = format!("{BASE_URL}/nublado/spawner/v1/labs/{RACHEL}");
    assert_eq!(TestRoutes::location(&created), expected);
}

pub(crate) async fn events(routes: &TestRoutes) -> String {
    let answer = routes.get("labs/rachel/events", RACHEL).await;
    assert_eq!(answer.status, 200);
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(answer.headers[name], value);
    }
    without_ids(&answer.body)
}

async fn status(routes: &TestRoutes) -> String {
    let answer = routes.get("labs/rachel", "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["status"]
        .as_str()
        .expect("a status")
        .to_owned()
}

pub(crate) fn a_lab_is_started_and_stopped(data: &Data) {
    let routes = standard(data, true);
    let specification = body(data);
    let options = &specification["options"];
    let form = json!({
        "options": {
            "image_list": [USE_DROPDOWN],
            "image_dropdown": [options["image_list"]],
            "size": [options["size"]],
        },
        "env": specification["env"],
    });
    wait_for(async {
        let none = routes.get("labs", "").await;
        assert_eq!((none.status, none.json()), (200, json!([])));
        for (path, user) in [("labs/rachel", ""), ("labs/rachel/events", RACHEL)] {
            assert_fails(&routes.get(path, user).await, 404, unknown_user());
        }
        assert_fails(&routes.delete(RACHEL).await, 404, unknown_user());
        assert_created(&routes, &form).await;
        assert_eq!(
            events(&routes).await,
            stream(&data.json("spawn/events.json"))
        );
        let running = routes.get("labs", "").await;
        assert_eq!(running.json(), json!([RACHEL]));
        let lab = routes.get("labs/rachel", "").await;
        assert_eq!(lab.json(), data.json("spawn/lab-status.json"));
        let exists = json!({ "msg": "Lab already exists for rachel", "type": "lab_exists" });
        let again = routes.create(RACHEL, &specification).await;
        assert_fails(&again, 409, exists);
        let deleted = routes.delete(RACHEL).await;
        assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
        assert_eq!(routes.get("labs", "").await.json(), json!([]));
        assert_eq!(routes.get("labs/rachel", "").await.status, 404);
    });
}

pub(crate) fn a_dead_lab_is_replaced(data: &Data) {
    for phase in ["Failed", "Succeeded"] {
        let routes = standard(data, true);
        wait_for(async {
            assert_created(&routes, &body(data)).await;
            routes.labs.pod_is_in(RACHEL, phase);
            assert_eq!(status(&routes).await, "terminated");
            assert_created(&routes, &body(data)).await;
            let expected = stream(&data.json("spawn/events-recreate.json"));
            assert_eq!(events(&routes).await, expected);
            assert_eq!(status(&routes).await, "running");
        });
    }
}

pub(crate) fn a_lab_is_deleted_by_one_of_many(data: &Data) {
    let routes = standard(data, true);
    wait_for(async {
        assert_created(&routes, &body(data)).await;
        let (one, two, three) = tokio::join!(
            routes.delete(RACHEL),
            routes.delete(RACHEL),
            routes.delete(RACHEL)
        );
        let statuses = [one, two, three].map(|answer| answer.status);
        let is_fine = |status: &u16| [204, 404].contains(status);
        assert!(
            statuses.iter().all(is_fine) && statuses.contains(&204),
            "{statuses:?}"
        );
        assert_fails(&routes.delete(RACHEL).await, 404, unknown_user());
    });
}

/// Each listener of a start gets all events, and each later one as well.
pub(crate) fn all_listeners_get_all_events(data: &Data) {
    let routes = standard(data, false);
    wait_for(async {
        assert_created(&routes, &body(data)).await;
        assert_eq!(status(&routes).await, "pending");
        assert_eq!(routes.create(RACHEL, &body(data)).await.status, 409);
        let pod = async {
            tokio::task::yield_now().await;
            routes.labs.pod_is_made(RACHEL);
            routes.labs.pod_event(RACHEL, "A node is added");
            tokio::task::yield_now().await;
            routes.labs.pod_event(RACHEL, "A volume is attached");
            routes.labs.pod_runs(RACHEL);
        };
        let (one, two, ()) = tokio::join!(events(&routes), events(&routes), pod);
        let frame = |kind: &str, data: &str| format!("event: {kind}\r\ndata: {data}\r\n\r\n");
        let expected = [
            frame(
                "info",
                r#"{"message": "Starting lab creation for rachel", "progress": 1}"#,
            ),
            frame(
                "info",
                r#"{"message": "Created Kubernetes objects for user lab", "progress": 30}"#,
            ),
            frame("info", r#"{"message": "A node is added", "progress": 35}"#),
            frame(
                "info",
                r#"{"message": "A volume is attached", "progress": 48}"#,
            ),
            frame(
                "complete",
                r#"{"message": "Lab Kubernetes pod started for rachel"}"#,
            ),
        ]
        .concat();
        assert_eq!(one, expected);
        assert_eq!(two, expected);
        assert_eq!(status(&routes).await, "running");
        assert_eq!(events(&routes).await, expected);
    });
}

pub(crate) fn a_start_is_cancelled(data: &Data) {
    let routes = standard(data, false);
    wait_for(async {
        assert_created(&routes, &body(data)).await;
        assert_eq!(status(&routes).await, "pending");
        assert_eq!(routes.delete(RACHEL).await.status, 204);
        assert_fails(&routes.get("labs/rachel", "").await, 404, unknown_user());
    });
}

/// That the pod waits for its account is seen with a real API server only.
pub(crate) fn a_lab_is_pending_until_its_pod_runs(data: &Data) {
    let routes = standard(data, false);
    wait_for(async {
        assert_created(&routes, &body(data)).await;
        assert_eq!(status(&routes).await, "pending");
        let lab = routes.get("labs/rachel", "").await.json();
        assert_eq!(lab["internal_url"], json!(null));
        routes.labs.pod_is_made(RACHEL);
        routes.labs.pod_runs(RACHEL);
        assert_eq!(status(&routes).await, "running");
    });
}

pub(crate) fn the_status_of_the_caller_is_that_of_the_lab(data: &Data) {
    let routes = standard(data, true);
    wait_for(async {
        let unknown = json!({ "msg": "Unknown user rachel", "type": "unknown_user" });
        assert_fails(&routes.get("user-status", RACHEL).await, 404, unknown);
        let specification = body(data);
        let options = &specification["options"];
        let lists = json!({
            "options": { "image_list": [options["image_list"]], "size": [options["size"]] },
            "env": specification["env"],
        });
        assert_created(&routes, &lists).await;
        for _ in 0..2 {
            let answer = routes.get("user-status", RACHEL).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.json(), data.json("spawn/lab-status.json"));
        }
        assert_eq!(routes.delete(RACHEL).await.status, 204);
        assert_eq!(routes.get("user-status", RACHEL).await.status, 404);
    });
}

pub(crate) fn wrong_requests_are_answered(data: &Data) {
    let routes = standard(data, true);
    wait_for(async {
        for (method, path) in [
            (Method::POST, "labs/otheruser/create"),
            (Method::GET, "labs/otheruser/events"),
        ] {
            let answer = routes.call(method, path, RACHEL, Some(&body(data))).await;
            assert_fails(&answer, 403, denied());
        }
        let headers = [
            ("x-auth-request-user", RACHEL),
            ("x-auth-request-token", "some-invalid-token"),
        ];
        let path = "/nublado/spawner/v1/labs/otheruser/create";
        let text = body(data).to_string();
        let answer = routes.send(Method::POST, path, &headers, text).await;
        let invalid = json!({ "msg": "User token is invalid", "type": "invalid_token" });
        assert_fails(&answer, 401, invalid);
        for (options, status, [field, message, kind]) in wrong_options() {
            let body = json!({ "options": options, "env": body(data)["env"] });
            let location = json!(["body", "options", field]);
            let detail = json!({ "loc": location, "msg": message, "type": kind });
            assert_fails(&routes.create(RACHEL, &body).await, status, detail);
        }
        assert_eq!(routes.get("labs", "").await.json(), json!([]));
    });
}

/// Options, the status of the answer, and its field, message and type.
fn wrong_options() -> Vec<(Value, u16, [&'static str; 3])> {
    let image = "lighthouse.ceres/library/sketchbook";
    let no_tag = r#"Docker reference "lighthouse.ceres/library/sketchbook" has no tag"#;
    let of_all_fields = |list: &str, dropdown: Value| {
        json!({
            "image_list": list,
            "image_dropdown": dropdown,
            "image_class": null,
            "image_tag": null,
            "size": "small",
            "enable_debug": false,
            "reset_user_env": false,
        })
    };
    let tag = |tag: &str, size: &str| json!({ "image_tag": tag, "size": size });
    let insufficient = "Insufficient quota to spawn requested lab";
    vec![
        (
            of_all_fields(image, json!(null)),
            422,
            ["image_list", no_tag, "invalid_docker_reference"],
        ),
        (
            of_all_fields(USE_DROPDOWN, json!(image)),
            422,
            ["image_dropdown", no_tag, "invalid_docker_reference"],
        ),
        (
            tag("unknown", "small"),
            400,
            [
                "image_tag",
                r#"Docker tag "unknown" not found"#,
                "unknown_image",
            ],
        ),
        (
            json!({ "image_class": "latest-release", "size": "small" }),
            400,
            [
                "image_class",
                "No latest-release image found",
                "unknown_image",
            ],
        ),
        (
            tag("recommended", "gargantuan"),
            422,
            [
                "size",
                r#"Invalid lab size "gargantuan""#,
                "invalid_lab_size",
            ],
        ),
        (
            tag("recommended", "huge"),
            403,
            ["size", insufficient, "insufficient_quota"],
        ),
        (
            tag("recommended", "HUGE"),
            403,
            ["size", insufficient, "insufficient_quota"],
        ),
        (
            json!({ "image_list": "elsewhere.example/lab:w_2077_43", "size": "small" }),
            400,
            [
                "image_list",
                r#"Docker reference "elsewhere.example/lab:w_2077_43" not found"#,
                "unknown_image",
            ],
        ),
    ]
}

/// The calls that can fail while a lab is made, by what listeners are told.
pub(crate) fn failed_calls_are_told(data: &Data) {
    let routes = standard(data, false);
    wait_for(async {
        for (action, object) in [
            ("creating namespace", "Namespace userlabs-rachel"),
            ("reading object", "Secret nublado/extra-secret"),
            ("creating object", "Secret userlabs-rachel/rachel-nb"),
            ("creating object", "ConfigMap userlabs-rachel/rachel-nb-env"),
            ("creating object", "NetworkPolicy userlabs-rachel/rachel-nb"),
            ("creating object", "ResourceQuota userlabs-rachel/rachel-nb"),
            ("creating object", "Service userlabs-rachel/lab"),
            ("creating object", "Pod userlabs-rachel/rachel-nb"),
        ] {
            assert_created(&routes, &body(data)).await;
            let error = LabEvent::cluster_error(action, object, 400, "Something bad happened");
            routes.labs.spawn_fails(RACHEL, error);
            let message = format!("Error {action} ({object}, status 400): Something bad happened");
            let end = format!(
                "event: error\r\ndata: {{\"message\": \"{message}\"}}\r\n\r\n\
                 event: failed\r\ndata: {{\"message\": \"Lab spawn failed\"}}\r\n\r\n"
            );
            let events = events(&routes).await;
            assert!(events.ends_with(&end), "{events}");
            assert_eq!(status(&routes).await, "failed");
            assert_eq!(routes.delete(RACHEL).await.status, 204);
        }
    });
}

/// A person who may not start labs.
fn without_labs(data: &Data) -> LabUser {
    let mut user = data.user(RACHEL);
    if let Some(quota) = &mut user.quota {
        quota.may_spawn = false;
    }
    user
}

pub(crate) fn a_quota_forbids_labs(data: &Data) {
    let site = site(data, "standard", "standard");
    let routes = TestRoutes::new(&site, &[without_labs(data)], true);
    wait_for(async {
        let refused = routes.create(RACHEL, &body(data)).await;
        assert_eq!(refused.status, 403);
        let detail = &refused.json()["detail"][0];
        assert_eq!(detail["type"], "insufficient_quota");
        assert_eq!(routes.get("labs/rachel", "").await.status, 404);
        let form = routes.get("lab-form/rachel", RACHEL).await;
        assert_eq!(form.status, 200);
        assert!(!form.body.contains("<input"), "{}", form.body);
    });
}

pub(crate) fn the_form_is_for_its_person(data: &Data) {
    let routes = standard(data, true);
    wait_for(async {
        let form = routes.get("lab-form/rachel", RACHEL).await;
        assert_eq!(form.status, 200);
        assert_eq!(form.headers["content-type"], "text/html; charset=utf-8");
        let expected = crate::form::fields(&data.text("html/lab-form.html"));
        assert_eq!(crate::form::fields(&form.body), expected);
        let other = routes.get("lab-form/otheruser", RACHEL).await;
        assert_fails(&other, 403, denied());
    });
}

pub(crate) fn images_and_prepulls_are_answered(data: &Data) {
    for (config, nodes, file) in [
        ("standard", "standard", "prepuller/prepulls.json"),
        ("prepuller", "prepuller", "prepuller/status.json"),
    ] {
        let routes = TestRoutes::new(&site(data, config, nodes), &[], true);
        wait_for(async {
            let prepulls = routes.get("prepulls", "").await;
            assert_eq!(prepulls.status, 200);
            assert_eq!(prepulls.json(), data.json(file));
            let images = routes.get("images", "").await;
            assert_eq!(images.status, 200);
            if config == "standard" {
                assert_eq!(images.json(), data.json("images/standard.json"));
            }
        });
    }
}

pub(crate) fn the_service_describes_itself(data: &Data) {
    let routes = standard(data, true);
    wait_for(async {
        for (path, field) in [("/nublado", Some("metadata")), ("/", None)] {
            let answer = routes.send(Method::GET, path, &[], String::new()).await;
            assert_eq!(answer.status, 200);
            let described = answer.json();
            let described = field.map_or(&described, |field| &described[field]);
            assert_eq!(described["name"], data.config("standard").name);
            for text in ["version", "description", "repository_url"] {
                assert!(described[text].is_string(), "{text}");
            }
        }
    });
}
