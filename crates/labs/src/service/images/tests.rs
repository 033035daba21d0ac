//! A registry on loopback for tests, and tests of what becomes of its lists.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Body, extract::Request, response::Response};
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use tokio::net::TcpListener;

use super::*;
use crate::config::ImagesConfig;

/// A request that a registry got.
#[derive(Clone, Debug)]
pub(super) struct SeenRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) host: String,
    pub(super) authorization: Option<String>,
    pub(super) accept: String,
}

/// A registry that answers as the test says.
pub(super) struct FakeRegistry {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeRegistry {
    pub(super) async fn start(
        answer: impl Fn(&SeenRequest) -> Response + Send + Sync + 'static,
    ) -> FakeRegistry {
        // A test may be the first that needs TLS.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let (recorded, answer) = (seen.clone(), Arc::new(answer));
        let router = Router::new().fallback(move |request: Request| {
            let request = seen_request(&request);
            let response = answer(&request);
            recorded.lock().expect("no panic").push(request);
            async move { response }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        FakeRegistry { address, seen }
    }

    /// All requests so far.
    pub(super) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Methods and targets of all requests so far.
    pub(super) fn targets(&self) -> Vec<String> {
        let seen = self.seen().into_iter();
        seen.map(|request| format!("{} {}", request.method, request.target))
            .collect()
    }

    /// The configuration of an image `lab` there; `more` is more YAML below `images`.
    pub(super) fn config(&self, more: &str) -> LabsConfig {
        let text = format!(
            "
lab:
  namespacePrefix: userlabs
  volumes:
    - name: home
      source: {{ type: hostPath, path: /share }}
  sizes:
    - size: small
      resources: {{ limits: {{ cpu: 1, memory: 3Gi }}, requests: {{ cpu: 1, memory: 3Gi }} }}
images:
  source: {{ type: docker, registry: '{}', repository: library/lab }}
{more}
",
            self.address
        );
        LabsConfig::from_yaml(&text).expect("a configuration")
    }

    pub(super) fn client(&self, config: &ImagesConfig) -> ImageRegistry {
        ImageRegistry::new(config, None, Default::default()).expect("a client")
    }
}

fn seen_request(request: &Request) -> SeenRequest {
    let header = |name: http::HeaderName| {
        let value = request.headers().get(name)?;
        Some(value.to_str().expect("text").to_owned())
    };
    SeenRequest {
        method: request.method().to_string(),
        target: request.uri().to_string(),
        host: header(HOST).expect("a host"),
        authorization: header(AUTHORIZATION),
        accept: header(ACCEPT).expect("what is accepted"),
    }
}

/// An answer with these headers.
pub(super) fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).expect("an answer")
}

/// A page of tags.
pub(super) fn tags(tags: &[&str]) -> Response {
    let page = serde_json::json!({ "name": "library/lab", "tags": tags });
    answer(200, &[], page.to_string())
}

/// The answer about the digest of a tag.
pub(super) fn digest(digest: &str) -> Response {
    answer(200, &[("Docker-Content-Digest", digest)], "")
}

/// What a registry has: its tags with their digests. It fails when they are taken away.
type Shelf = Arc<Mutex<Option<BTreeMap<&'static str, &'static str>>>>;

async fn registry_of(shelf: Shelf) -> FakeRegistry {
    FakeRegistry::start(move |request| {
        let shelf = shelf.lock().expect("no panic");
        let Some(images) = &*shelf else {
            return answer(500, &[], "");
        };
        match request.target.rsplit_once("/manifests/") {
            None => tags(&images.keys().copied().collect::<Vec<_>>()),
            Some((_, tag)) => match images.get(tag).copied() {
                None => answer(404, &[], ""),
                Some("broken") => answer(500, &[], ""),
                Some(known) => digest(known),
            },
        }
    })
    .await
}

fn listed(state: &ImageState) -> Vec<String> {
    let all = state.catalog().spawner_images().all.into_iter();
    all.map(|image| format!("{} {}", image.tag, image.digest.unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn a_list_that_cannot_be_had_leaves_the_last_one() {
    let images = |digest| BTreeMap::from([("w_2077_43", digest), ("w_2077_42", "sha256:42")]);
    let shelf: Shelf = Arc::new(Mutex::new(Some(images("sha256:43"))));
    let registry = registry_of(shelf.clone()).await;
    let config = Arc::new(registry.config(""));
    let (client, state) = (
        registry.client(&config.images),
        ImageState::new(config.clone()),
    );
    let metrics = LabImagesMetrics::default();
    let mut refresher = Refresher::new(&config.images, &client, &state, &metrics);
    refresher.refresh().await.expect("a list");
    let expected = ["w_2077_43 sha256:43", "w_2077_42 sha256:42"];
    assert_eq!(listed(&state), expected);
    let set = |images| *shelf.lock().expect("no panic") = images;
    for broken in [None, Some(BTreeMap::new())] {
        set(broken);
        assert!(refresher.refresh().await.is_err());
        assert_eq!(listed(&state), expected);
    }
    // One tag that cannot be looked up keeps its digest; the others are refreshed.
    set(Some(images("broken")));
    refresher.refresh().await.expect("a list");
    assert_eq!(listed(&state), expected);
    set(Some(images("sha256:44")));
    refresher.refresh().await.expect("a list");
    assert_eq!(listed(&state)[0], "w_2077_43 sha256:44");
}

#[tokio::test]
async fn only_tags_that_are_pulled_beforehand_are_looked_up() {
    let images = BTreeMap::from([
        ("w_2077_43", "sha256:43"),
        ("w_2077_42", "sha256:42"),
        ("w_2077_41", "sha256:41"),
        ("recommended", "sha256:43"),
        ("exp_x", "sha256:ee"),
    ]);
    let registry = registry_of(Arc::new(Mutex::new(Some(images)))).await;
    let config = Arc::new(registry.config("  numWeeklies: 1\n"));
    let (client, state) = (
        registry.client(&config.images),
        ImageState::new(config.clone()),
    );
    let metrics = LabImagesMetrics::default();
    let mut refresher = Refresher::new(&config.images, &client, &state, &metrics);
    refresher.refresh().await.expect("a list");
    let mut targets = registry.targets();
    targets.sort();
    assert_eq!(
        targets,
        [
            "GET /v2/library/lab/tags/list?n=1000",
            "HEAD /v2/library/lab/manifests/recommended",
            "HEAD /v2/library/lab/manifests/w_2077_43",
        ]
    );
    let recommended = state.catalog().spawner_images().recommended.expect("it");
    assert_eq!(recommended.aliases, ["w_2077_43"]);
}
