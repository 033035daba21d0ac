//! The routes of the service over labs in memory, and persons that a test names.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::{Router, body::Body};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use ludgate_labs::{
    error::LabError,
    service::{
        callers::{IdentifyCaller, LabCaller, LabScope},
        file_servers::FileOperations,
        metrics::LabRequestMetrics,
        routes::{LabsState, LabsUrls, PeerAddress, router},
    },
    user::LabUser,
};
use ludgate_model::secret::Secret;
use ludgate_ops::{drain::Drain, metrics::Registry};
use serde_json::Value;

use crate::memory::{MemoryLabs, Site};

/// Where the service is.
pub(crate) const BASE_URL: &str = "https://labs.example.com";

/// Callers by the two headers of a proxy. A request without them is one of the hub.
struct HeaderCallers(BTreeMap<String, LabUser>);

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// The token of a person.
pub(crate) fn token_of(username: &str) -> String {
    format!("token-of-{username}")
}

impl IdentifyCaller for HeaderCallers {
    fn identify<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: IpAddr,
    ) -> BoxFuture<'a, Result<LabCaller, LabError>> {
        let caller = LabCaller {
            username: text(headers, "x-auth-request-user").unwrap_or_default(),
            scopes: BTreeSet::from([
                LabScope::Notebook,
                LabScope::Files,
                LabScope::Hub,
                LabScope::Admin,
            ]),
            token: text(headers, "x-auth-request-token").map(Secret::new),
            user: None,
        };
        Box::pin(async move { Ok(caller) })
    }

    fn complete(&self, caller: LabCaller) -> BoxFuture<'_, Result<LabCaller, LabError>> {
        Box::pin(async move {
            let expected = token_of(&caller.username);
            let token = caller.token.as_ref();
            let is_valid = token.is_some_and(|token| token.matches(expected.as_bytes()));
            let user = self.0.get(&caller.username).filter(|_| is_valid);
            let user = Some(user.ok_or(LabError::InvalidToken)?.clone());
            Ok(LabCaller { user, ..caller })
        })
    }
}

/// The routes, and the labs behind them.
pub(crate) struct TestRoutes {
    router: Router,
    pub(crate) labs: Arc<MemoryLabs>,
    // While it is there, the process does not stop.
    _drain: Drain,
}

/// An answer that was read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl TestRoutes {
    /// Routes whose labs run at once, or when the test says so.
    pub(crate) fn new(site: &Site, persons: &[LabUser], runs_at_once: bool) -> TestRoutes {
        let labs = Arc::new(MemoryLabs::new(site.clone(), runs_at_once));
        let persons = persons.iter();
        let persons = persons.map(|person| (person.username.clone(), person.clone()));
        let catalog = site.catalog.clone();
        let drain = Drain::new();
        let state = LabsState {
            service: labs.clone(),
            files: FileOperations::default(),
            catalog: Box::new(move || catalog.clone()),
            callers: Arc::new(HeaderCallers(persons.collect())),
            config: site.config.clone(),
            dialect: site.dialect,
            urls: LabsUrls {
                base: BASE_URL.to_owned(),
                sign_out: format!("{BASE_URL}/oauth2/sign_out"),
            },
            metrics: LabRequestMetrics::register(&Registry::new()),
            drain: drain.watcher(),
        };
        TestRoutes {
            router: router(state),
            labs,
            _drain: drain,
        }
    }

    /// Sends a request. The headers have a name and a value each.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body)).expect("a request");
        let address = PeerAddress(IpAddr::from(Ipv4Addr::LOCALHOST));
        request.extensions_mut().insert(address);
        let service = TowerToHyperService::new(self.router.clone());
        let answer = service.call(request).await.expect("an answer");
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).expect("text"),
        }
    }

    /// Sends a request about labs, as the person, or as the hub if the name is empty.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        username: &str,
        body: Option<&Value>,
    ) -> Answer {
        let path = format!("/nublado/spawner/v1/{path}");
        let token = token_of(username);
        let mut headers = vec![
            ("x-auth-request-user", username),
            ("x-auth-request-token", token.as_str()),
        ];
        if username.is_empty() {
            headers.clear();
        }
        let body = body.map_or_else(String::new, Value::to_string);
        self.send(method, &path, &headers, body).await
    }

    pub(crate) async fn get(&self, path: &str, username: &str) -> Answer {
        self.call(Method::GET, path, username, None).await
    }

    pub(crate) async fn create(&self, username: &str, body: &Value) -> Answer {
        let path = format!("labs/{username}/create");
        self.call(Method::POST, &path, username, Some(body)).await
    }

    pub(crate) async fn delete(&self, username: &str) -> Answer {
        let path = format!("labs/{username}");
        self.call(Method::DELETE, &path, "", None).await
    }

    /// The address in the answer to a creation.
    pub(crate) fn location(answer: &Answer) -> &str {
        let location = answer.headers.get(header::LOCATION).expect("an address");
        location.to_str().expect("text")
    }
}

/// A stream of events without our ids, which other implementations do not have.
pub(crate) fn without_ids(stream: &str) -> String {
    let lines = stream.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("id: ")).collect()
}

/// Runs a test to its end.
pub(crate) fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test)
}
