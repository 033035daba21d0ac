//! The routes of file servers, with servers in memory.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use http::Method;
use serde_json::json;

use super::{CONFIG, TestService, parsed, service, service_with, text};
use crate::{
    config::LabsConfig,
    dialect::Dialect,
    error::LabError,
    service::file_servers::{FileOperations, FileServerOperations, FilesystemAdminOperations},
    user::LabUser,
};

/// Servers that run as soon as they are created.
#[derive(Default)]
struct FakeServers(Mutex<BTreeSet<String>>);

impl FileServerOperations for FakeServers {
    fn create<'a>(&'a self, user: &'a LabUser) -> BoxFuture<'a, Result<(), LabError>> {
        self.0.lock().unwrap().insert(user.username.clone());
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<(), LabError>> {
        let is_deleted = self.0.lock().unwrap().remove(username);
        let unknown = LabError::UnknownUser {
            username: username.to_owned(),
            is_in_path: false,
        };
        Box::pin(async move { is_deleted.then_some(()).ok_or(unknown) })
    }

    fn is_running(&self, username: &str) -> Result<bool, LabError> {
        Ok(self.0.lock().unwrap().contains(username))
    }

    fn running(&self) -> Result<Vec<String>, LabError> {
        Ok(self.0.lock().unwrap().iter().cloned().collect())
    }
}

const START: &str = "2026-01-01T00:00:00Z";

/// The pod for administrators; whether it runs.
#[derive(Default)]
struct FakeAdmin(Mutex<bool>);

impl FilesystemAdminOperations for FakeAdmin {
    fn start(&self) -> BoxFuture<'_, Result<String, LabError>> {
        *self.0.lock().unwrap() = true;
        Box::pin(async { Ok(START.to_owned()) })
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), LabError>> {
        *self.0.lock().unwrap() = false;
        Box::pin(async { Ok(()) })
    }

    fn started_at(&self) -> Result<String, LabError> {
        match *self.0.lock().unwrap() {
            true => Ok(START.to_owned()),
            false => Err(LabError::NotFound("not running".to_owned())),
        }
    }
}

fn with_files() -> TestService {
    let yaml = format!(
        "{CONFIG}baseUrl: https://site.example.com
fileserver:
  enabled: true
  namespace: files
  pathPrefix: /dav
"
    );
    let files = FileOperations {
        servers: Some(Arc::new(FakeServers::default())),
        admin: Some(Arc::new(FakeAdmin::default())),
    };
    let config = LabsConfig::from_yaml(&yaml).unwrap();
    service_with(Dialect::Nublado, false, config, files)
}

impl TestService {
    async fn call(&self, user: &str, method: Method, path: &str, body: &str) -> (u16, String) {
        text(self.send(user, method, path, &[], body.to_owned()).await).await
    }
}

#[tokio::test]
async fn a_person_opens_a_server_and_administrators_see_and_delete_it() {
    let service = with_files();
    let users = "/nublado/fileserver/v1/users";
    let one = "/nublado/fileserver/v1/users/rachel";
    let own = "/nublado/fileserver/v1/user-status";
    let get = Method::GET;
    assert_eq!(service.call("rachel", get.clone(), own, "").await.0, 404);
    for path in ["/dav", "/dav/", "/dav/rachel/home"] {
        let (status, page) = service.call("rachel", get.clone(), path, "").await;
        assert_eq!(status, 200, "{path} {page}");
        assert!(
            page.contains("https://site.example.com/dav/rachel"),
            "{page}"
        );
    }
    let running = "{\"running\":true}".to_owned();
    for (user, path, expected) in [
        ("admin", users, "[\"rachel\"]".to_owned()),
        ("admin", one, running.clone()),
        ("rachel", own, running),
    ] {
        let answer = service.call(user, get.clone(), path, "").await;
        assert_eq!(answer, (200, expected), "{path}");
    }
    let deleted = service.call("admin", Method::DELETE, one, "").await;
    assert_eq!(deleted, (204, String::new()));
    for method in [get, Method::DELETE] {
        let (status, body) = service.call("admin", method, one, "").await;
        assert_eq!(status, 404);
        let detail = parsed(&body)["detail"][0].clone();
        assert_eq!(detail["type"], "unknown_user");
        assert_eq!(detail["loc"], json!(["path", "username"]));
    }
}

#[tokio::test]
async fn each_scope_allows_its_own_routes_of_file_servers() {
    let service = with_files();
    let own = "/nublado/fileserver/v1/user-status";
    for (method, path, allowed) in [
        (Method::GET, "/dav", "files"),
        (Method::GET, own, "labs"),
        (Method::GET, "/nublado/fileserver/v1/users", "admin"),
        (Method::GET, "/nublado/fileserver/v1/users/rachel", "admin"),
        (
            Method::DELETE,
            "/nublado/fileserver/v1/users/rachel",
            "admin",
        ),
        (Method::GET, "/nublado/fsadmin/v1/service", "admin"),
        (Method::POST, "/nublado/fsadmin/v1/service", "admin"),
        (Method::DELETE, "/nublado/fsadmin/v1/service", "admin"),
    ] {
        for (user, refused) in [
            ("", 401),
            ("hub", 403),
            ("labs", 403),
            ("files", 403),
            ("admin", 403),
        ] {
            let (status, body) = service.call(user, method.clone(), path, "{}").await;
            let is_refused = status == refused;
            assert_eq!(is_refused, user != allowed, "{user} {method} {path} {body}");
        }
    }
}

#[tokio::test]
async fn the_pod_for_administrators_starts_with_the_only_body_there_is() {
    let service = with_files();
    let path = "/nublado/fsadmin/v1/service";
    let (status, body) = service.call("admin", Method::GET, path, "").await;
    assert_eq!(status, 404);
    assert_eq!(parsed(&body)["detail"][0]["type"], "not_found");
    for (body, kind) in [
        ("{", "json_invalid"),
        ("{}", "missing"),
        ("[]", "missing"),
        ("{\"start\": false}", "literal_error"),
        ("{\"start\": true, \"image\": \"x\"}", "extra_forbidden"),
    ] {
        let (status, answer) = service.call("admin", Method::POST, path, body).await;
        assert_eq!(status, 422, "{body}");
        assert_eq!(parsed(&answer)["detail"][0]["type"], kind, "{body}");
    }
    let expected = (200, format!("{{\"start_time\":\"{START}\"}}"));
    let body = "{\"start\": true}";
    let started = service.call("admin", Method::POST, path, body).await;
    assert_eq!(started, expected);
    assert_eq!(service.call("admin", Method::GET, path, "").await, expected);
    let stopped = service.call("admin", Method::DELETE, path, "").await;
    assert_eq!(stopped.0, 204);
    assert_eq!(service.call("admin", Method::GET, path, "").await.0, 404);
}

#[tokio::test]
async fn what_is_not_configured_is_not_supported_and_the_document_has_no_such_routes() {
    for (user, path) in [
        ("rachel", "/files"),
        ("rachel", "/nublado/fileserver/v1/user-status"),
        ("admin", "/nublado/fileserver/v1/users"),
        ("admin", "/nublado/fsadmin/v1/service"),
    ] {
        let get = Method::GET;
        let nublado = service(Dialect::Nublado, false);
        let (status, body) = nublado.call(user, get.clone(), path, "").await;
        assert_eq!(status, 404, "{path}");
        assert_eq!(
            parsed(&body)["detail"][0]["type"],
            "not_supported",
            "{path}"
        );
        let document = service(Dialect::Sqr066, false);
        let (status, body) = document.call(user, get, path, "").await;
        assert_eq!(status, 404, "{path}");
        assert_eq!(parsed(&body)["detail"], "Not Found", "{path}");
    }
}
