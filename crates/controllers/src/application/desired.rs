//! The objects of an app: a Deployment, and if it has ports, a Service and two NetworkPolicies.

use ludgate_cluster::crd::application::APP_LABEL;
use serde_json::{Value, json};

use super::{
    app::STRATEGY_ANNOTATION,
    group_names,
    inputs::{INPUTS_ANNOTATION, RenderContext},
    pod, service_ports,
};
use crate::{
    network_policy::{ingress, peer, proxy_peers},
    pods::{too_long, too_long_list},
};

/// Label of an app's objects with its group.
pub const GROUP_LABEL: &str = "primehub.io/group";
/// Annotation of a pod for PrimeHub's usage report.
pub const USAGE_ANNOTATION: &str = "primehub.io/usage";

/// The objects of an app.
pub struct DesiredObjects {
    /// Who may send requests to its pods. Without a Service there are none, and its pods accept all
    /// requests.
    pub policies: Vec<Value>,
    /// The Service, if the app has ports.
    pub service: Option<Value>,
    /// Its pods.
    pub deployment: Value,
}

impl DesiredObjects {
    /// Whether a Service or a policy of this name is wanted.
    pub fn has(&self, kind: &str, name: &str) -> bool {
        let is_it = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.policies.iter().chain(&self.service).any(is_it)
    }
}

/// The objects of an app that runs.
///
/// # Errors
/// The reason for which the app cannot run, for its status.
pub fn objects(context: RenderContext<'_>) -> Result<DesiredObjects, String> {
    let spec = &context.app.spec;
    for (name, part) in [
        ("podTemplate.spec", &spec.pod_template.spec),
        ("svcTemplate.spec", &spec.svc_template.spec),
    ] {
        if let Some(path) = too_long_list(part) {
            return Err(too_long(&format!("{name}{path}")));
        }
    }
    let pod = pod::spec(context)?;
    // Of the template: the volume of the group is the platform's own.
    let template = &context.app.spec.pod_template.spec;
    let violations = context.settings.pods.violations(template);
    if !violations.is_empty() {
        return Err(format!(
            "podTemplate: not allowed: {}",
            violations.join(", ")
        ));
    }
    let deployment = deployment(context, pod)?;
    let ports = service_ports::with_defaults(&context.app.spec.svc_template.spec)?;
    let has_ports = !ports.is_empty();
    let policies = has_ports.then(|| network_policies(context, &ports));
    Ok(DesiredObjects {
        policies: policies.into_iter().flatten().collect(),
        service: has_ports.then(|| service(context, ports)),
        deployment,
    })
}

fn labels(context: RenderContext<'_>) -> Value {
    json!({
        "app": "primehub-app",
        APP_LABEL: context.app.child_name(),
        GROUP_LABEL: group_names::label(&context.app.spec.group_name),
    })
}

/// The selector of a Deployment cannot be changed, and existing ones have only this label.
fn selector(context: RenderContext<'_>) -> Value {
    json!({ APP_LABEL: context.app.child_name() })
}

fn metadata(context: RenderContext<'_>, name: String) -> Value {
    json!({ "name": name, "namespace": context.app.namespace, "labels": labels(context) })
}

fn deployment(context: RenderContext<'_>, pod: Value) -> Result<Value, String> {
    let spec = &context.app.spec;
    let usage = json!({
        "component": "app",
        "component_name": context.app.name,
        "group": spec.group_name,
        "instance_type": spec.instance_type,
    });
    let mut metadata = metadata(context, context.app.child_name());
    metadata["annotations"] = json!({ INPUTS_ANNOTATION: context.inputs.to_annotation() });
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": selector(context) },
            "strategy": strategy(context)?,
            "template": {
                "metadata": { "labels": labels(context), "annotations": { USAGE_ANNOTATION: usage.to_string() } },
                "spec": pod,
            },
        },
    }))
}

/// Two pods must not write to one volume, unless the app says that they can.
fn strategy(context: RenderContext<'_>) -> Result<Value, String> {
    let recreate = || json!({ "type": "Recreate", "rollingUpdate": null });
    let rolling = || json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    match context.app.strategy.as_deref() {
        Some("Recreate") => Ok(recreate()),
        Some("RollingUpdate") => Ok(rolling()),
        None if context.inputs.volume.is_some() => Ok(recreate()),
        None => Ok(rolling()),
        Some(_) => Err(format!("{STRATEGY_ANNOTATION}: Recreate or RollingUpdate")),
    }
}

fn service(context: RenderContext<'_>, mut ports: Vec<Value>) -> Value {
    // Of the node, where two apps cannot have the same one.
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(context, context.app.child_name()),
        "spec": { "type": "ClusterIP", "selector": selector(context), "ports": ports },
    })
}

/// One policy lets the group's pods in, the other one the proxies that check the access rule.
fn network_policies(context: RenderContext<'_>, ports: &[Value]) -> [Value; 2] {
    let ports: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "protocol": port["protocol"], "port": port["targetPort"] }))
        .collect();
    let group = json!({ GROUP_LABEL: group_names::label(&context.app.spec.group_name) });
    let group = vec![peer(&group)];
    let settings = context.settings;
    let proxies = proxy_peers(&settings.proxies, &settings.proxy_namespaces);
    [("group", group), ("proxy", proxies)].map(|(suffix, from)| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(context, format!("{}-{suffix}", context.app.child_name())),
            "spec": {
                "podSelector": { "matchLabels": selector(context) },
                "policyTypes": ["Ingress"],
                "ingress": ingress(&from, &ports),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::application::{
        app::Application,
        inputs::PinnedInputs,
        instance_type::InstanceType,
        samples::{self, settings},
        settings::{ApplicationSettings, Group},
    };

    fn app(more: Value) -> Application {
        let container = json!({
            "name": "app", "image": "mlflow:1",
            "env": [{ "name": "STORE", "value": "$(PRIMEHUB_APP_ROOT)/db" }],
            "ports": [{ "containerPort": 5000 }, { "containerPort": 5000, "protocol": "TCP" }],
            "resources": { "limits": { "cpu": "64" } },
            "lifecycle": { "preStop": { "exec": { "command": ["true"] } } },
        });
        let mut spec = json!({
            "groupName": "My_Group",
            "podTemplate": { "spec": { "containers": [container, { "name": "second" }], "hostname": "kept" } },
            "svcTemplate": { "spec": { "type": "NodePort", "ports": [{ "port": 80, "targetPort": "http", "nodePort": 30000 }, { "port": 5000 }] } },
        });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        samples::app(spec)
    }

    fn rendered(
        app: &Application,
        volume: Option<&str>,
        settings: &ApplicationSettings,
    ) -> Result<DesiredObjects, String> {
        let size = json!({ "limits": { "cpu": 1, "memory": "2G" } });
        let size = InstanceType::from_spec("cpu-1", &size).expect("valid");
        let group = Group {
            volume: volume.map(str::to_owned),
            ..Group::default()
        };
        let inputs = PinnedInputs::resolve(app, &group, &size, settings);
        let context = RenderContext {
            app,
            inputs: &inputs,
            settings,
        };
        objects(context)
    }

    fn made(
        app: &Application,
        volume: Option<&str>,
        settings: &ApplicationSettings,
    ) -> DesiredObjects {
        rendered(app, volume, settings).expect("made")
    }

    #[test]
    fn policies_come_first_and_let_in_the_group_and_the_proxies() {
        let objects = made(&app(json!({})), None, &settings());
        for (kind, name, wanted) in [
            ("NetworkPolicy", "app-lab-group", true),
            ("NetworkPolicy", "app-lab-proxy", true),
            ("Service", "app-lab", true),
            ("Service", "app-other", false),
        ] {
            assert_eq!(objects.has(kind, name), wanted, "{kind} {name}");
        }
        let ports =
            json!([{ "protocol": "TCP", "port": "http" }, { "protocol": "TCP", "port": 5000 }]);
        for (policy, peer) in [
            (
                &objects.policies[0],
                json!({ GROUP_LABEL: "escaped--4dy-5f-47roup" }),
            ),
            (
                &objects.policies[1],
                json!({ "app.kubernetes.io/name": "ludgate" }),
            ),
        ] {
            let from = json!([{ "podSelector": { "matchLabels": peer } }]);
            assert_eq!(
                policy["spec"]["ingress"],
                json!([{ "from": from, "ports": ports }])
            );
        }
        let nobody = ApplicationSettings {
            proxies: Vec::new(),
            ..settings()
        };
        let objects = made(&app(json!({})), None, &nobody);
        assert_eq!(
            objects.policies[1]["spec"]["ingress"],
            json!([]),
            "an empty list lets everybody in"
        );
        let service = objects.service.expect("a Service");
        assert_eq!(service["spec"]["type"], "ClusterIP");
        assert_eq!(service["spec"]["ports"][0].get("nodePort"), None);
    }

    #[test]
    fn proxies_of_other_namespaces_are_let_in_by_both_labels() {
        let namespace = [("kubernetes.io/metadata.name".to_owned(), "edge".to_owned())];
        let settings = ApplicationSettings {
            proxy_namespaces: vec![BTreeMap::from(namespace)],
            ..settings()
        };
        let objects = made(&app(json!({})), None, &settings);
        let pods = json!({ "matchLabels": { "app.kubernetes.io/name": "ludgate" } });
        let namespaces = json!({ "matchLabels": { "kubernetes.io/metadata.name": "edge" } });
        assert_eq!(
            objects.policies[1]["spec"]["ingress"][0]["from"],
            json!([
                { "podSelector": pods },
                { "podSelector": pods, "namespaceSelector": namespaces },
            ])
        );
        let group = &objects.policies[0]["spec"]["ingress"][0]["from"];
        assert_eq!(group.as_array().map(Vec::len), Some(1), "{group}");
    }

    #[test]
    fn the_pod_is_the_template_with_what_the_platform_adds() {
        let objects = made(&app(json!({})), None, &settings());
        let pod = &objects.deployment["spec"]["template"]["spec"];
        assert_eq!(pod["hostname"], "kept");
        assert_eq!(pod["containers"].as_array().map(Vec::len), Some(1));
        let container = &pod["containers"][0];
        let env: Vec<_> = container["env"]
            .as_array()
            .expect("a list")
            .iter()
            .collect();
        assert_eq!(env.len(), 6);
        assert_eq!(
            env[1],
            &json!({ "name": "PRIMEHUB_APP_ROOT", "value": "/phapplications/lab" })
        );
        assert_eq!(
            container["resources"],
            json!({ "limits": { "cpu": "1", "memory": "2Gi" } })
        );
        assert_eq!(
            container["ports"],
            json!([{ "containerPort": 5000, "protocol": "TCP" }])
        );
        assert!(
            container["lifecycle"]["preStop"].is_object(),
            "the template's own stays"
        );
        let volume = json!([{ "name": "primehub-app-root", "emptyDir": { "sizeLimit": "5Gi" } }]);
        assert_eq!(pod["volumes"], volume);
        assert_eq!(pod.get("initContainers"), None);
        assert_eq!(
            objects.deployment["spec"]["strategy"]["type"],
            "RollingUpdate"
        );
        assert_eq!(
            objects.deployment["spec"]["selector"]["matchLabels"],
            json!({ APP_LABEL: "app-lab" })
        );
    }

    #[test]
    fn data_of_a_group_with_a_volume_is_in_a_folder_of_it() {
        let objects = made(&app(json!({})), Some("project-my-group"), &settings());
        let pod = &objects.deployment["spec"]["template"]["spec"];
        let mount = json!({ "name": "project-my-group", "mountPath": "/project/my-group" });
        assert_eq!(pod["containers"][0]["volumeMounts"], json!([mount]));
        let root = "/project/my-group/phapplications/lab";
        assert_eq!(
            pod["initContainers"][0]["args"],
            json!(["prepare-folder", root])
        );
        assert_eq!(objects.deployment["spec"]["strategy"]["type"], "Recreate");
        let own_root = made(
            &app(json!({ "appRoot": "/data" })),
            Some("project-my-group"),
            &settings(),
        );
        let container = &own_root.deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][1]["value"], "/data");
        let own = json!({ "name": "project-my-group", "mountPath": "/data", "subPath": "phapplications/lab" });
        assert_eq!(container["volumeMounts"][1], own);
    }

    #[test]
    fn the_annotation_chooses_how_pods_are_replaced() {
        let recreate = json!({ "type": "Recreate", "rollingUpdate": null });
        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
        for (annotation, volume, wanted) in [
            (None, None, &rolling),
            (None, Some("project"), &recreate),
            (Some("Recreate"), None, &recreate),
            (Some("Recreate"), Some("project"), &recreate),
            (Some("RollingUpdate"), None, &rolling),
            (Some("RollingUpdate"), Some("project"), &rolling),
        ] {
            let mut app = app(json!({}));
            app.strategy = annotation.map(str::to_owned);
            let objects = made(&app, volume, &settings());
            let strategy = &objects.deployment["spec"]["strategy"];
            assert_eq!(strategy, wanted, "{annotation:?} {volume:?}");
        }
        for other in ["recreate", ""] {
            let mut app = app(json!({}));
            app.strategy = Some(other.to_owned());
            let refused = rendered(&app, None, &settings()).err();
            let wanted = "phapplication.primehub.io/strategy: Recreate or RollingUpdate";
            assert_eq!(refused.as_deref(), Some(wanted), "{other:?}");
        }
    }

    #[test]
    fn the_same_app_has_the_same_objects() {
        let (first, second) = (app(json!({})), app(json!({})));
        let settings = settings();
        let (one, other) = (
            made(&first, None, &settings),
            made(&second, None, &settings),
        );
        assert_eq!(one.policies, other.policies);
        assert_eq!(one.service, other.service);
        assert_eq!(one.deployment, other.deployment);
    }
}
