//! Archives that would fill the disk or leave their folder.

use ludgate_installs::source::{Credentials, SourceLimits, unpack_chart};
use tar::EntryType;

use crate::support::{
    charts::{archive, example, sha256},
    fetch, from_registry, from_repository,
    http_server::{FakeServer, answer},
    registry, settings,
};

const CHART: &[u8] = b"apiVersion: v2\nname: bad\nversion: 1.0.0\n";

/// Small archives with their refusals.
fn hostile() -> Vec<(Vec<u8>, &'static str)> {
    let chart = ("bad/Chart.yaml", EntryType::Regular, CHART);
    let with =
        |name: &str, kind: EntryType, content: &[u8]| archive(&[chart, (name, kind, content)]);
    let zeros = vec![0; 101 << 20];
    let names: Vec<String> = (0..10_000).map(|index| format!("bad/{index}")).collect();
    let many = names
        .iter()
        .map(|name| (name.as_str(), EntryType::Regular, &b""[..]));
    let many: Vec<(&str, EntryType, &[u8])> = [chart].into_iter().chain(many).collect();
    let traversal = "has \"..\" in its name";
    let kind = "is neither a file nor a folder";
    vec![
        (
            with("bad/zeros", EntryType::Regular, &zeros),
            "larger than 104857600 bytes unpacked",
        ),
        (archive(&many), "more than 10000 entries"),
        (with("../../x", EntryType::Regular, b"x"), traversal),
        (with("bad/../../x", EntryType::Regular, b"x"), traversal),
        (with("/x", EntryType::Regular, b"x"), "is absolute"),
        (with("bad/link", EntryType::Symlink, b""), kind),
        (with("bad/link", EntryType::Link, b""), kind),
        (with("bad/pipe", EntryType::Fifo, b""), kind),
        (
            with("other/x", EntryType::Regular, b"x"),
            "more than one folder",
        ),
        (
            example("other", "1.0.0"),
            "wanted is version 1.0.0 of \"bad\"",
        ),
        (
            example("bad", "1.0.1"),
            "wanted is version 1.0.0 of \"bad\"",
        ),
        (b"<html>not found</html>".to_vec(), "is broken"),
    ]
}

#[tokio::test]
async fn hostile_archives_of_a_repository_are_refused() {
    for (packed, wanted) in hostile() {
        assert!(packed.len() < 1 << 20, "small as sent: {}", packed.len());
        let server = FakeServer::start(move |request, _| match request.target.as_str() {
            "/index.yaml" => answer(
                200,
                &[],
                "entries: {bad: [{name: bad, version: 1.0.0, urls: [bad.tgz]}]}",
            ),
            _ => answer(200, &[], packed.clone()),
        })
        .await;
        let source = from_repository(&format!("http://{}", server.address), "bad", "1.0.0");
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains(wanted),
            "{wanted}: {:?}",
            finished.result
        );
    }
}

#[tokio::test]
async fn hostile_archives_of_a_registry_are_refused() {
    for (packed, wanted) in hostile() {
        let server =
            FakeServer::start(
                move |request, _| match request.target.contains("/manifests/") {
                    true => answer(200, &[], registry::manifest(&packed)),
                    false => answer(200, &[], packed.clone()),
                },
            )
            .await;
        let source = from_registry(&registry::url(&server), "bad", "1.0.0");
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains(wanted),
            "{wanted}: {:?}",
            finished.result
        );
    }
}

#[tokio::test]
async fn a_good_archive_is_unpacked_and_a_hostile_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chart.tgz");
    std::fs::write(&path, example("good", "1.2.3")).expect("written");
    let limits = SourceLimits::default();
    let found = unpack_chart(&path, folder.path(), &limits)
        .await
        .expect("a chart");
    assert_eq!(
        (found.name.as_str(), found.version.as_str()),
        ("good", "1.2.3")
    );
    assert_eq!(found.path, folder.path().join("good"));
    assert!(found.path.join("templates/configmap.yaml").is_file());
    let hostile = archive(&[("../x", EntryType::Regular, b"x")]);
    std::fs::write(&path, hostile).expect("written");
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder");
    assert!(unpack_chart(&path, &inner, &limits).await.is_err());
    assert!(!folder.path().join("x").exists());
}

#[tokio::test]
async fn archives_that_differ_from_their_digest_are_refused() {
    let wrong = sha256(b"another archive");
    let index = format!("entries: {{a: [{{version: 1.0.0, urls: [a.tgz], digest: {wrong}}}]}}");
    let server = FakeServer::start(move |request, _| match request.target.as_str() {
        "/index.yaml" => answer(200, &[], index.clone()),
        _ => answer(200, &[], example("a", "1.0.0")),
    })
    .await;
    let source = from_repository(&format!("http://{}", server.address), "a", "1.0.0");
    let finished = fetch(&source, &Credentials::default(), &settings()).await;
    assert!(
        finished.refusal().contains("another digest"),
        "{:?}",
        finished.result
    );

    let told = format!("sha256:{wrong}");
    for (header, blob) in [
        (None, example("a", "1.0.1")),
        (Some(told), example("a", "1.0.0")),
    ] {
        let server = FakeServer::start(move |request, _| {
            let manifest = registry::manifest(&example("a", "1.0.0"));
            match (request.target.contains("/manifests/"), &header) {
                (true, Some(told)) => {
                    answer(200, &[("Docker-Content-Digest", told.as_str())], manifest)
                }
                (true, None) => answer(200, &[], manifest),
                (false, _) => answer(200, &[], blob.clone()),
            }
        })
        .await;
        let source = from_registry(&registry::url(&server), "a", "1.0.0");
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains("another digest"),
            "{:?}",
            finished.result
        );
    }
}
