//! One controller and two clusters: each app has its objects and its release in its own cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, api::ListParams};
use ludgate_installs::release::ReleaseStatus::{self, Deployed};
use serde_json::json;

use super::{edge::EdgeCluster, site::InstallSite};
use crate::support::{installs::installations, until::until_async};

impl InstallSite {
    /// Makes an installation on the target `edge`, or changes it.
    async fn install_on_edge(&self, name: &str, version: &str) {
        let spec = json!({
            "namespace": { "name": self.installs.own("target"), "create": true },
            "applicationRef": { "name": self.installs.own("example"), "version": version },
        });
        let labels = json!({ "ludgate.dev/target": "edge" });
        let object = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
        let namespace = self.installs.namespace();
        namespace.apply(&installations(), &object).await;
    }

    /// The revisions of an app in one of the clusters.
    async fn revisions_on(&self, client: &Client, app: &str) -> Vec<(i64, ReleaseStatus)> {
        let namespace = self.installs.own("target");
        self.revisions_in(client, &namespace, app).await
    }

    /// The keys of the chart's ConfigMap in one of the clusters; none without a ConfigMap.
    async fn keys_in(&self, client: &Client) -> BTreeSet<String> {
        let namespace = self.installs.own("target");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let found = api.get_opt("testcm").await.expect("an answer");
        let data = found.and_then(|found| found.data).unwrap_or_default();
        data.into_keys().collect()
    }

    /// The types of the Secrets beside the tokens of accounts.
    async fn secrets_in(&self, client: &Client) -> BTreeSet<String> {
        let namespace = self.installs.own("target");
        let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let listed = api.list(&ListParams::default()).await.expect("a list");
        let types = listed.items.into_iter().filter_map(|secret| secret.type_);
        let is_token = |kind: &String| kind == "kubernetes.io/service-account-token";
        types.filter(|kind| !is_token(kind)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_have_the_same_app_with_a_release_each() {
    let (site, edge) = tokio::join!(InstallSite::start(), EdgeCluster::start());
    let home = site.client();
    let key = |keys: &BTreeSet<String>| keys.first().cloned().unwrap_or_default();
    site.installs.definition(json!({})).await;
    let file = format!("--from-file=kubeconfig={}", edge.kubeconfig.display());
    let namespace = site.installs.namespace();
    let create = ["create", "secret", "generic", "edge", &file];
    namespace.kubectl(&create, "").await;
    let label = ["label", "secret", "edge", "ludgate.dev/target=edge"];
    namespace.kubectl(&label, "").await;

    // Without the list no namespace may use the target.
    site.install_on_edge("there", "1.0.0").await;
    let refused = ("False", "NotPermitted");
    site.installs
        .until_condition("there", "Ready", refused)
        .await;
    assert!(site.secrets_in(&edge.client).await.is_empty());
    let list = format!("ludgate.dev/installs-from={}", namespace.name);
    let annotate = ["annotate", "secret", "edge", &list];
    namespace.kubectl(&annotate, "").await;

    site.installs.installation("here", json!({})).await;
    site.install_on_edge("there", "1.0.0").await;
    site.installs.until_ready("here").await;
    site.installs.until_ready("there").await;
    for (client, own, other) in [(&home, "here", "there"), (&edge.client, "there", "here")] {
        assert_eq!(site.revisions_on(client, own).await, [(1, Deployed)]);
        assert!(site.revisions_on(client, other).await.is_empty(), "{own}");
        assert_eq!(key(&site.keys_in(client).await), "foo", "{own}");
        let secrets = site.secrets_in(client).await;
        assert_eq!(secrets, BTreeSet::from(["helm.sh/release.v1".to_owned()]));
    }

    site.install_on_edge("there", "2.0.0").await;
    site.installs.until_ready("there").await;
    let keys = site.keys_in(&edge.client).await;
    assert_eq!(key(&keys), "foo-version-2");
    assert_eq!(key(&site.keys_in(&home).await), "foo");

    site.installs.delete("there").await;
    site.installs.until_gone("there").await;
    let is_gone = async || site.keys_in(&edge.client).await.is_empty();
    until_async("the app of the other cluster is gone", is_gone).await;
    assert!(site.revisions_on(&edge.client, "there").await.is_empty());
    assert_eq!(site.revisions_on(&home, "here").await, [(1, Deployed)]);
    assert_eq!(key(&site.keys_in(&home).await), "foo");
}
