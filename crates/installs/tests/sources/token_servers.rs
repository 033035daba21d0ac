//! Which servers get the credentials of a registry.

use ludgate_installs::source::{Credentials, HelmLogin};
use ludgate_model::secret::Secret;

use crate::support::{
    BASIC, fetch, from_registry, helm_password,
    http_server::{FakeServer, answer},
    registry, registry_config, settings,
};

#[tokio::test]
async fn a_token_server_elsewhere_is_never_called() {
    let thief = FakeServer::start(|_, _| answer(200, &[], r#"{"token": "canary-token"}"#)).await;
    for realm in [
        format!("http://{}/token", thief.address),
        format!("https://{}/token", thief.address),
        "https://tokens.example.com/token".to_owned(),
        "http://169.254.169.254/token".to_owned(),
        "file:///etc/passwd".to_owned(),
        String::new(),
    ] {
        let shown = realm.clone();
        let server = FakeServer::start(move |request, _| registry::with_tokens(request, &realm));
        let server = server.await;
        let source = from_registry(&registry::url(&server), "examplechart", "0.1.0");
        let finished = fetch(&source, &helm_password(), &settings()).await;
        assert!(
            finished.refusal().contains("token"),
            "{shown}: {:?}",
            finished.result
        );
        assert_eq!(server.seen().len(), 1, "{shown}");
    }
    assert!(thief.seen().is_empty());
}

#[tokio::test]
async fn a_listed_token_server_gets_the_credentials_and_the_registry_the_token() {
    let tokens = FakeServer::start_tls(|request, _| match request.authorization() == BASIC {
        true => answer(200, &[], r#"{"access_token": "canary-token"}"#),
        false => answer(401, &[], ""),
    })
    .await;
    let realm = format!("https://{}/token", tokens.address);
    let server = FakeServer::start(move |request, _| registry::with_tokens(request, &realm)).await;
    let mut listed = settings();
    listed.ca = Some(tokens.certificate.clone());
    let (own, realm) = (server.address.to_string(), tokens.address.to_string());
    listed.hosts.token_servers.insert(own.clone(), vec![realm]);
    let source = from_registry(&registry::url(&server), "examplechart", "0.1.0");
    fetch(&source, &registry_config(&own), &listed)
        .await
        .chart();
    for request in server.seen() {
        assert_ne!(
            request.authorization(),
            BASIC,
            "the registry asked for a token"
        );
    }
    let target = "GET /token?service=r&scope=repository%3Acharts%2Fexamplechart%3Apull";
    assert_eq!(tokens.targets(), [target]);
}

#[tokio::test]
async fn a_blob_on_another_server_gets_no_token() {
    let archive = crate::support::charts::example("examplechart", "0.1.0");
    let storage = FakeServer::start(move |_, _| answer(200, &[], archive.clone())).await;
    let to = format!("http://{}/blob", storage.address);
    let server = FakeServer::start(move |request, own| {
        let has_token = request.authorization() == "Bearer canary-token";
        match has_token && request.target.contains("/blobs/") {
            true => answer(307, &[("Location", to.as_str())], ""),
            false => registry::with_tokens(request, &format!("http://{own}/token")),
        }
    })
    .await;
    let source = from_registry(&registry::url(&server), "examplechart", "0.1.0");
    fetch(&source, &helm_password(), &settings()).await.chart();
    assert_eq!(storage.seen().len(), 1);
    assert_eq!(storage.seen()[0].authorization(), "");
}

#[tokio::test]
async fn configurations_with_helpers_are_refused_before_any_call() {
    let server = registry::start().await;
    let source = from_registry(&registry::url(&server), "examplechart", "0.1.0");
    let challenging = registry::start_with_password().await;
    let closed = from_registry(&registry::url(&challenging), "examplechart", "0.1.0");
    for json in [
        r#"{"auths": {}, "credsStore": "desktop"}"#,
        r#"{"credHelpers": {"127.0.0.1": "x"}}"#,
    ] {
        let credentials = Credentials {
            helm: HelmLogin::RegistryConfig(Secret::new(json)),
            ..Credentials::default()
        };
        for source in [&source, &closed] {
            let finished = fetch(source, &credentials, &settings()).await;
            assert!(
                finished.refusal().contains("it starts programs"),
                "{:?}",
                finished.result
            );
        }
    }
    assert!(server.seen().is_empty() && challenging.seen().is_empty());
}
