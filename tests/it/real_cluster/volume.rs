//! Where the data of an app is: on the volume of its group, on PHFS, or on a volume that ends with
//! its pod.

use serde_json::json;

use super::images::load_ludgate_image;
use crate::support::{
    bound_volume::BoundVolume,
    controller::{Controlled, page, pod, serving, until_page},
};

/// The claim of a volume that apps share.
const CLAIM: &str = "project-phusers";
/// Each pod shows the note of the first one that had this folder.
const PAGE: &str = "test -e $PRIMEHUB_APP_ROOT/note || echo first started with $GREETING >$PRIMEHUB_APP_ROOT/note; env; cat $PRIMEHUB_APP_ROOT/note";

/// Makes the app `lab` with its data in `/data`, or changes it.
async fn apply(controlled: &Controlled, greeting: &str, user: u32, is_stopped: bool) {
    let mut container = serving(PAGE);
    container["env"] = json!([{ "name": "GREETING", "value": greeting }]);
    container["securityContext"] = json!({ "runAsUser": user });
    let mut spec = pod(json!([container]));
    spec["appRoot"] = "/data".into();
    spec["stop"] = is_stopped.into();
    controlled.app("lab", spec).await;
}

async fn strategy(controlled: &Controlled) -> Option<String> {
    let deployment = controlled.deployments().get("app-lab").await.expect("made");
    deployment.spec?.strategy?.type_
}

/// Checks that data on the volume of the group outlasts the pods that wrote it. `keys` are of
/// `[controller.applications]`; the app runs as `user`.
async fn check_that_data_stays(keys: &str, user: u32) {
    // Ludgate needs more memory than busybox.
    let platform = format!(
        "{keys}[groups.phusers]\nvolume = \"{CLAIM}\"\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"128MiB\"\n"
    );
    let controlled = Controlled::with(&platform).await;
    let folder = BoundVolume::bind(&controlled.namespace, CLAIM, "ReadWriteMany").await;
    let note = "first started with one";

    apply(&controlled, "one", user, false).await;
    controlled.until_current("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    let first = ["PRIMEHUB_APP_ROOT=/data", "GREETING=one", note];
    until_page(&world, "lab", &first).await;
    assert_eq!(strategy(&controlled).await.as_deref(), Some("Recreate"));

    let second = ["PRIMEHUB_APP_ROOT=/data", "GREETING=two", note];
    apply(&controlled, "two", user, false).await;
    controlled.until_current("lab", "Ready").await;
    until_page(&world, "lab", &second).await;

    apply(&controlled, "two", user, true).await;
    controlled.until_current("lab", "Stopped").await;
    assert!(controlled.pods("lab").await.is_empty());
    apply(&controlled, "two", user, false).await;
    controlled.until_current("lab", "Ready").await;
    until_page(&world, "lab", &second).await;

    let written = std::fs::read_to_string(folder.path().join("phapplications/lab/note"));
    assert_eq!(written.expect("the note"), format!("{note}\n"));
    folder.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_on_the_volume_of_the_group_outlasts_a_change_and_a_stop() {
    check_that_data_stays("", 0).await;
}

/// kubelet makes the folder for root alone, since the folder of the volume is so.
#[tokio::test(flavor = "multi_thread")]
async fn ludgates_image_opens_the_folder_on_the_volume_to_an_app_that_is_not_root() {
    load_ludgate_image("localhost/ludgate:1").await;
    check_that_data_stays("folder_image = \"localhost/ludgate:1\"\n", 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_phfs_an_app_has_the_folder_of_its_group_and_sees_no_other() {
    let platform = format!(
        "phfs = \"{CLAIM}\"\n[groups.PH_Users]\n[groups.friends]\n[instance_types.cpu-1]\ncpu = 0.1\nmemory = \"32MiB\"\n"
    );
    let controlled = Controlled::with(&platform).await;
    let folder = BoundVolume::bind(&controlled.namespace, CLAIM, "ReadWriteMany").await;
    for (group, line) in [("ph-users", "of the group"), ("friends", "of others")] {
        let own = folder.path().join("groups").join(group);
        std::fs::create_dir_all(&own).expect("a folder");
        std::fs::write(own.join(format!("{group}.txt")), line).expect("written");
    }
    let shown = "cat /phfs/*; echo; find /phfs -type f; echo new >/phfs/new";
    let mut spec = pod(json!([serving(shown)]));
    spec["groupName"] = "PH_Users".into();
    controlled.app("lab", spec).await;
    controlled.until_phase("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    until_page(&world, "lab", &["of the group", "/phfs/ph-users.txt"]).await;
    let (_, text) = page(&world, "lab").await;
    assert!(!text.contains("friends"), "{text}");
    let written = std::fs::read_to_string(folder.path().join("groups/ph-users/new"));
    assert_eq!(written.expect("a file"), "new\n");
    folder.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_volume_the_data_of_an_app_ends_with_its_pod() {
    let controlled = Controlled::start().await;
    apply(&controlled, "one", 1000, false).await;
    controlled.until_current("lab", "Ready").await;
    let world = controlled.gateway("lab").await;
    let first = ["PRIMEHUB_APP_ROOT=/data", "first started with one"];
    until_page(&world, "lab", &first).await;
    let strategy = strategy(&controlled).await;
    assert_eq!(strategy.as_deref(), Some("RollingUpdate"));
    apply(&controlled, "two", 1000, false).await;
    controlled.until_current("lab", "Ready").await;
    until_page(&world, "lab", &["first started with two"]).await;
}
