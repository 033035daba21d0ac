//! `ludgate installs` against the API. No controller runs here, so the test writes the status.

use std::io::Write;

use kube::{
    Api as KubeApi,
    api::{DynamicObject, Patch, PatchParams},
};
use ludgate::cluster::crd::installation::ApplicationInstallation;
use serde_json::{Value, json};

use super::rig::{EDITOR, Rig};
use crate::support::{command_line::Terminal, kube_namespace::kind_of, world::free_port};

impl Rig {
    /// Says what the controller would say about the current spec.
    async fn ready(&self, name: &str, status: &str, reason: &str) {
        let kind = kind_of::<ApplicationInstallation>();
        let namespace = &self.namespace.name;
        let api: KubeApi<DynamicObject> =
            KubeApi::namespaced_with(self.namespace.client.clone(), namespace, &kind);
        let stored = api.get(name).await.expect("an installation");
        let ready = json!({
            "status": status, "reason": reason, "message": "m",
            "observedGeneration": stored.metadata.generation,
        });
        let patch = Patch::Merge(json!({ "status": {
            "conditions": { "Ready": ready },
            "helmRelease": { "name": "r", "version": 1, "info": { "status": "deployed" } },
        } }));
        let parameters = PatchParams::default();
        api.patch_status(name, &parameters, &patch)
            .await
            .expect("a status");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_installed_upgraded_rolled_back_and_deleted() {
    let site = format!("http://127.0.0.1:{}", free_port());
    let mut rig = Rig::with("installations = true\n", &site).await;
    let app = rig
        .define("app", json!({ "defaultValuesBlock": "a: 1\n" }))
        .await;
    let namespace = rig.namespace.name.clone();
    rig.allow("alice", EDITOR, &namespace).await;
    let alice = Terminal::with_token(&site, &rig.api.provider.access_token("alice"));
    let run = |arguments: String| alice.run_part("installs", arguments);

    let catalog = run("catalog".to_owned()).await.ok();
    let is_row = |row: &str| row.starts_with(&format!("{app} ")) && row.contains("  Example  ");
    assert!(catalog.lines().any(is_row), "{catalog}");
    let choose = run(format!("install docs -n {namespace} --app {app}"))
        .await
        .error();
    assert_eq!(choose, "choose a version with --app-version: 1.0.0, 2.0.0");
    let install = format!("install docs -n {namespace} --app {app} --app-version 1.0.0 --json");
    let made = run(install.clone()).await.json();
    assert_eq!(made["spec"]["valuesBlock"], "a: 1\n");
    assert!(run(install).await.error().contains("already exists"));
    let list = run(format!("list -n {namespace}")).await.ok();
    let row = format!("{namespace}  docs  {app}  1.0.0    Unknown           Pending\n");
    assert!(list.ends_with(&row), "{list}");

    rig.ready("docs", "True", "InstallationSuccessful").await;
    let watched = run(format!("get docs -n {namespace} --watch")).await.ok();
    assert_eq!(
        watched,
        format!("{namespace}/docs 1.0.0 True InstallationSuccessful\n")
    );
    let mut values = tempfile::NamedTempFile::new().expect("a file");
    values.write_all(b"a: 2\n").expect("written");
    let file = values.path().display();
    let upgrade = format!("upgrade docs -n {namespace} --app-version 2.0.0 --values {file} --json");
    let upgraded = run(upgrade).await.json();
    assert_eq!(upgraded["spec"]["applicationRef"]["version"], "2.0.0");
    assert_eq!(upgraded["status"]["current"], false);
    rig.ready("docs", "False", "InstallationFailed").await;
    let failed = run(format!("get docs -n {namespace} --watch")).await;
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);

    let history = run(format!("history docs -n {namespace} --json"))
        .await
        .json();
    let versions: Vec<&Value> = history
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["version"])
        .collect();
    assert_eq!(versions, ["1.0.0", "2.0.0"]);
    let rolled_back = run(format!("rollback docs -n {namespace} --json"))
        .await
        .json();
    assert_eq!(rolled_back["spec"]["applicationRef"]["version"], "1.0.0");
    assert_eq!(rolled_back["spec"]["valuesBlock"], "a: 1\n");
    let unknown = run(format!("rollback docs -n {namespace} --to 9"))
        .await
        .error();
    assert_eq!(unknown, "there is no earlier version 9; known are: 1, 2");

    let deleted = run(format!("delete docs -n {namespace} --watch"))
        .await
        .ok();
    assert_eq!(deleted, "docs is deleted\n");
    let gone = run(format!("get docs -n {namespace}")).await.error();
    assert_eq!(
        gone,
        "applicationinstallations.apps.kubermatic.k8c.io \"docs\" not found"
    );
    let bob = Terminal::with_token(&site, &rig.api.provider.access_token("bob"));
    let refused = bob
        .run_part("installs", format!("get docs -n {namespace}"))
        .await;
    assert!(refused.error().contains("User \"bob\" cannot get resource"));
}
