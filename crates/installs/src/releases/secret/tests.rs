//! Bodies and labels of revisions.

use std::{collections::BTreeMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn encode(body: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(body).expect("in memory");
    STANDARD
        .encode(gzip.finish().expect("in memory"))
        .into_bytes()
}

fn body() -> Vec<u8> {
    let body = json!({
        "name": "apps-app-1",
        "info": {
            "status": "pending-upgrade",
            "description": "Preparing upgrade",
            "first_deployed": "2026-01-02T03:04:05Z",
            "last_deployed": "0001-01-01T00:00:00Z",
            "deleted": "",
            "notes": "",
        },
        "hooks": null,
        "chart": {
            "metadata": { "name": "example", "version": "0.2.0", "appVersion": "2" },
            "templates": [{ "name": "templates/x.yaml", "data": "eA==" }],
        },
        "manifest": "---\n",
        "version": 2,
        "namespace": "target",
    });
    body.to_string().into_bytes()
}

#[test]
fn a_secret_is_read_compressed_or_not() {
    let plain = STANDARD.encode(body()).into_bytes();
    for text in [encode(&body()), plain] {
        let data = BTreeMap::from([("release".to_owned(), ByteString(text))]);
        let secret = Secret {
            data: Some(data),
            ..Secret::default()
        };
        let release = decode(&secret).expect("a release");
        assert_eq!((release.name.as_str(), release.revision), ("apps-app-1", 2));
        assert_eq!(release.status, ReleaseStatus::PendingUpgrade);
        assert_eq!(release.description, "Preparing upgrade");
        assert_eq!(release.chart_name, "example");
        assert_eq!(release.chart_version, "0.2.0");
        assert_eq!(release.app_version, "2");
        assert_eq!(
            release.first_deployed.as_deref(),
            Some("2026-01-02T03:04:05Z")
        );
        assert_eq!(
            (release.last_deployed, release.deleted, release.notes),
            (None, None, None)
        );
    }
}

#[test]
fn what_is_no_release_is_an_error() {
    let none = decode(&Secret::default()).expect_err("no body");
    assert!(matches!(none, ReleaseReadError::Missing), "{none}");
    let wrong = decode_body(b"%", MAX_BODY).expect_err("no base64");
    assert!(matches!(wrong, ReleaseReadError::Base64), "{wrong}");
    let broken = decode_body(&encode(b"[1"), MAX_BODY).expect_err("no JSON");
    assert!(matches!(broken, ReleaseReadError::Json(_)), "{broken}");
    let mut cut = encode(&body());
    cut.truncate(cut.len() / 8 * 4);
    let cut = decode_body(&cut, MAX_BODY).expect_err("half of it");
    assert!(matches!(cut, ReleaseReadError::Json(_)), "{cut}");
}

#[test]
fn a_body_that_unpacks_to_too_much_is_refused_and_one_at_the_limit_is_not() {
    let length = u64::try_from(body().len()).expect("short");
    assert!(decode_body(&encode(&body()), length).is_ok());
    let long = decode_body(&encode(&body()), length - 1).expect_err("too long");
    assert!(matches!(long, ReleaseReadError::TooLong), "{long}");
    let bomb = encode(&[&b"{\"manifest\":\""[..], &[b'a'; 1 << 20]].concat());
    assert!(bomb.len() < 4096);
    let bomb = decode_body(&bomb, 1 << 16).expect_err("too long");
    assert!(matches!(bomb, ReleaseReadError::TooLong), "{bomb}");
}

#[test]
fn labels_are_read_without_the_body() {
    let metadata = |labels: &[(&str, &str)]| {
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ObjectMeta {
            labels: Some(labels.collect()),
            ..ObjectMeta::default()
        }
    };
    let helm = ("owner", "helm");
    let ours = metadata(&[
        helm,
        ("name", "a"),
        ("version", "12"),
        ("status", "deployed"),
        (OWNER_LABEL, "u-1"),
    ]);
    assert_eq!(
        RevisionLabels::read(&ours),
        Some(RevisionLabels {
            name: "a".to_owned(),
            revision: 12,
            status: ReleaseStatus::Deployed,
            owner: Some("u-1".to_owned()),
        })
    );
    let without = RevisionLabels::read(&metadata(&[helm, ("name", "a"), ("version", "1")]));
    let without = without.expect("a revision");
    assert_eq!(
        (without.status, without.owner),
        (ReleaseStatus::Unknown, None)
    );
    for wrong in [
        metadata(&[helm, ("name", "a"), ("version", "x")]),
        metadata(&[helm, ("version", "1")]),
        metadata(&[("owner", "tiller"), ("name", "a"), ("version", "1")]),
        ObjectMeta::default(),
    ] {
        assert_eq!(RevisionLabels::read(&wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_revision_without_a_readable_body_has_the_state_of_its_labels() {
    let labels = [
        ("owner", "helm"),
        ("name", "a"),
        ("version", "3"),
        ("status", "failed"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut secret = Secret {
        metadata: ObjectMeta {
            namespace: Some("target".to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    let without = decode_or_labels(&secret).expect("a revision");
    assert_eq!((without.name.as_str(), without.revision), ("a", 3));
    assert_eq!(without.status, ReleaseStatus::Failed);
    assert_eq!(
        (without.namespace.as_str(), without.description.as_str()),
        ("target", "")
    );
    // The labels count, also where the body says otherwise.
    let data = BTreeMap::from([("release".to_owned(), ByteString(encode(&body())))]);
    secret.data = Some(data);
    let both = decode_or_labels(&secret).expect("a revision");
    assert_eq!((both.revision, both.status), (3, ReleaseStatus::Failed));
    assert_eq!(both.description, "Preparing upgrade");
    assert_eq!(decode_or_labels(&Secret::default()), None);
}

#[test]
fn null_parts_are_absent_ones() {
    let body = br#"{"name":"a","version":1,"info":null,"chart":{"metadata":null}}"#;
    let release = decode_body(&encode(body), MAX_BODY).expect("readable");
    assert_eq!(
        (release.status, release.chart_name.as_str()),
        (ReleaseStatus::Unknown, "")
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_body(&text, 100);
        let _ = decode_body(&STANDARD.encode(&text).into_bytes(), 100);
        let _ = decode_body(&encode(&text), 100);
    }
}

#[test]
fn long_texts_are_cut() {
    let long = "ä".repeat(1 << 20);
    let body = json!({
        "name": "apps-app-1", "namespace": "target", "version": 1,
        "info": { "status": "deployed", "description": long, "notes": long, "deleted": long },
        "chart": { "metadata": { "name": long, "version": long, "appVersion": long } },
    });
    let text = encode(body.to_string().as_bytes());
    let release = decode_body(&text, MAX_BODY).expect("a release");
    let deleted = release.deleted.expect("a time");
    let texts = [
        &release.description,
        &release.chart_name,
        &release.chart_version,
        &release.app_version,
        &deleted,
    ];
    for text in texts {
        assert_eq!((text.len(), text.capacity()), (MAX_TEXT, MAX_TEXT));
    }
    assert_eq!(release.notes.map(|notes| notes.len()), Some(MAX_NOTES));
}
