//! Releases that an interrupted operation left behind.

use std::{collections::BTreeMap, io::Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use ludgate_installs::{release::ReleaseStatus, releases::secret::SECRET_TYPE};
use serde_json::json;

use crate::support::{
    installs::{Installs, condition},
    until::until_async,
};

/// A revision: its number, state and description.
pub(super) type Revision = (i64, &'static str, &'static str);

/// Writes the Secret of a revision, as Helm does.
pub(super) async fn write(
    installs: &Installs,
    release: &str,
    (revision, status, description): Revision,
) {
    let manifest = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stuck\ndata:\n  \
         revision: \"{revision}\"\n"
    );
    let namespace = installs.own("target");
    let body = json!({
        "name": release, "namespace": namespace, "version": revision, "manifest": manifest,
        "config": {},
        "info": {
            "first_deployed": "2026-01-02T03:04:05Z", "last_deployed": "2026-01-02T03:04:05Z",
            "status": status, "description": description,
        },
        "chart": { "metadata": { "apiVersion": "v2", "name": "stuck", "version": "1.0.0" } },
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(body.to_string().as_bytes())
        .expect("in memory");
    let packed = STANDARD.encode(gzip.finish().expect("in memory"));
    let labels = [
        ("owner", "helm".to_owned()),
        ("name", release.to_owned()),
        ("status", status.to_owned()),
        ("version", revision.to_string()),
    ];
    let mut secret = Secret::default();
    secret.metadata.name = Some(format!("sh.helm.release.v1.{release}.v{revision}"));
    let labels = labels.map(|(key, value)| (key.to_owned(), value));
    secret.metadata.labels = Some(labels.into());
    secret.type_ = Some(SECRET_TYPE.to_owned());
    let data = [("release".to_owned(), ByteString(packed.into_bytes()))];
    secret.data = Some(BTreeMap::from(data));
    let api: Api<Secret> = Api::namespaced(installs.namespace().client.clone(), &namespace);
    let made = api.create(&PostParams::default(), &secret).await;
    made.expect("a Secret");
}

/// An installation without a controller, with this history and a status that names it.
async fn interrupted(history: &[Revision]) -> Installs {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    installs.make_target(&installs.namespace().name).await;
    let release = installs.release("app-1");
    for revision in history {
        write(&installs, &release, *revision).await;
    }
    // Refused until its status names the release.
    installs.installation("app-1", json!({})).await;
    installs
        .until_condition("app-1", "Ready", ("False", "ReleaseNameTaken"))
        .await;
    let status = json!({ "status": { "helmRelease": { "name": release, "version": 1 } } });
    let patched = installs
        .api()
        .patch_status("app-1", &PatchParams::default(), &Patch::Merge(&status))
        .await;
    patched.expect("a status");
    installs
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_releases_are_repaired_and_applied() {
    const INSTALLED: &str = "Install complete";
    const PREPARING: &str = "Preparing upgrade";
    let cases: [(&[Revision], &str); 4] = [
        (
            &[
                (1, "superseded", INSTALLED),
                (2, "pending-upgrade", PREPARING),
            ],
            "RolledBack",
        ),
        (
            &[
                (1, "deployed", INSTALLED),
                (2, "pending-rollback", "Rollback to 1"),
            ],
            "RolledBack",
        ),
        (
            &[(1, "pending-install", "Initial install underway")],
            "Uninstalled",
        ),
        (
            &[(1, "uninstalling", "Deletion in progress")],
            "Uninstalled",
        ),
    ];
    for (history, reason) in cases {
        let installs = interrupted(history).await;
        let recovered = ("True", reason);
        installs
            .until_condition("app-1", "Recovered", recovered)
            .await;
        installs.until_ready("app-1").await;
        let latest = installs.history("app-1").await.pop().expect("a revision");
        assert_eq!(latest.status, ReleaseStatus::Deployed, "{history:?}");
        assert!(installs.data().await.is_some(), "{history:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_of_an_ended_process_is_finished_by_the_next_one() {
    let installs = Installs::start().await;
    installs.definition(json!({})).await;
    let spec = json!({
        "applicationRef": { "name": installs.own("example"), "version": "2.0.0" },
        "valuesBlock": "deployService: true\ndeployClaim: true\n",
        "deployOptions": { "helm": { "wait": true, "timeout": "20s" } },
    });
    installs.installation("app-1", spec).await;
    let is_made = async || installs.data().await.is_some();
    until_async("the objects are made", is_made).await;
    let installs = installs.restart().await;
    // The process was killed with its controller: the release is pending.
    let recovered = ("True", "Uninstalled");
    installs
        .until_condition("app-1", "Recovered", recovered)
        .await;
    let reference = json!({ "name": installs.own("example"), "version": "1.0.0" });
    installs
        .installation("app-1", json!({ "applicationRef": reference }))
        .await;
    installs
        .until("app-1", |status| condition(status, "Ready").0 == "True")
        .await;
}
