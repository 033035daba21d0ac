//! Releases that an interrupted operation left behind: what repairs each of them, done by Helm.

use std::{collections::BTreeMap, io::Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::PostParams};
use ludgate_installs::{
    release::ReleaseStatus::{self, Deployed},
    releases::secret::SECRET_TYPE,
};
use serde_json::json;

use crate::support::helm::{Helm, RELEASE, charts};

const INSTALLED: &str = "Install complete";
const UPGRADED: &str = "Upgrade complete";
const PREPARING: &str = "Preparing upgrade";
const ROLLBACK_FAILED: &str = "Rollback \"local\" failed: no answer";

/// A revision: its number, state and description.
type Revision = (i64, &'static str, &'static str);

/// Only the ConfigMap differs between revisions.
fn manifest(revision: i64) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stuck\ndata:\n  \
         revision: \"{revision}\"\n"
    )
}

/// Writes the Secret of a revision, as Helm does.
async fn write(helm: &Helm, (revision, status, description): Revision, manifest: &str) {
    let body = json!({
        "name": RELEASE,
        "namespace": helm.namespace.name,
        "version": revision,
        "manifest": manifest,
        "config": {},
        "info": {
            "first_deployed": "2026-01-02T03:04:05Z",
            "last_deployed": "2026-01-02T03:04:05Z",
            "status": status,
            "description": description,
        },
        "chart": { "metadata": { "apiVersion": "v2", "name": "stuck", "version": "1.0.0" } },
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let written = gzip.write_all(body.to_string().as_bytes());
    written.expect("in memory");
    let packed = STANDARD.encode(gzip.finish().expect("in memory"));
    let labels = [
        ("owner", "helm".to_owned()),
        ("name", RELEASE.to_owned()),
        ("status", status.to_owned()),
        ("version", revision.to_string()),
    ];
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(format!("sh.helm.release.v1.{RELEASE}.v{revision}")),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from([(
            "release".to_owned(),
            ByteString(packed.into_bytes()),
        )])),
        ..Secret::default()
    };
    let client = helm.namespace.client.clone();
    let api: Api<Secret> = Api::namespaced(client, &helm.namespace.name);
    let made = api.create(&PostParams::default(), &secret).await;
    made.expect("a Secret");
}

async fn write_all(helm: &Helm, history: &[Revision]) {
    for revision in history {
        write(helm, *revision, &manifest(revision.0)).await;
    }
    let (_, last, _) = history.last().expect("a revision");
    helm.until_state(Some(ReleaseStatus::parse(last))).await;
}

async fn assert_rolled_back(helm: &Helm, history: &[Revision], revision: i64) {
    helm.until_state(Some(Deployed)).await;
    let after = helm.history().await;
    let latest = after.last().expect("a revision");
    let next = history.last().map(|(number, ..)| number + 1);
    assert_eq!(Some(latest.revision), next, "{history:?}");
    assert_eq!(latest.description, format!("Rollback to {revision}"));
    let (data, _) = helm.config_map("stuck").await.expect("a ConfigMap");
    assert_eq!(data["revision"], revision.to_string(), "{history:?}");
    assert!(!helm.releases.is_unfinished(&helm.namespace.name, RELEASE));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_release_goes_back_to_the_newest_revision_that_was_in_use() {
    let helm = Helm::start().await;
    let cases: [(&[Revision], i64); 5] = [
        (
            &[
                (1, "superseded", INSTALLED),
                (2, "pending-upgrade", PREPARING),
            ],
            1,
        ),
        (
            &[
                (1, "deployed", INSTALLED),
                (2, "pending-rollback", "Rollback to 1"),
            ],
            1,
        ),
        (
            &[
                (1, "deployed", INSTALLED),
                (2, "superseded", UPGRADED),
                (3, "pending-upgrade", PREPARING),
            ],
            2,
        ),
        // The failed rollback marked the second revision, which never was in use.
        (
            &[
                (1, "superseded", INSTALLED),
                (2, "superseded", PREPARING),
                (3, "failed", ROLLBACK_FAILED),
                (4, "pending-upgrade", PREPARING),
            ],
            1,
        ),
        (
            &[
                (1, "superseded", INSTALLED),
                (2, "superseded", UPGRADED),
                (3, "failed", ROLLBACK_FAILED),
                (4, "pending-upgrade", PREPARING),
            ],
            2,
        ),
    ];
    for (history, revision) in cases {
        write_all(&helm, history).await;
        assert!(helm.releases.is_unfinished(&helm.namespace.name, RELEASE));
        if helm.has_rolled_back(revision).await {
            assert_rolled_back(&helm, history, revision).await;
        }
        helm.uninstall(false).await.expect("uninstalled");
        helm.until_state(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_never_was_in_use_is_removed_and_installed_again() {
    let helm = Helm::start().await;
    let cases: [&[Revision]; 2] = [
        &[
            (1, "failed", "Release \"local\" failed: x"),
            (2, "pending-upgrade", PREPARING),
        ],
        &[(1, "pending-install", "Initial install underway")],
    ];
    for history in cases {
        write_all(&helm, history).await;
        helm.uninstall(false).await.expect("uninstalled");
        helm.until_state(None).await;
        let chart = charts().join("example-0.1.0");
        let installed = helm.upgrade(&chart, "{}", &helm.options()).await;
        installed.unwrap_or_else(|error| panic!("{history:?}: {error}"));
        assert_eq!(helm.states().await, [(1, Deployed)], "{history:?}");
        helm.uninstall(false).await.expect("uninstalled");
        helm.until_state(None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_fails_is_an_error_and_removes_nothing() {
    let helm = Helm::start().await;
    let unknown = "---\napiVersion: example.com/v1\nkind: Unknown\nmetadata:\n  name: stuck\n";
    write(&helm, (1, "superseded", INSTALLED), unknown).await;
    write(&helm, (2, "pending-upgrade", PREPARING), &manifest(2)).await;
    let rolled_back = helm.rollback(1).await;
    assert!(rolled_back.is_err(), "it cannot be built");
    let states = helm.states().await;
    assert!(states.len() >= 2, "{states:?}");
    assert_eq!(states[0], (1, ReleaseStatus::Superseded), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_removal_is_repeated() {
    let helm = Helm::start().await;
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stuck\n  labels: {{ \
         app.kubernetes.io/managed-by: Helm }}\n  annotations: {{ meta.helm.sh/release-name: \
         {RELEASE}, meta.helm.sh/release-namespace: {} }}\n",
        helm.namespace.name
    );
    helm.namespace.kubectl(&["apply", "-f", "-"], &object).await;
    write_all(&helm, &[(1, "uninstalling", "Deletion in progress")]).await;
    assert!(helm.releases.is_unfinished(&helm.namespace.name, RELEASE));
    helm.uninstall(false).await.expect("uninstalled");
    helm.until_state(None).await;
    assert_eq!(helm.config_map("stuck").await, None);
}
