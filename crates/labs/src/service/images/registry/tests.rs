//! Tests of the client with registries on loopback: good ones, and some that lie.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{body::Body, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;
use crate::service::images::tests::{FakeRegistry, SeenRequest, answer, digest, tags};

const LIST: &str = "GET /v2/library/lab/tags/list?n=1000";

async fn listed(registry: &FakeRegistry) -> Result<RegistryListing, RegistryError> {
    let config = registry.config("");
    registry.client(&config.images).list().await
}

async fn digest_of(registry: &FakeRegistry) -> Result<String, RegistryError> {
    let config = registry.config("");
    registry.client(&config.images).digest("w_2077_43").await
}

/// A client with credentials `user:password` for the registry.
fn with_credentials(registry: &FakeRegistry) -> (tempfile::TempDir, ImageRegistry) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.json");
    let pair = STANDARD.encode("user:password");
    let content = format!(
        r#"{{"auths": {{"{}": {{"auth": "{pair}"}}}}}}"#,
        registry.address
    );
    std::fs::write(&file, content).expect("written");
    let config = registry.config(&format!("  dockerCredentialsPath: {}\n", file.display()));
    let client = registry.client(&config.images);
    (folder, client)
}

fn basic() -> String {
    format!("Basic {}", STANDARD.encode("user:password"))
}

/// A registry that accepts one token, which its token server on the same host gives.
fn with_tokens(request: &SeenRequest, token: &str, given: Response) -> Response {
    if request.target.starts_with("/token") {
        return given;
    }
    if request.authorization.as_deref() == Some(&format!("Bearer {token}")) {
        return tags(&["w_2077_43"]);
    }
    let realm = format!(
        "Bearer realm=\"http://{}/token\",service=\"a b\",scope=\"repository:other:push\"",
        request.host
    );
    answer(401, &[("WWW-Authenticate", realm.as_str())], "")
}

#[tokio::test]
async fn pages_are_followed_and_texts_that_are_no_tags_left_out() {
    let registry = FakeRegistry::start(|request| {
        let next = (
            "Link",
            "</v2/library/lab/tags/list?last=b&n=2>; rel=\"next\"",
        );
        if request.target.contains("last=") {
            tags(&["b", "c"])
        } else {
            answer(200, &[next], r#"{"tags": ["a", "b", "<script>", ""]}"#)
        }
    })
    .await;
    let expected = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(
        listed(&registry).await.unwrap(),
        RegistryListing::Tags(expected)
    );
    let second = "GET /v2/library/lab/tags/list?last=b&n=2";
    assert_eq!(registry.targets(), [LIST, second]);
    assert_eq!(registry.seen()[0].authorization, None);
}

#[tokio::test]
async fn pages_elsewhere_or_without_end_are_refused() {
    let other = FakeRegistry::start(|_| tags(&["stolen"])).await;
    let link = format!(
        "<http://{}/v2/library/lab/tags/list>; rel=next",
        other.address
    );
    let registry =
        FakeRegistry::start(move |_| answer(200, &[("Link", link.as_str())], r#"{"tags": ["a"]}"#))
            .await;
    assert!(matches!(
        listed(&registry).await,
        Err(RegistryError::Answer(_))
    ));
    assert!(other.seen().is_empty());
    let count = AtomicUsize::new(0);
    let endless = FakeRegistry::start(move |_| {
        let page = count.fetch_add(1, Ordering::Relaxed);
        let link = format!("<?last={page}>; rel=next");
        answer(200, &[("Link", link.as_str())], r#"{"tags": ["a"]}"#)
    })
    .await;
    assert!(matches!(
        listed(&endless).await,
        Err(RegistryError::Answer(_))
    ));
    assert_eq!(endless.seen().len(), MAX_PAGES);
}

#[tokio::test]
async fn answers_that_are_no_lists_are_errors() {
    for body in [
        "",
        "[]",
        "<html>",
        r#"{"tags": [1]}"#,
        r#"{"tags": null}"#,
        "{}",
    ] {
        let registry = FakeRegistry::start(move |_| answer(200, &[], body)).await;
        let listed = listed(&registry).await;
        assert!(matches!(listed, Err(RegistryError::Answer(_))), "{body}");
    }
    let registry =
        FakeRegistry::start(|_| answer(302, &[("Location", "https://registry.test/")], "")).await;
    assert!(matches!(
        listed(&registry).await,
        Err(RegistryError::Redirect)
    ));
    let huge = FakeRegistry::start(|_| answer(200, &[], Body::from(vec![b' '; 17 << 20]))).await;
    let error = listed(&huge).await.unwrap_err().to_string();
    assert_eq!(error, "the server's answer is broken or larger than 16 MiB");
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_does_not_answer_is_given_up() {
    // The kernel accepts connections, and no program reads them.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = FakeRegistry::start(|_| tags(&["a"])).await;
    let mut config = other.config("");
    config.images.source = ImageSource::Docker {
        registry: listener.local_addr().unwrap().to_string(),
        repository: "library/lab".to_owned(),
    };
    let error = other.client(&config.images).list().await.unwrap_err();
    assert_eq!(error.to_string(), "the server did not answer within 20 s");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_digest_is_had_without_the_manifest_if_the_registry_can_tell() {
    let registry = FakeRegistry::start(|_| digest("sha256:1234")).await;
    assert_eq!(digest_of(&registry).await.unwrap(), "sha256:1234");
    let seen = &registry.seen()[0];
    assert_eq!(
        registry.targets(),
        ["HEAD /v2/library/lab/manifests/w_2077_43"]
    );
    assert!(
        seen.accept
            .starts_with("application/vnd.oci.image.index.v1+json, ")
    );
    // The digest of an empty object.
    let computed = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    for status in [200, 400, 405, 501] {
        let registry = FakeRegistry::start(move |request| match request.method.as_str() {
            "HEAD" => answer(status, &[], ""),
            _ => answer(200, &[], "{}"),
        })
        .await;
        assert_eq!(digest_of(&registry).await.unwrap(), computed);
        assert_eq!(registry.seen().len(), 2);
    }
}

#[tokio::test]
async fn digests_that_are_none_or_of_other_bytes_are_refused() {
    let registry = FakeRegistry::start(|_| digest("w_2077_43")).await;
    assert!(matches!(
        digest_of(&registry).await,
        Err(RegistryError::Answer(_))
    ));
    let registry = FakeRegistry::start(|request| match request.method.as_str() {
        "HEAD" => answer(405, &[], ""),
        _ => answer(200, &[("Docker-Content-Digest", "sha256:1234")], "{}"),
    })
    .await;
    assert!(matches!(
        digest_of(&registry).await,
        Err(RegistryError::Answer(_))
    ));
    let registry = FakeRegistry::start(|_| answer(404, &[], "")).await;
    assert!(matches!(
        digest_of(&registry).await,
        Err(RegistryError::NotFound)
    ));
    let registry = FakeRegistry::start(|_| answer(500, &[], "")).await;
    assert!(matches!(
        digest_of(&registry).await,
        Err(RegistryError::Status(500))
    ));
}

#[tokio::test]
async fn a_token_is_asked_for_once_with_the_credentials_and_only_for_pulling() {
    let given = || answer(200, &[], r#"{"token": "abc", "expires_in": 300}"#);
    let registry = FakeRegistry::start(move |request| with_tokens(request, "abc", given())).await;
    let (_folder, client) = with_credentials(&registry);
    client.list().await.unwrap();
    client.list().await.unwrap();
    let token = "GET /token?service=a+b&scope=repository%3Alibrary%2Flab%3Apull";
    assert_eq!(registry.targets(), [LIST, token, LIST, LIST]);
    let seen = registry.seen().into_iter();
    let sent: Vec<Option<String>> = seen.map(|request| request.authorization).collect();
    let bearer = Some("Bearer abc".to_owned());
    assert_eq!(sent, [None, Some(basic()), bearer.clone(), bearer]);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let given = || answer(200, &[], r#"{"token": "old"}"#);
    let registry = FakeRegistry::start(move |request| with_tokens(request, "new", given())).await;
    let config = registry.config("");
    let client = registry.client(&config.images);
    for calls in [3, 6] {
        assert!(matches!(client.list().await, Err(RegistryError::Refused)));
        assert_eq!(registry.seen().len(), calls);
    }
    assert_eq!(registry.seen()[1].authorization, None, "anonymous");
}

#[tokio::test]
async fn a_token_server_that_redirects_or_refuses_gives_no_token() {
    let other = FakeRegistry::start(|_| answer(200, &[], r#"{"token": "abc"}"#)).await;
    let location = format!("http://{}/token", other.address);
    let registry = FakeRegistry::start(move |request| {
        let redirect = answer(307, &[("Location", location.as_str())], "");
        with_tokens(request, "abc", redirect)
    })
    .await;
    let (_folder, client) = with_credentials(&registry);
    assert!(matches!(client.list().await, Err(RegistryError::Redirect)));
    assert!(other.seen().is_empty());
    let refusing =
        FakeRegistry::start(|request| with_tokens(request, "abc", answer(403, &[], ""))).await;
    assert!(matches!(
        listed(&refusing).await,
        Err(RegistryError::Refused)
    ));
}

#[tokio::test]
async fn credentials_are_not_sent_to_realms_elsewhere() {
    for realm in [
        "http://registry.test/token",
        "https://registry.test/token",
        "ftp://127.0.0.1/",
        "",
    ] {
        let challenge = format!("Bearer realm=\"{realm}\"");
        let registry = FakeRegistry::start(move |_| {
            answer(401, &[("WWW-Authenticate", challenge.as_str())], "")
        })
        .await;
        let (_folder, client) = with_credentials(&registry);
        let refused = client.list().await;
        assert!(matches!(refused, Err(RegistryError::Realm(_))), "{realm}");
        assert_eq!(registry.targets(), [LIST]);
    }
}

#[tokio::test]
async fn username_and_password_are_sent_when_the_registry_asks_for_them() {
    let registry = FakeRegistry::start(|request| {
        if request.authorization == Some(basic()) {
            tags(&["w_2077_43"])
        } else {
            answer(401, &[("WWW-Authenticate", "Basic realm=\"r\"")], "")
        }
    })
    .await;
    let (_folder, client) = with_credentials(&registry);
    client.list().await.unwrap();
    client.list().await.unwrap();
    assert_eq!(registry.targets(), [LIST, LIST, LIST]);
    assert!(matches!(
        listed(&registry).await,
        Err(RegistryError::Refused)
    ));
    for challenge in ["Negotiate", "Digest realm=\"r\"", ""] {
        let registry =
            FakeRegistry::start(move |_| answer(401, &[("WWW-Authenticate", challenge)], "")).await;
        let (_folder, client) = with_credentials(&registry);
        assert!(matches!(client.list().await, Err(RegistryError::Challenge)));
    }
}

#[tokio::test]
async fn googles_registry_tells_the_digests_with_the_tags() {
    let registry = FakeRegistry::start(|_| {
        let list = r#"{"tags": ["a", "b"], "manifest": {
            "sha256:12": {"tag": ["a", "b"], "mediaType": "x"},
            "sha256:34": {"tag": []},
            "odd": {"tag": ["c"]}
        }}"#;
        answer(200, &[], list)
    })
    .await;
    let tags = ["a", "b"].map(str::to_owned).to_vec();
    let plain = RegistryListing::Tags(tags.clone());
    assert_eq!(listed(&registry).await.unwrap(), plain);
    let config = registry.config("");
    let mut client = registry.client(&config.images);
    client.lists_digests = true;
    let digest = "sha256:12".to_owned();
    let images = RegistryListing::Images(vec![RegistryImage { digest, tags }]);
    assert_eq!(client.list().await.unwrap(), images);
}
