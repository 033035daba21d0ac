//! The routes with labs in memory.

mod fakes;
mod file_servers;

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use futures_util::{FutureExt, StreamExt};
use http::Method;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use ludgate_ops::{drain::Drain, metrics::Registry};
use serde_json::Value;
use tokio::sync::Notify;

use super::*;
use crate::{
    config::LabsConfig,
    images::ImageCatalog,
    service::{file_servers::FileOperations, metrics::LabRequestMetrics},
};
use fakes::{FakeCallers, FakeLabs};

const CONFIG: &str = "lab:
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 1Gi }
        requests: { cpu: 1, memory: 1Gi }
    - size: large
      resources:
        limits: { cpu: 4, memory: 4Gi }
        requests: { cpu: 4, memory: 4Gi }
images:
  source: { type: docker, repository: a/b }
";

struct TestService {
    router: Router,
    deleted: Arc<Notify>,
    drain: Drain,
}

fn service(dialect: Dialect, goes_on: bool) -> TestService {
    let config = LabsConfig::from_yaml(CONFIG).unwrap();
    service_with(dialect, goes_on, config, FileOperations::default())
}

fn service_with(
    dialect: Dialect,
    goes_on: bool,
    config: LabsConfig,
    files: FileOperations,
) -> TestService {
    let config = Arc::new(config);
    let tags = ["w_2077_43".to_owned()];
    let digests = BTreeMap::from([("w_2077_43".to_owned(), "sha256:1".to_owned())]);
    let catalog = Arc::new(ImageCatalog::from_tags(&config.images, &tags, &digests));
    let labs = FakeLabs {
        goes_on,
        ..FakeLabs::default()
    };
    let deleted = labs.deleted.clone();
    let drain = Drain::new();
    let state = LabsState {
        service: Arc::new(labs),
        catalog: Box::new(move || catalog.clone()),
        callers: Arc::new(FakeCallers),
        config,
        dialect,
        urls: LabsUrls {
            base: "https://hub.example.com".to_owned(),
            sign_out: "https://hub.example.com/oauth2/sign_out".to_owned(),
        },
        metrics: LabRequestMetrics::register(&Registry::new()),
        files,
        drain: drain.watcher(),
    };
    TestService {
        router: router(state),
        deleted,
        drain,
    }
}

impl TestService {
    async fn send(
        &self,
        user: &str,
        method: Method,
        path: &str,
        headers: &[(&'static str, &'static str)],
        body: impl Into<Body>,
    ) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .body(body.into())
            .unwrap();
        let address = PeerAddress("127.0.0.1".parse().unwrap());
        request.extensions_mut().insert(address);
        if !user.is_empty() {
            let user = HeaderValue::from_str(user).unwrap();
            request.headers_mut().insert("x-user", user);
        }
        for (name, value) in headers {
            request
                .headers_mut()
                .insert(*name, HeaderValue::from_static(value));
        }
        let service = TowerToHyperService::new(self.router.clone());
        service.call(request).await.unwrap()
    }

    async fn get(&self, user: &str, path: &str) -> (u16, String) {
        let path = format!("/nublado{path}");
        text(self.send(user, Method::GET, &path, &[], "").await).await
    }

    async fn create(&self, headers: &[(&'static str, &'static str)]) -> Response {
        let path = "/nublado/spawner/v1/labs/rachel/create";
        let body = specification().to_string();
        self.send("rachel", Method::POST, path, headers, body).await
    }

    async fn delete(&self, headers: &[(&'static str, &'static str)]) -> Response {
        let path = "/nublado/spawner/v1/labs/rachel";
        self.send("hub", Method::DELETE, path, headers, "").await
    }
}

fn specification() -> Value {
    json!({
        "options": { "image_tag": ["w_2077_43"], "size": ["small"] },
        "env": { "JUPYTERHUB_SERVICE_PREFIX": "/nb/user/rachel/", "JUPYTERHUB_API_TOKEN": "t" },
    })
}

async fn text(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_lab_is_created_once_with_its_address() {
    for (dialect, expected) in [(Dialect::Nublado, 201), (Dialect::Sqr066, 303)] {
        let service = service(dialect, false);
        let created = service.create(&[]).await;
        assert_eq!(created.status().as_u16(), expected);
        assert_eq!(
            created.headers()[header::LOCATION],
            "https://hub.example.com/nublado/spawner/v1/labs/rachel"
        );
        let again = text(service.create(&[]).await).await;
        assert_eq!(again.0, 409);
        assert!(again.1.contains("lab_exists"), "{}", again.1);
        assert_eq!(
            service.get("hub", "/spawner/v1/labs").await,
            (200, "[\"rachel\"]".to_owned())
        );
    }
}

#[tokio::test]
async fn a_repeated_request_with_its_key_has_the_same_answer() {
    let service = service(Dialect::Nublado, false);
    let key = [("idempotency-key", "hub-1")];
    for expected in [201, 201] {
        assert_eq!(service.create(&key).await.status(), expected);
    }
    let other = service.create(&[("idempotency-key", "hub-2")]).await;
    assert_eq!(other.status(), 409);
    service.deleted.notify_one();
    assert_eq!(service.delete(&[]).await.status(), 204);
    // The lab of the first request is gone.
    assert_eq!(service.create(&key).await.status(), 201);
    assert_eq!(
        service.create(&[("idempotency-key", "")]).await.status(),
        422
    );
}

#[tokio::test]
async fn each_route_needs_its_scope_and_the_right_person() {
    let service = service(Dialect::Nublado, false);
    service.create(&[]).await;
    for (path, hub, rachel, ross, admin) in [
        ("/spawner/v1/labs", 200, 403, 403, 403),
        ("/spawner/v1/labs/rachel", 200, 403, 403, 403),
        ("/spawner/v1/labs/rachel/events", 403, 200, 403, 403),
        ("/spawner/v1/lab-form/rachel", 403, 200, 403, 403),
        ("/spawner/v1/user-status", 403, 200, 404, 403),
        ("/spawner/v1/images", 403, 403, 403, 200),
        ("/spawner/v1/prepulls", 403, 403, 403, 200),
        ("/discovery", 200, 200, 200, 200),
    ] {
        for (user, expected) in [
            ("hub", hub),
            ("rachel", rachel),
            ("ross", ross),
            ("admin", admin),
        ] {
            let (status, body) = service.get(user, path).await;
            assert_eq!(status, expected, "{user} {path} {body}");
        }
    }
    for user in ["hub", "ross"] {
        let path = "/nublado/spawner/v1/labs/rachel/create";
        let body = specification().to_string();
        let refused = service.send(user, Method::POST, path, &[], body).await;
        assert_eq!(refused.status(), 403, "{user}");
    }
    let path = "/nublado/spawner/v1/labs/rachel";
    let refused = service.send("rachel", Method::DELETE, path, &[], "").await;
    assert_eq!(refused.status(), 403);
}

#[tokio::test]
async fn callers_without_identity_and_names_that_are_none_are_refused() {
    let service = service(Dialect::Nublado, false);
    let path = "/nublado/spawner/v1/labs";
    let refused = service.send("", Method::GET, path, &[], "").await;
    assert_eq!(refused.headers()[header::WWW_AUTHENTICATE], "Bearer");
    let (status, body) = text(refused).await;
    assert_eq!(status, 401);
    assert_eq!(parsed(&body)["detail"][0]["type"], "invalid_token");
    for name in ["Rachel", "..%2Fx", "a.b", "%FF", &"x".repeat(300)] {
        let (status, body) = service
            .get("hub", &format!("/spawner/v1/labs/{name}"))
            .await;
        assert_eq!(status, 422, "{name} {body}");
    }
    assert_eq!(service.get("hub", "/other").await.0, 404);
    let wrong = service.send("hub", Method::POST, path, &[], "").await;
    assert_eq!(wrong.status(), 405);
}

#[tokio::test]
async fn bodies_are_bounded_and_unknown_fields_are_named() {
    let service = service(Dialect::Nublado, false);
    let path = "/nublado/spawner/v1/labs/rachel/create";
    let mut unknown = specification();
    unknown["options"]["color"] = json!("red");
    let large = json!({ "env": "x".repeat(300_000) });
    for (body, status, kind) in [
        (large.to_string(), 413, "too_long"),
        ("{".to_owned(), 422, "json_invalid"),
        (unknown.to_string(), 422, "extra_forbidden"),
    ] {
        let answer = service.send("rachel", Method::POST, path, &[], body).await;
        let (found, body) = text(answer).await;
        assert_eq!(found, status, "{body}");
        assert_eq!(parsed(&body)["detail"][0]["type"], kind, "{body}");
    }
    assert_eq!(service.get("hub", "/spawner/v1/labs").await.1, "[]");
}

#[tokio::test]
async fn a_deletion_is_awaited_unless_the_client_or_the_dialect_says_otherwise() {
    let service = service(Dialect::Nublado, false);
    service.create(&[]).await;
    let mut deletion = Box::pin(service.delete(&[]));
    assert!(deletion.as_mut().now_or_never().is_none());
    service.deleted.notify_one();
    assert_eq!(deletion.await.status(), 204);
    let (status, body) = text(service.delete(&[]).await).await;
    assert_eq!(status, 404);
    assert_eq!(
        parsed(&body)["detail"][0]["loc"],
        json!(["path", "username"])
    );
    service.create(&[]).await;
    let accepted = service.delete(&[("prefer", "wait=5, Respond-Async")]).await;
    assert_eq!(accepted.status(), 202);
    assert_eq!(accepted.headers()["preference-applied"], "respond-async");
    let service = self::service(Dialect::Sqr066, false);
    service.create(&[]).await;
    assert_eq!(service.delete(&[]).await.status(), 202);
}

#[tokio::test]
async fn answers_about_labs_have_the_fields_of_the_document() {
    for (dialect, lab, images) in [
        (Dialect::Nublado, "NubladoLab", "NubladoImages"),
        (Dialect::Sqr066, "Sqr066Lab", "Sqr066Images"),
    ] {
        let service = service(dialect, false);
        service.create(&[]).await;
        let document = parsed(&service.get("", "/openapi.json").await.1);
        let reader = if dialect == Dialect::Sqr066 {
            "hub"
        } else {
            "admin"
        };
        for (user, path, schema) in [
            ("hub", "/spawner/v1/labs/rachel", lab),
            ("rachel", "/spawner/v1/user-status", lab),
            (reader, "/spawner/v1/images", images),
            (reader, "/spawner/v1/prepulls", "PrepullsAnswer"),
        ] {
            let (status, body) = service.get(user, path).await;
            assert_eq!(status, 200, "{path} {body}");
            let described = &document["components"]["schemas"][schema]["properties"];
            let described = described.as_object().unwrap();
            let answered = parsed(&body);
            let answered = answered.as_object().unwrap();
            for field in answered.keys() {
                assert!(described.contains_key(field), "{path} {field}");
            }
            assert!(!answered.is_empty());
            assert!(!body.contains("JUPYTERHUB_API_TOKEN"), "{body}");
        }
    }
}

#[tokio::test]
async fn a_person_without_a_lab_is_in_the_path_or_is_not() {
    let service = service(Dialect::Nublado, false);
    let (status, body) = service.get("hub", "/spawner/v1/labs/rachel").await;
    assert_eq!(status, 404);
    assert_eq!(
        parsed(&body)["detail"][0]["loc"],
        json!(["path", "username"])
    );
    let (status, body) = service.get("rachel", "/spawner/v1/user-status").await;
    assert_eq!(status, 404);
    assert_eq!(
        parsed(&body),
        json!({ "detail": [{ "msg": "Unknown user rachel", "type": "unknown_user" }] })
    );
}

#[tokio::test]
async fn events_are_replayed_with_ids_and_resumed_after_the_last_one() {
    let service = service(Dialect::Nublado, false);
    service.create(&[]).await;
    let path = "/nublado/spawner/v1/labs/rachel/events";
    let answer = service.send("rachel", Method::GET, path, &[], "").await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(answer.headers()[name], value);
    }
    let first = "id: 7-0\r\nevent: info\r\ndata: {\"message\": \"Created Kubernetes objects for \
                 user lab\", \"progress\": 30}\r\n\r\n";
    let second = "id: 7-1\r\nevent: complete\r\ndata: {\"message\": \"Lab Kubernetes pod \
                  started for rachel\"}\r\n\r\n";
    assert_eq!(text(answer).await.1, format!("{first}{second}"));
    let headers = [("last-event-id", "7-0")];
    let answer = service
        .send("rachel", Method::GET, path, &headers, "")
        .await;
    assert_eq!(text(answer).await.1, second);
    // A listener that has all events gets none, and an end.
    let headers = [("last-event-id", "7-1")];
    let answer = service
        .send("rachel", Method::GET, path, &headers, "")
        .await;
    assert_eq!(text(answer).await, (200, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_has_comments_and_breaks_off_when_the_process_stops() {
    let service = service(Dialect::Nublado, true);
    service.create(&[]).await;
    let path = "/nublado/spawner/v1/labs/rachel/events";
    let headers = [("last-event-id", "7-0")];
    let answer = service
        .send("rachel", Method::GET, path, &headers, "")
        .await;
    let mut frames = answer.into_body().into_data_stream();
    let ping: Bytes = frames.next().await.unwrap().unwrap();
    assert!(ping.starts_with(b": ping - "), "{ping:?}");
    let TestService { router, drain, .. } = service;
    drop(router);
    let stop = tokio::spawn(drain.stop(std::time::Duration::from_secs(1)));
    assert!(frames.next().await.unwrap().is_err());
    drop(frames);
    assert!(stop.await.unwrap());
}

#[tokio::test]
async fn the_form_offers_what_the_quota_allows() {
    let service = service(Dialect::Nublado, false);
    let (status, form) = service.get("rachel", "/spawner/v1/lab-form/rachel").await;
    assert_eq!(status, 200);
    assert!(form.contains("value=\"small\""), "{form}");
    assert!(!form.contains("value=\"large\""), "{form}");
}

#[tokio::test]
async fn a_hub_finds_the_controller() {
    let service = service(Dialect::Nublado, false);
    for path in ["/discovery", "/nublado/discovery"] {
        let answer = service.send("", Method::GET, path, &[], "").await;
        let services = parsed(&text(answer).await.1)["services"].clone();
        assert_eq!(
            services["internal"]["nublado-controller"]["url"],
            "https://hub.example.com/nublado"
        );
    }
    let (_, external) = service.get("", "").await;
    assert_eq!(parsed(&external)["metadata"]["name"], "Nublado");
    let internal = service.send("", Method::GET, "/", &[], "").await;
    assert!(parsed(&text(internal).await.1)["version"].is_string());
}
