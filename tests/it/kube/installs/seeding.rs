//! Crashes while the apps that the Secret of a target lists are made: each app is made once, and
//! the list is removed when all are there.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::targets::{REQUEST, install_on_edge, kubeconfig, target, until_done};
use crate::{
    kube::killed::start,
    support::{installs::Installs, until::until_async},
};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// The list of all apps, as an annotation.
fn request(installs: &Installs) -> Value {
    let entries = NAMES.map(|name| {
        json!({ "name": name, "spec": {
            "namespace": { "name": installs.own("target"), "create": true },
            "applicationRef": { "name": installs.own("example"), "version": "1.0.0" },
        } })
    });
    json!({ REQUEST: json!(entries).to_string() })
}

/// The listed apps that exist, with their UIDs.
async fn made(installs: &Installs) -> BTreeMap<String, String> {
    let listed = installs.api().list(&Default::default()).await;
    let listed = listed.expect("a list").items;
    let own = listed
        .iter()
        .filter(|object| NAMES.contains(&&*object.name_any()));
    own.map(|object| (object.name_any(), object.uid().unwrap_or_default()))
        .collect()
}

/// Checks that all apps are there, and those that were there before are the same.
async fn assert_made_once(installs: &Installs, before: &BTreeMap<String, String>) {
    let after = made(installs).await;
    assert_eq!(after.len(), NAMES.len(), "{after:?}");
    for (name, uid) in before {
        assert_eq!(after.get(name), Some(uid), "{name} was made again");
    }
    for name in NAMES {
        let object = installs.get(name).await.expect("an object");
        let label = object.labels().get("ludgate.dev/target");
        assert_eq!(label.map(String::as_str), Some("edge"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_finished_after_a_crash_at_each_of_its_steps() {
    // The last one is between the apps and the removal of the list.
    for count in 0..=NAMES.len() {
        let installs = Installs::stopped("").await;
        installs.definition(json!({})).await;
        let kubeconfig = kubeconfig(&installs).await;
        target(&installs, &kubeconfig, request(&installs)).await;
        for name in &NAMES[..count] {
            install_on_edge(&installs, name).await;
        }
        let before = made(&installs).await;
        assert_eq!(before.len(), count);
        let installs = installs.restart().await;
        until_done(&installs).await;
        assert_made_once(&installs, &before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_finished_wherever_its_controller_is_killed() {
    for count in 1..=NAMES.len() {
        let installs = Installs::stopped("").await;
        installs.definition(json!({})).await;
        let kubeconfig = kubeconfig(&installs).await;
        target(&installs, &kubeconfig, request(&installs)).await;
        let killed = start(&installs.config(), &format!("{count}-killed"));
        let is_reached = async || made(&installs).await.len() >= count;
        until_async("the apps are made", is_reached).await;
        // SIGKILL.
        drop(killed);
        installs.kill_helm();
        let before = made(&installs).await;
        let _next = start(&installs.config(), &format!("{count}-next"));
        until_done(&installs).await;
        assert_made_once(&installs, &before).await;
    }
}
