//! Servers that redirect, send too much, or do not answer.

use std::time::Duration;

use axum::body::Body;
use ludgate_installs::source::{Credentials, SourceErrorClass};
use tokio::net::TcpListener;

use crate::support::{
    BASIC, PASSWORD,
    charts::example,
    fetch, from_registry, from_repository, helm_password,
    http_server::{FakeServer, answer},
    registry, settings,
};

const INDEX: &str = "entries: {examplechart: [{version: 0.1.0, urls: [a.tgz]}]}";

fn redirect(location: &str) -> axum::response::Response {
    answer(302, &[("Location", location)], "")
}

#[tokio::test]
async fn a_redirect_to_another_server_gets_no_password() {
    let other = FakeServer::start(|request, _| match request.target.as_str() {
        "/index.yaml" => answer(200, &[], INDEX),
        _ => answer(200, &[], example("examplechart", "0.1.0")),
    })
    .await;
    let to = format!("http://{}", other.address);
    let server = FakeServer::start(move |request, _| match request.authorization() == BASIC {
        true => redirect(&format!("{to}{}", request.target)),
        false => answer(401, &[], ""),
    })
    .await;
    let source = from_repository(
        &format!("http://{}", server.address),
        "examplechart",
        "0.1.0",
    );
    fetch(&source, &helm_password(), &settings()).await.chart();
    assert_eq!(server.targets(), ["GET /index.yaml", "GET /a.tgz"]);
    assert_eq!(other.targets(), ["GET /index.yaml", "GET /a.tgz"]);
    for request in other.seen() {
        assert_eq!(request.authorization(), "");
    }
}

#[tokio::test]
async fn an_index_that_names_another_server_gives_it_no_password() {
    let other = FakeServer::start(|_, _| answer(200, &[], example("examplechart", "0.1.0"))).await;
    let index = format!(
        "entries: {{examplechart: [{{version: 0.1.0, urls: ['http://{}/a.tgz']}}]}}",
        other.address
    );
    let server = FakeServer::start(move |_, _| answer(200, &[], index.clone())).await;
    let source = from_repository(&format!("http://{}", server.address), "examplechart", "");
    fetch(&source, &helm_password(), &settings()).await.chart();
    assert_eq!(server.seen()[0].authorization(), BASIC);
    assert_eq!(other.seen()[0].authorization(), "");
}

#[tokio::test]
async fn redirects_on_the_same_server_keep_the_password_and_have_an_end() {
    let server = FakeServer::start(|request, _| match request.target.as_str() {
        "/index.yaml" => redirect("/real/index.yaml"),
        "/real/index.yaml" => answer(200, &[], INDEX),
        "/a.tgz" => redirect("/b.tgz"),
        "/b.tgz" => answer(200, &[], example("examplechart", "0.1.0")),
        other => redirect(other),
    })
    .await;
    let url = format!("http://{}", server.address);
    let source = from_repository(&url, "examplechart", "0.1.0");
    fetch(&source, &helm_password(), &settings()).await.chart();
    assert_eq!(server.seen().len(), 4);
    for request in server.seen() {
        assert_eq!(request.authorization(), BASIC, "{}", request.target);
    }
    let endless = from_repository(&format!("{url}/loop"), "examplechart", "0.1.0");
    let finished = fetch(&endless, &Credentials::default(), &settings()).await;
    assert!(
        finished.refusal().contains("redirects too often"),
        "{:?}",
        finished.result
    );
    assert_eq!(server.seen().len(), 4 + 6);
}

#[tokio::test]
async fn redirects_to_the_inside_of_the_cluster_are_refused() {
    for (location, wanted) in [
        ("http://10.0.0.1/index.yaml", "not allowed for sources"),
        (
            "http://169.254.169.254/latest/meta-data/",
            "not allowed for sources",
        ),
        ("http://[::1]/", "not allowed for sources"),
        ("file:///etc/passwd", "transport 'file' not allowed"),
        ("http://user:pass@127.0.0.1/", "is not followed"),
    ] {
        let server = FakeServer::start(move |_, _| redirect(location)).await;
        let url = format!("http://{}", server.address);
        let source = from_repository(&url, "examplechart", "0.1.0");
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains(wanted),
            "{location}: {:?}",
            finished.result
        );
    }
}

#[tokio::test]
async fn an_index_of_sixty_mebibytes_is_not_read() {
    let server = FakeServer::start(|_, _| answer(200, &[], Body::from(vec![b'#'; 60 << 20]))).await;
    let source = from_repository(&format!("http://{}", server.address), "examplechart", "");
    let finished = fetch(&source, &Credentials::default(), &settings()).await;
    let wanted = format!(
        "http://{}/index.yaml is larger than 52428800 bytes",
        server.address
    );
    assert_eq!(finished.refusal(), wanted);
}

#[tokio::test]
async fn an_archive_above_the_limit_is_not_read() {
    let large = || vec![0; (20 << 20) + 1];
    let repository = FakeServer::start(move |request, _| match request.target.as_str() {
        "/index.yaml" => answer(200, &[], INDEX),
        _ => answer(200, &[], large()),
    })
    .await;
    let url = format!("http://{}", repository.address);
    let source = from_repository(&url, "examplechart", "0.1.0");
    let finished = fetch(&source, &Credentials::default(), &settings()).await;
    assert!(
        finished.refusal().contains("larger than 20971520 bytes"),
        "{:?}",
        finished.result
    );
    let registry = FakeServer::start(move |_, _| answer(200, &[], registry::manifest(&large())));
    let registry = registry.await;
    let source = from_registry(&registry::url(&registry), "examplechart", "0.1.0");
    let finished = fetch(&source, &Credentials::default(), &settings()).await;
    assert!(
        finished.refusal().contains("larger than 20971520 bytes"),
        "{:?}",
        finished.result
    );
    assert_eq!(registry.seen().len(), 1, "the manifest tells the size");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    // The kernel accepts connections, and no program reads them.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let mut hasty = settings();
    hasty.limits.request_deadline = Duration::from_millis(300);
    for source in [
        from_repository(&format!("http://{address}"), "examplechart", "0.1.0"),
        from_registry(&format!("oci://{address}/charts"), "examplechart", "0.1.0"),
    ] {
        let finished = fetch(&source, &Credentials::default(), &hasty).await;
        let (class, message) = finished.error();
        assert_eq!(class, SourceErrorClass::Transient);
        assert!(
            message.ends_with("did not answer within 0.3 s"),
            "{message}"
        );
    }
    let mut short = settings();
    short.limits.deadline = Duration::from_millis(300);
    let source = from_repository(&format!("http://{address}"), "examplechart", "0.1.0");
    let finished = fetch(&source, &Credentials::default(), &short).await;
    let wanted = (
        SourceErrorClass::Transient,
        "the download did not end within 0.3 s",
    );
    assert_eq!(finished.error(), wanted);
}

#[tokio::test]
async fn failures_of_a_server_can_heal_and_missing_charts_cannot() {
    for (status, class) in [
        (500, SourceErrorClass::Transient),
        (503, SourceErrorClass::Transient),
        (429, SourceErrorClass::Transient),
        (404, SourceErrorClass::Permanent),
        (403, SourceErrorClass::Permanent),
    ] {
        let server = FakeServer::start(move |_, _| answer(status, &[], "")).await;
        for source in [
            from_repository(&format!("http://{}", server.address), "examplechart", ""),
            from_registry(&registry::url(&server), "examplechart", ""),
        ] {
            let finished = fetch(&source, &Credentials::default(), &settings()).await;
            let (found, message) = finished.error();
            assert_eq!(found, class, "{message}");
        }
    }
}

#[tokio::test]
async fn no_message_has_a_password() {
    // A server that writes what it was sent into places that become messages.
    let server = FakeServer::start(|request, own| {
        let location = format!("http://{own}/{PASSWORD}/{}", request.authorization());
        redirect(&location)
    })
    .await;
    let url = format!("http://{}", server.address);
    let source = from_repository(&url, "examplechart", "0.1.0");
    let finished = fetch(&source, &helm_password(), &settings()).await;
    let (_, message) = finished.error();
    assert!(
        !message.contains(PASSWORD) && !message.contains("dXNlcm5h"),
        "{message}"
    );
    let chart = format!("chart-{PASSWORD}");
    let server = FakeServer::start(|_, _| answer(200, &[], INDEX)).await;
    let source = from_repository(&format!("http://{}", server.address), &chart, "0.1.0");
    let finished = fetch(&source, &helm_password(), &settings()).await;
    assert_eq!(
        finished.refusal(),
        "the repository has no chart \"chart-[redacted]\""
    );
}
