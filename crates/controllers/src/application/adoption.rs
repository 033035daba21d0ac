//! Deployments that another controller made, such as PrimeHub's. While one has the pods that its
//! app asks for, they stay: when a platform changes its controller, no app restarts.
//!
//! What each controller adds in its own way is not compared: volumes, resources, the preset
//! variables.
//!
//! Invariant: pods with a right that the policy refuses are never kept, whatever the app's spec is
//! now: the other controller may not have had such a policy.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use ludgate_cluster::crd::application::APP_LABEL;
use serde_json::{Value, json};

use super::{
    app::Application,
    dataset_grant,
    desired::{GROUP_LABEL, USAGE_ANNOTATION},
    environment::PRESET_NAMES,
    group_names,
    inputs::{INPUTS_ANNOTATION, PinnedInputs},
    settings::ApplicationSettings,
};
use crate::children::{covers::covers, hash_of};

/// Whether a Deployment of another controller can be left as it is.
///
/// The other controller does not run any more. So a Deployment that had the pods of the app's spec
/// at first has them until the spec changes; the hash also shows changes that `is_current` does
/// not compare.
pub fn keeps_pods(app: &Application, live: &DynamicObject, settings: &ApplicationSettings) -> bool {
    let is_unchanged = match live.annotations().get(INPUTS_ANNOTATION) {
        None => true,
        Some(written) => PinnedInputs::from_annotation(written)
            .is_some_and(|inputs| inputs.adopted == Some(pod_hash(app))),
    };
    is_unchanged && is_current(app, live, settings)
}

/// A hash of the parts of an app's spec that its pods are made of. Other parts, such as its scope,
/// can change without a restart.
pub fn pod_hash(app: &Application) -> String {
    let spec = &app.spec;
    hash_of(&json!([
        spec.pod_template.spec,
        spec.app_root,
        spec.group_name,
        spec.instance_type,
    ]))
}

/// Whether the present spec of an app is in force in a Deployment.
fn is_current(app: &Application, live: &DynamicObject, settings: &ApplicationSettings) -> bool {
    let image_prefix = settings.image_prefix.as_deref();
    let spec = &live.data["spec"];
    let (metadata, pod) = (&spec["template"]["metadata"], &spec["template"]["spec"]);
    let found = &pod["containers"][0];
    let template = &app.spec.pod_template.spec;
    let wanted = &template["containers"][0];
    spec["replicas"] == 1
        && has_labels(app, &metadata["labels"])
        && has_usage(app, &metadata["annotations"][USAGE_ANNOTATION])
        && is_image(&found["image"], &wanted["image"], image_prefix)
        && is_same_list(&found["command"], &wanted["command"])
        && is_same_list(&found["args"], &wanted["args"])
        && has_variables(found, wanted, init_container(app, pod))
        && covers(found, &without(wanted, &CHANGED_IN_CONTAINERS))
        && covers(pod, &without(template, &CHANGED_IN_PODS))
        && is_permitted(app, pod, settings)
}

/// Fields of a container that are compared in another way, or that both controllers change.
const CHANGED_IN_CONTAINERS: [&str; 9] = [
    "image",
    "command",
    "args",
    "env",
    "volumeMounts",
    "resources",
    "lifecycle",
    "imagePullPolicy",
    "terminationMessagePolicy",
];
/// The same, of a pod.
const CHANGED_IN_PODS: [&str; 5] = [
    "containers",
    "initContainers",
    "volumes",
    "tolerations",
    "nodeSelector",
];

fn without(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    if let Value::Object(object) = &mut object {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
    object
}

/// Whether the policy permits all rights of the pods, apart from what PrimeHub's controller adds.
fn is_permitted(app: &Application, pod: &Value, settings: &ApplicationSettings) -> bool {
    let group = settings.groups.get(&app.spec.group_name);
    let own = group.map(|group| group.datasets.as_slice());
    let granted = dataset_grant::granted(own.unwrap_or_default(), &settings.datasets);
    let is_of_platform = |volume: &Value| {
        let name = volume["name"].as_str().unwrap_or_default();
        match name.strip_prefix("dataset-") {
            Some(dataset) => granted.contains_key(dataset),
            None => {
                volume["hostPath"].is_null() && (name.starts_with("project-") || name == "phfs")
            }
        }
    };
    // The instance type adds tolerations.
    let mut pod = without(pod, &["tolerations"]);
    if let Some(volumes) = pod["volumes"].as_array_mut() {
        volumes.retain(|volume| !is_of_platform(volume));
    }
    let containers = pod["containers"].as_array().map_or(0, Vec::len);
    containers == 1 && settings.pods.violations(&pod).is_empty()
}

/// Services, policies and quotas find pods by these.
fn has_labels(app: &Application, labels: &Value) -> bool {
    labels[APP_LABEL] == app.child_name()
        && labels[GROUP_LABEL] == group_names::label(&app.spec.group_name)
}

/// PrimeHub's controller writes the group and the instance type of the pods into this annotation.
fn has_usage(app: &Application, annotation: &Value) -> bool {
    let usage: Value = annotation
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    usage["group"] == app.spec.group_name && usage["instance_type"] == app.spec.instance_type
}

fn is_image(found: &Value, wanted: &Value, prefix: Option<&str>) -> bool {
    let (Some(found), Some(wanted)) = (found.as_str(), wanted.as_str()) else {
        return false;
    };
    found == wanted || prefix.and_then(|prefix| found.strip_prefix(prefix)) == Some(wanted)
}

/// The API stores no empty lists.
fn is_same_list(found: &Value, wanted: &Value) -> bool {
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    entries(found) == entries(wanted)
}

/// The container that PrimeHub's controller runs before the app.
fn init_container<'a>(app: &Application, pod: &'a Value) -> &'a Value {
    let name = format!("init-{}", app.name);
    let mut all = pod["initContainers"].as_array().into_iter().flatten();
    all.find(|container| container["name"] == name.as_str())
        .unwrap_or(&Value::Null)
}

/// Whether a container has the wanted variables. It may have others if the init container has them
/// too: PrimeHub's controller gives both the presets and the variables of datasets, and the app's
/// own only to the main container.
fn has_variables(found: &Value, wanted: &Value, init: &Value) -> bool {
    let (found, wanted, datasets) = (variables(found), variables(wanted), variables(init));
    let are_expected = found.iter().all(|(name, entry)| match wanted.get(name) {
        Some(wanted) => is_same_variable(entry, wanted),
        None => datasets.contains_key(name),
    });
    are_expected && wanted.keys().all(|name| found.contains_key(name))
}

/// The variables of a container by their names, without the presets. Of a repeated name the last
/// entry counts, as for Kubernetes.
fn variables(container: &Value) -> BTreeMap<&str, &Value> {
    let entries = container["env"].as_array().into_iter().flatten();
    let named = entries.filter_map(|entry| Some((entry["name"].as_str()?, entry)));
    named
        .filter(|(name, _)| !PRESET_NAMES.contains(name))
        .collect()
}

/// The API stores no empty value, and adds defaults to `valueFrom`.
fn is_same_variable(found: &Value, wanted: &Value) -> bool {
    let value = |entry: &Value| entry["value"].as_str().unwrap_or_default().to_owned();
    value(found) == value(wanted) && covers(&found["valueFrom"], &wanted["valueFrom"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{instance_type::InstanceType, samples};

    const PREFIX: &str = "registry.example.com/";

    /// An app with a variable of each kind.
    fn app(change: impl FnOnce(&mut Value)) -> Application {
        let field = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
        let mut container = json!({
            "name": "app", "image": "mlflow:1", "command": ["mlflow"], "args": ["server"],
            "env": [
                { "name": "STORE", "value": "template" },
                { "name": "STORE", "value": "$(PRIMEHUB_APP_ROOT)/db" },
                { "name": "EMPTY", "value": "" },
                { "name": "ADDRESS", "valueFrom": field },
                { "name": "PRIMEHUB_GROUP", "value": "ignored" },
            ],
            "ports": [{ "containerPort": 5000 }],
            "livenessProbe": { "tcpSocket": { "port": 5000 } },
        });
        change(&mut container);
        let pod = json!({ "hostname": "lab", "containers": [container] });
        samples::app(json!({ "podTemplate": { "spec": pod } }))
    }

    fn with_prefix(prefix: &str) -> ApplicationSettings {
        ApplicationSettings {
            image_prefix: Some(prefix.to_owned()),
            ..samples::settings()
        }
    }

    fn unchanged() -> Application {
        app(|_| {})
    }

    /// The spec of the Deployment that PrimeHub's controller makes of it, in a group with a dataset
    /// of variables.
    fn spec() -> Value {
        let presets = json!([
            { "name": "PRIMEHUB_APP_ID", "value": "lab" },
            { "name": "PRIMEHUB_APP_ROOT", "value": "/phapplications/lab" },
            { "name": "PRIMEHUB_APP_BASE_URL", "value": "/console/apps/lab" },
            { "name": "PRIMEHUB_URL", "value": "https://hub.example.com" },
            { "name": "PRIMEHUB_GROUP", "value": "phusers" },
        ]);
        let field = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } });
        let own = json!([
            { "name": "STORE", "value": "template" },
            { "name": "STORE", "value": "$(PRIMEHUB_APP_ROOT)/db" },
            { "name": "EMPTY" },
            { "name": "ADDRESS", "valueFrom": field },
            { "name": "PRIMEHUB_GROUP", "value": "ignored" },
        ]);
        let datasets = json!([{ "name": "IMAGES_URL", "value": "s3://images" }]);
        let lists = |lists: &[&Value]| -> Vec<Value> {
            let entries = lists.iter().filter_map(|list| list.as_array());
            entries.flatten().cloned().collect()
        };
        let limits = json!({ "limits": { "cpu": "1", "memory": "2Gi" } });
        json!({
            "replicas": 1,
            "selector": { "matchLabels": { APP_LABEL: "app-lab" } },
            "template": {
                "metadata": {
                    "labels": { "app": "primehub-app", APP_LABEL: "app-lab", GROUP_LABEL: "escaped-phusers" },
                    "annotations": { USAGE_ANNOTATION:
                        r#"{"component":"app","component_name":"lab","group":"phusers","instance_type":"cpu-1"}"# },
                },
                "spec": {
                    "initContainers": [{
                        "name": "init-lab", "image": "mlflow:1", "env": lists(&[&presets, &datasets]),
                    }],
                    "containers": [{
                        "name": "app", "image": "mlflow:1", "command": ["mlflow"], "args": ["server"],
                        "env": lists(&[&presets, &own, &datasets]),
                        "lifecycle": { "postStart": { "exec": { "command": ["sh", "-c", "ln -s /datasets ."] } } },
                        "ports": [{ "containerPort": 5000, "protocol": "TCP" }],
                        "livenessProbe": { "tcpSocket": { "port": 5000 }, "timeoutSeconds": 1 },
                        "resources": limits,
                    }],
                    "hostname": "lab",
                    "schedulerName": "default-scheduler",
                    "volumes": [{ "name": "datasets", "emptyDir": { "sizeLimit": "1M" } }],
                },
            },
        })
    }

    fn deployment(annotations: Value, spec: Value) -> DynamicObject {
        let object = json!({
            "metadata": { "name": "app-lab", "annotations": annotations },
            "spec": spec,
        });
        serde_json::from_value(object).expect("a Deployment")
    }

    #[test]
    fn a_deployment_of_the_present_spec_is_current() {
        let live = deployment(json!({}), spec());
        assert!(is_current(&unchanged(), &live, &samples::settings()));
        let prefixed = app(|it| it["image"] = format!("{PREFIX}mlflow:1").into());
        assert!(
            !is_current(&prefixed, &live, &samples::settings()),
            "another image"
        );
        let mut spec = spec();
        spec["template"]["spec"]["containers"][0]["image"] = format!("{PREFIX}mlflow:1").into();
        let live = deployment(json!({}), spec);
        assert!(is_current(&unchanged(), &live, &with_prefix(PREFIX)));
        assert!(is_current(&prefixed, &live, &with_prefix(PREFIX)));
        assert!(!is_current(&unchanged(), &live, &with_prefix("other/")));
    }

    #[test]
    fn each_change_of_an_app_is_seen() {
        type Edit = fn(&mut Value);
        let changes: [(&str, Edit); 11] = [
            ("image", |it| it["image"] = "mlflow:2".into()),
            ("no image", |it| it["image"] = Value::Null),
            ("command", |it| it["command"] = json!(["other"])),
            ("no command", |it| it["command"] = Value::Null),
            ("args", |it| it["args"] = json!(["server", "--debug"])),
            ("a new value", |it| it["env"][1]["value"] = "/data".into()),
            ("a value", |it| it["env"][2]["value"] = "full".into()),
            ("valueFrom", |it| {
                it["env"][3]["valueFrom"]["fieldRef"]["fieldPath"] = "status.hostIP".into();
            }),
            ("a value for valueFrom", |it| {
                it["env"][3] = json!({ "name": "ADDRESS", "value": "" });
            }),
            ("another variable", |it| {
                it["env"][2] = json!({ "name": "ANOTHER", "value": "" });
            }),
            ("one variable less", |it| {
                it["env"].as_array_mut().expect("a list").remove(2);
            }),
        ];
        let live = deployment(json!({}), spec());
        for (what, change) in changes {
            assert!(
                !is_current(&app(change), &live, &samples::settings()),
                "{what}"
            );
        }
        for field in ["group", "instance type"] {
            let mut changed = unchanged();
            match field {
                "group" => changed.spec.group_name = "others".into(),
                _ => changed.spec.instance_type = "cpu-2".into(),
            }
            assert!(
                !is_current(&changed, &live, &samples::settings()),
                "{field}"
            );
        }
    }

    #[test]
    fn each_change_of_a_deployment_is_seen() {
        for (path, value) in [
            ("/replicas", json!(0)),
            ("/replicas", json!(3)),
            ("/template/metadata/labels", json!({})),
            ("/template/metadata/annotations", json!({})),
            (
                "/template/metadata/labels/primehub.io~1group",
                json!("escaped-others"),
            ),
            (
                "/template/metadata/annotations/primehub.io~1usage",
                json!("none"),
            ),
            ("/template/spec/containers", json!([])),
            ("/template/spec/containers/0/image", json!("mlflow:2")),
            ("/template/spec/containers/0/env", json!([])),
            ("/template/spec/containers/0/livenessProbe", json!(null)),
            ("/template/spec/hostname", json!("other")),
            // The policy refuses these.
            ("/template/spec/hostNetwork", json!(true)),
            (
                "/template/spec/containers/0/securityContext",
                json!({ "privileged": true }),
            ),
            (
                "/template/spec/volumes/0",
                json!({ "name": "dataset-x", "hostPath": { "path": "/" } }),
            ),
            (
                "/template/spec/volumes/0",
                json!({ "name": "project-x", "hostPath": { "path": "/" } }),
            ),
            // The variable of a dataset could now be one that the app had.
            ("/template/spec/initContainers", json!([])),
        ] {
            let mut spec = spec();
            let (parent, field) = path.rsplit_once('/').expect("a path");
            let field = field.replace("~1", "/");
            let parent = spec.pointer_mut(parent).expect("a parent");
            match parent.is_array() {
                true => parent[0] = value,
                false => parent[&field] = value,
            }
            let live = deployment(json!({}), spec);
            assert!(
                !is_current(&unchanged(), &live, &samples::settings()),
                "{path}"
            );
        }
    }

    #[test]
    fn pods_are_kept_until_what_they_are_made_of_changes() {
        let pinned = |adopted: Option<String>| {
            let inputs = PinnedInputs {
                phfs: None,
                datasets: Vec::new(),
                generation: 1,
                instance_type: InstanceType::sample(),
                volume: None,
                folder_image: None,
                adopted,
            };
            json!({ INPUTS_ANNOTATION: inputs.to_annotation() })
        };
        let adopted = || pinned(Some(pod_hash(&unchanged())));
        let hook =
            app(|it| it["lifecycle"] = json!({ "preStop": { "exec": { "command": ["sync"] } } }));
        let mut scope = unchanged();
        scope.generation += 1;
        scope.spec.scope = "public".into();
        for (what, app, annotations, wanted) in [
            ("another controller's", unchanged(), json!({}), true),
            ("adopted", unchanged(), adopted(), true),
            ("another scope", scope, adopted(), true),
            // `is_current` alone does not see this change.
            ("a hook before", hook.clone(), json!({}), true),
            ("a hook since", hook, adopted(), false),
            (
                "an image since",
                app(|it| it["image"] = "mlflow:2".into()),
                adopted(),
                false,
            ),
            ("ours", unchanged(), pinned(None), false),
            (
                "unreadable",
                unchanged(),
                json!({ INPUTS_ANNOTATION: "?" }),
                false,
            ),
        ] {
            let live = deployment(annotations, spec());
            assert_eq!(
                keeps_pods(&app, &live, &samples::settings()),
                wanted,
                "{what}"
            );
        }
        let mut edited = spec();
        edited["template"]["spec"]["containers"][0]["image"] = "mlflow:2".into();
        let edited = deployment(adopted(), edited);
        assert!(
            !keeps_pods(&unchanged(), &edited, &samples::settings()),
            "edited by hand"
        );
    }
}
