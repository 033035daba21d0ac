//! An app whose objects are as PrimeHub's controller writes them, by updates.

use kube::Resource;
use serde_json::{Value, json};

use crate::support::{
    controller::{pod, serving},
    kube_namespace::{KubeNamespace, phapplications},
};

/// The variables that every container of an app gets, in PrimeHub's order.
fn presets(name: &str) -> Vec<Value> {
    let variables = [
        ("PRIMEHUB_APP_ID", name.to_owned()),
        ("PRIMEHUB_APP_ROOT", format!("/phapplications/{name}")),
        ("PRIMEHUB_APP_BASE_URL", format!("/apps/{name}")),
        ("PRIMEHUB_URL", "https://hub.example.com".to_owned()),
        ("PRIMEHUB_GROUP", "phusers".to_owned()),
    ];
    let variables = variables.into_iter();
    variables
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

/// The spec of an app with these variables, which serves its environment.
pub fn app_spec(variables: &Value) -> Value {
    let mut container = serving("env");
    container["env"] = variables.clone();
    pod(json!([container]))
}

/// An app of PrimeHub.
pub struct PrimeHubApp<'n> {
    pub namespace: &'n KubeNamespace,
    pub name: &'static str,
}

impl PrimeHubApp<'_> {
    /// Makes an app with these variables, and its objects with those that are in force. Waits until
    /// its pod is ready.
    pub async fn start(&self, variables: &Value, in_force: &Value) {
        let namespace = self.namespace;
        namespace
            .app(self.name, "public", app_spec(variables))
            .await;
        let kind = phapplications();
        let app = namespace.api(&kind).get(self.name).await.expect("an app");
        let owner = app.controller_owner_ref(&kind).expect("an owner");
        let mut items = vec![self.service(), self.deployment(in_force)];
        items.extend(self.policies());
        for item in &mut items {
            item["metadata"]["ownerReferences"] = json!([owner]);
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let create = ["create", "--field-manager=manager", "-f", "-"];
        namespace.kubectl(&create, &list.to_string()).await;
        let deployment = format!("deployment/{}", self.child());
        let wait = ["rollout", "status", "--timeout=120s", &deployment];
        namespace.kubectl(&wait, "").await;
    }

    fn child(&self) -> String {
        format!("app-{}", self.name)
    }

    fn metadata(&self, name: String) -> Value {
        json!({ "name": name, "labels": self.labels() })
    }

    fn labels(&self) -> Value {
        json!({
            "app": "primehub-app",
            "primehub.io/phapplication": self.child(),
            "primehub.io/group": "escaped-phusers",
        })
    }

    fn selector(&self) -> Value {
        json!({ "primehub.io/phapplication": self.child() })
    }

    fn service(&self) -> Value {
        let port = json!({ "name": "http", "port": 5000, "protocol": "TCP", "targetPort": 5000 });
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(self.child()),
            "spec": { "type": "ClusterIP", "selector": self.selector(), "ports": [port] },
        })
    }

    /// One lets in the group, the other one PrimeHub's own pods.
    fn policies(&self) -> [Value; 2] {
        let peer = |label: &str, value: &str| json!({ "podSelector": { "matchLabels": { label: value } } });
        let group = vec![peer("primehub.io/group", "escaped-phusers")];
        let proxies = ["primehub-console", "primehub-graphql"];
        let proxies = proxies.map(|name| peer("app.kubernetes.io/name", name));
        [("group", group), ("proxy", proxies.to_vec())].map(|(suffix, from)| {
            let ports = json!([{ "protocol": "TCP", "port": 5000 }]);
            json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": self.metadata(format!("{}-{suffix}", self.child())),
                "spec": {
                    "podSelector": { "matchLabels": self.selector() },
                    "policyTypes": ["Ingress"],
                    "ingress": [{ "from": from, "ports": ports }],
                },
            })
        })
    }

    fn deployment(&self, variables: &Value) -> Value {
        let usage = format!(
            r#"{{"component":"app","component_name":"{}","group":"phusers","instance_type":"cpu-1"}}"#,
            self.name
        );
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(self.child()),
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": self.selector() },
                "template": {
                    "metadata": {
                        "labels": self.labels(),
                        "annotations": { "primehub.io/usage": usage },
                    },
                    "spec": self.pod(variables),
                },
            },
        })
    }

    fn pod(&self, variables: &Value) -> Value {
        let mut env = presets(self.name);
        env.extend(variables.as_array().cloned().unwrap_or_default());
        let mounts = json!([
            { "name": "primehub-app-root", "mountPath": format!("/phapplications/{}", self.name) },
            { "name": "datasets", "mountPath": "/datasets" },
        ]);
        let resources = json!({ "limits": { "cpu": "100m", "memory": "32Mi" } });
        let links = "test -d $PRIMEHUB_APP_ROOT/datasets || ln -sf /datasets $PRIMEHUB_APP_ROOT";
        let mut container = serving("env");
        container["env"] = env.into();
        container["imagePullPolicy"] = "IfNotPresent".into();
        container["lifecycle"] =
            json!({ "postStart": { "exec": { "command": ["sh", "-c", links] } } });
        container["resources"] = resources.clone();
        container["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
        container["volumeMounts"] = mounts.clone();
        let folder = "mkdir -p ${PRIMEHUB_APP_ROOT}; chmod 777 ${PRIMEHUB_APP_ROOT};";
        let init = json!({
            "name": format!("init-{}", self.name),
            "image": "localhost/busybox:1",
            "command": ["sh", "-c", folder],
            "env": presets(self.name),
            "resources": resources,
            "securityContext": { "runAsUser": 0, "runAsGroup": 0 },
            "volumeMounts": mounts,
        });
        json!({
            "affinity": {},
            "securityContext": {},
            "terminationGracePeriodSeconds": 1,
            "initContainers": [init],
            "containers": [container],
            "volumes": [
                { "name": "primehub-app-root", "emptyDir": { "sizeLimit": "5Gi" } },
                { "name": "datasets", "emptyDir": { "sizeLimit": "1M" } },
            ],
        })
    }
}
