//! Dataset objects of the cluster, which PrimeHub defines. Their definition is in
//! `tests/real/kube/datasets.yaml`.

use std::path::Path;

use kube::{ResourceExt, api::ApiResource, core::GroupVersionKind};
use serde_json::{Value, json};

use crate::support::{
    api::Api,
    controller::{Controlled, pod, serving, until_page},
};

/// Each group has datasets of its own, and all apps get `maps`.
const PLATFORM: &str = "datasets = [\"maps\"]\n\
     [groups.phusers]\ndatasets = [\"numbers\", \"colours\", \"scratch:rw\"]\n\
     [groups.friends]\ndatasets = [\"last\"]\n\
     [instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n";
/// Shows what the app has, and tries to write to two datasets.
const PAGE: &str = "env; cat /datasets/numbers/one /mnt/dataset-numbers/one /datasets/maps/north; \
     touch /datasets/numbers/two 2>/dev/null || echo numbers are read-only; \
     echo written by the app >/datasets/scratch/note";

impl Controlled {
    /// Makes a dataset, or changes it.
    async fn dataset(&self, name: &str, spec: Value) {
        let kind = GroupVersionKind::gvk("primehub.io", "v1alpha1", "Dataset");
        let kind = ApiResource::from_gvk_with_plural(&kind, "datasets");
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.namespace.apply(&kind, &object).await;
    }

    /// A dataset that is a folder of this machine, which is the cluster's node.
    async fn folder_dataset(&self, name: &str, folder: &Path) {
        let spec = json!({ "type": "hostPath", "hostPath": { "path": folder } });
        self.dataset(name, spec).await;
    }

    async fn env_dataset(&self, name: &str, variables: Value) {
        let spec = json!({ "type": "env", "variables": variables });
        self.dataset(name, spec).await;
    }

    /// The names of an app's pods.
    async fn current_pods(&self, app: &str) -> Vec<String> {
        let pods = self.pods(app).await;
        pods.iter().map(|pod| pod.name_any()).collect()
    }
}

/// Makes a file in a folder.
fn write(folder: &Path, name: &str, line: &str) {
    std::fs::write(folder.join(name), format!("{line}\n")).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_has_its_datasets_and_a_changed_one_counts_with_its_next_change() {
    let controlled = Controlled::with(PLATFORM).await;
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let [numbers, scratch, maps] = folders.each_ref().map(|folder| folder.path());
    write(numbers, "one", "the first number");
    write(maps, "north", "up");
    controlled.folder_dataset("numbers", numbers).await;
    controlled.folder_dataset("maps", maps).await;
    controlled.folder_dataset("scratch", scratch).await;

    let spec = pod(json!([serving(PAGE)]));
    controlled.app("lab", spec.clone()).await;
    assert_eq!(
        controlled.until_phase("lab", "Error").await,
        "dataset colours does not exist"
    );
    assert!(controlled.pods("lab").await.is_empty());
    let red = json!({ "the-first": "red" });
    controlled.env_dataset("colours", red).await;
    controlled.until_phase("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    let shown = [
        "COLOURS_THE_FIRST=red",
        "the first number",
        "up",
        "numbers are read-only",
    ];
    until_page(&world, "lab", &shown).await;
    let note = std::fs::read_to_string(scratch.join("note"));
    assert_eq!(note.expect("the note"), "written by the app\n");
    let pods = controlled.current_pods("lab").await;

    let mut other = spec.clone();
    other["groupName"] = "friends".into();
    other["podTemplate"]["spec"]["containers"] = json!([serving("env")]);
    controlled.app("other", other).await;
    assert_eq!(
        controlled.until_phase("other", "Error").await,
        "dataset last does not exist"
    );
    // One watch shows all datasets: the changed one is known before the last one.
    let blue = json!({ "the-first": "blue" });
    controlled.env_dataset("colours", blue).await;
    controlled.env_dataset("last", json!({})).await;
    controlled.until_phase("other", "Ready").await;
    assert_eq!(
        controlled.current_pods("lab").await,
        pods,
        "nothing restarted"
    );
    until_page(&world, "lab", &shown).await;

    let mut next = spec;
    next["displayName"] = "Another name".into();
    controlled.app("lab", next).await;
    controlled.until_current("lab", "Ready").await;
    until_page(&world, "lab", &["COLOURS_THE_FIRST=blue"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_shows_the_datasets_of_a_group_that_exist() {
    let controlled = Controlled::with(PLATFORM).await;
    let numbers = json!({ "type": "pv", "volumeName": "numbers", "displayName": "All numbers" });
    controlled.dataset("numbers", numbers).await;
    let maps = json!({ "type": "env", "variables": { "key": "hidden" }, "description": "Of all" });
    controlled.dataset("maps", maps).await;
    controlled.env_dataset("last", json!({})).await;

    let namespace = &controlled.namespace;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = "https://hub.example.com";
    let platform = "[groups.phusers]\ndatasets = [\"numbers\", \"colours\"]\n[groups.friends]\n\
         [controller.applications]\ndatasets = [\"maps\"]\n";
    let api = Api::with(&namespace.name, &kubeconfig, site, platform).await;
    let query =
        "{ me { effectiveGroups { name datasets { id name displayName description type } } } }";
    let answer = api.data("alice", query, json!({})).await;
    let dataset = |name: &str, display_name: &str, description: Value, kind: &str| {
        json!({
            "id": name,
            "name": name,
            "displayName": display_name,
            "description": description,
            "type": kind,
        })
    };
    let maps = dataset("maps", "maps", json!("Of all"), "env");
    let numbers = dataset("numbers", "All numbers", Value::Null, "pv");
    assert_eq!(
        answer["me"]["effectiveGroups"],
        json!([
            { "name": "friends", "datasets": [maps] },
            { "name": "phusers", "datasets": [maps, numbers] },
        ])
    );
}
