//! The namespaces and accounts that operations use.

use std::time::Duration;

use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{Api, Client};
use ludgate_cluster::writer::Writer;
use ludgate_installs::targets::{
    kubeconfig::TargetKubeconfig,
    namespace::{MANAGER, NamespaceMeta, field_conflict},
    token::{ACCOUNT, NamespaceAccount},
};

use crate::support::kube_namespace::{KubeNamespace, kubectl};

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_others_stay_and_earlier_ones_of_ours_go() {
    let namespace = KubeNamespace::new().await;
    let writer = Writer::new(namespace.client.clone(), MANAGER);
    kubectl(&["label", "namespace", &namespace.name, "foreign=yes"], "").await;
    let mut wanted = NamespaceMeta {
        name: namespace.name.clone(),
        labels: [("env".to_owned(), "dev".to_owned())].into(),
        ..NamespaceMeta::default()
    };
    let labels = async || {
        let api: Api<Namespace> = Api::all(namespace.client.clone());
        let live = api.get(&namespace.name).await.expect("a namespace");
        let labels = live.metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        (label("foreign"), label("env"))
    };
    wanted.apply(&writer, "app").await.expect("applied");
    assert_eq!(labels().await, ("yes".to_owned(), "dev".to_owned()));
    let mut other = wanted.clone();
    other.labels.insert("env".to_owned(), "prod".to_owned());
    let error = other.apply(&writer, "other").await.expect_err("a conflict");
    let conflict = field_conflict(&error).unwrap_or_default();
    assert!(conflict.contains("env"), "{conflict} {error:?}");
    assert_eq!(labels().await, ("yes".to_owned(), "dev".to_owned()));
    wanted.labels.clear();
    wanted.apply(&writer, "app").await.expect("applied");
    assert_eq!(labels().await, ("yes".to_owned(), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_role_replaces_the_binding() {
    let namespace = KubeNamespace::new().await;
    let writer = Writer::new(namespace.client.clone(), MANAGER);
    let bindings: Api<RoleBinding> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let mut uids = Vec::new();
    for cluster_role in ["view", "view", "edit"] {
        let account = NamespaceAccount {
            namespace: &namespace.name,
            cluster_role,
        };
        account.apply(&writer).await.expect("applied");
        let binding = bindings.get(ACCOUNT).await.expect("a binding");
        assert_eq!(binding.role_ref.name, cluster_role);
        uids.push(binding.metadata.uid);
    }
    assert!(uids[0] == uids[1] && uids[1] != uids[2], "{uids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_account_reaches_its_namespace_and_no_other() {
    let namespace = KubeNamespace::new().await;
    let client = namespace.client.clone();
    let account = NamespaceAccount {
        namespace: &namespace.name,
        cluster_role: "cluster-admin",
    };
    let writer = Writer::new(client.clone(), MANAGER);
    account.apply(&writer).await.expect("applied");
    let token = account
        .request_token(&client, Duration::from_secs(60))
        .await;
    let token = token.expect("a token");
    // The kubeconfig of the tests, with this token, is one of a target.
    let view = [
        "config",
        "view",
        "--raw",
        "--flatten",
        "--minify",
        "-o",
        "json",
    ];
    let admin = kubectl(&view, "").await;
    let mut target: serde_json::Value = serde_json::from_str(&admin).expect("JSON");
    target["users"][0]["user"] = serde_json::json!({ "token": token.expose() });
    let target = TargetKubeconfig::parse(&target.to_string()).expect("accepted");
    let target = target.config(Duration::from_secs(30)).await;
    let target = Client::try_from(target.expect("a configuration")).expect("a client");
    let own: Api<RoleBinding> = Api::namespaced(target.clone(), &namespace.name);
    assert!(own.get(ACCOUNT).await.is_ok());
    let other: Api<RoleBinding> = Api::namespaced(target, "kube-system");
    let refused = other.list(&Default::default()).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403),
        "{refused:?}"
    );
}
