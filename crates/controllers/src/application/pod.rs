//! The pod of an app: its template, with the variables, volumes and resources that the platform
//! adds. Fields that are not named here stay as the template has them.

use serde_json::{Map, Value, json};

use super::{
    environment::Presets, group_names, inputs::RenderContext, instance_type::InstanceType,
    settings::ApplicationSettings,
};
use crate::pods::{append, unify_ports};

/// The end of the log becomes the message of a container that fails.
const LOG_ON_ERROR: &str = "FallbackToLogsOnError";
/// The volume of an app whose group has none.
const EPHEMERAL: &str = "primehub-app-root";

/// The spec of the pod.
///
/// # Errors
/// The reason why the template is no pod, for the app's status.
pub fn spec(context: RenderContext<'_>) -> Result<Value, String> {
    let template = &context.app.spec.pod_template.spec;
    let Value::Object(mut spec) = template.clone() else {
        return Err("podTemplate.spec is no object".into());
    };
    let data = DataVolume::new(context);
    let container = spec.get("containers").and_then(|all| all.get(0)).cloned();
    let Some(Value::Object(container)) = container else {
        return Err("podTemplate.spec.containers has no container".into());
    };
    let container = main_container(container, context, &data);
    let mut first = folder_container(context, &data);
    first.extend(own_init_container(&spec, &container).map(Value::Object));
    spec.insert("containers".into(), json!([container]));
    // Resources of the whole pod, which newer clusters know, would not be counted.
    for field in ["initContainers", "resources"] {
        spec.remove(field);
    }
    if !first.is_empty() {
        spec.insert("initContainers".into(), first.into());
    }
    let names = spec
        .get("volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    if names
        .into_iter()
        .any(|volume| volume["name"] == data.volume["name"])
    {
        let name = &data.volume["name"];
        return Err(format!(
            "podTemplate.spec.volumes: {name} is the name of the app's own volume"
        ));
    }
    append(&mut spec, "volumes", vec![data.volume.clone()]);
    let tolerations = context.inputs.instance_type.tolerations.clone();
    append(&mut spec, "tolerations", tolerations);
    select_nodes(&mut spec, &context.inputs.instance_type);
    Ok(prefix_images(spec.into(), context.settings))
}

/// The containers of a template that [`spec`] drops: all but the first of each list, such as
/// `containers[second]`.
pub fn dropped_containers(template: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = template[list].as_array().into_iter().flatten();
        for container in containers.skip(1) {
            let name = container["name"].as_str().unwrap_or("?");
            dropped.push(format!("{list}[{name}]"));
        }
    }
    dropped
}

/// Where an app keeps its data.
struct DataVolume {
    volume: Value,
    mounts: Vec<Value>,
    /// The folder, as the app sees it.
    root: String,
    /// The folder is on the group's volume, and may not exist yet.
    is_shared: bool,
}

impl DataVolume {
    fn new(context: RenderContext<'_>) -> DataVolume {
        let name = &context.app.name;
        let folder = format!("phapplications/{name}");
        let own_root = context
            .app
            .spec
            .app_root
            .as_deref()
            .filter(|root| !root.is_empty());
        let Some(claim) = &context.inputs.volume else {
            let size = context.settings.ephemeral_size.to_string();
            let at = format!("/{folder}");
            let mut mounts = vec![json!({ "name": EPHEMERAL, "mountPath": at })];
            if let Some(root) = own_root {
                mounts.push(json!({ "name": EPHEMERAL, "mountPath": root }));
            }
            return DataVolume {
                volume: json!({ "name": EPHEMERAL, "emptyDir": { "sizeLimit": size } }),
                mounts,
                root: own_root.map_or(at, str::to_owned),
                is_shared: false,
            };
        };
        let group = &context.app.spec.group_name;
        let volume = group_names::volume(group);
        let at = format!("/project/{}", group_names::directory(group));
        let mut mounts = vec![json!({ "name": volume, "mountPath": at })];
        let default_root = format!("{at}/{folder}");
        let root = match own_root {
            Some(root) => Some(root),
            // Mounted by itself, kubelet makes the folder.
            None if context.inputs.folder_image.is_none() => Some(default_root.as_str()),
            None => None,
        };
        if let Some(root) = root {
            mounts.push(json!({ "name": volume, "mountPath": root, "subPath": folder }));
        }
        DataVolume {
            volume: json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim } }),
            mounts,
            root: own_root.map_or(default_root, str::to_owned),
            is_shared: true,
        }
    }
}

fn main_container(
    mut container: Map<String, Value>,
    context: RenderContext<'_>,
    data: &DataVolume,
) -> Map<String, Value> {
    let settings = context.settings;
    let presets = Presets {
        id: &context.app.name,
        root: &data.root,
        base_url: &format!("{}/{}", settings.apps_prefix, context.app.name),
        site_url: &settings.site_url,
        group: &context.app.spec.group_name,
    };
    let own = container.get("env").and_then(Value::as_array);
    let merged = presets.merge(own.map(Vec::as_slice).unwrap_or_default());
    container.insert("env".into(), merged.into());
    let mounts = new_mounts(&container, data);
    append(&mut container, "volumeMounts", mounts);
    container.insert("resources".into(), context.inputs.instance_type.resources());
    container.insert("imagePullPolicy".into(), "IfNotPresent".into());
    report_log(&mut container);
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        unify_ports(ports);
    }
    container
}

/// The mounts of the app's data, except where the template mounts something itself.
fn new_mounts(container: &Map<String, Value>, data: &DataVolume) -> Vec<Value> {
    let own = container.get("volumeMounts").and_then(Value::as_array);
    let mut paths: Vec<&Value> = own
        .into_iter()
        .flatten()
        .map(|it| &it["mountPath"])
        .collect();
    let mut mounts = Vec::new();
    for mount in &data.mounts {
        if !paths.contains(&&mount["mountPath"]) {
            paths.push(&mount["mountPath"]);
            mounts.push(mount.clone());
        }
    }
    mounts
}

/// Makes the app's folder on the group's volume, for every user: an app may run as any.
fn folder_container(context: RenderContext<'_>, data: &DataVolume) -> Vec<Value> {
    let Some(image) = context
        .inputs
        .folder_image
        .as_ref()
        .filter(|_| data.is_shared)
    else {
        return Vec::new();
    };
    vec![json!({
        "name": "prepare-folder",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["prepare-folder", data.root],
        "securityContext": { "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": false },
        "volumeMounts": data.mounts,
        "resources": context.inputs.instance_type.resources(),
        "terminationMessagePolicy": LOG_ON_ERROR,
    })]
}

/// The template's first init container, with the variables, mounts and resources of the app. A
/// second one, or one that never ends, would be resources that the quota does not count.
fn own_init_container(
    spec: &Map<String, Value>,
    main: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let own = spec.get("initContainers").and_then(|all| all.get(0));
    let mut container = own?.as_object()?.clone();
    let mut env = main["env"].as_array().cloned().unwrap_or_default();
    let own = container.get("env").and_then(Value::as_array);
    for entry in own.into_iter().flatten() {
        if !env.iter().any(|other| other["name"] == entry["name"]) {
            env.push(entry.clone());
        }
    }
    container.insert("env".into(), env.into());
    container.remove("restartPolicy");
    report_log(&mut container);
    for field in ["volumeMounts", "resources"] {
        container.insert(field.into(), main[field].clone());
    }
    Some(container)
}

fn report_log(container: &mut Map<String, Value>) {
    container.insert("terminationMessagePolicy".into(), LOG_ON_ERROR.into());
}

fn select_nodes(spec: &mut Map<String, Value>, instance_type: &InstanceType) {
    if instance_type.node_selector.is_empty() {
        return;
    }
    let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
    if let Value::Object(selector) = selector {
        for (label, value) in &instance_type.node_selector {
            selector.insert(label.clone(), value.clone().into());
        }
    } else {
        *selector = json!(instance_type.node_selector);
    }
}

fn prefix_images(mut spec: Value, settings: &ApplicationSettings) -> Value {
    let Some(prefix) = &settings.image_prefix else {
        return spec;
    };
    for kind in ["initContainers", "containers"] {
        let containers = spec[kind].as_array_mut().map(Vec::as_mut_slice);
        for container in containers.unwrap_or_default() {
            if let Some(image) = container["image"].as_str()
                && !image.contains(prefix.as_str())
            {
                container["image"] = format!("{prefix}{image}").into();
            }
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_containers_but_the_first_of_each_list_are_dropped() {
        for (template, wanted) in [
            (json!({ "containers": [{ "name": "app" }] }), vec![]),
            (json!({ "containers": "none" }), vec![]),
            (json!({}), vec![]),
            (
                json!({
                    "containers": [{ "name": "app" }, { "name": "second" }, {}],
                    "initContainers": [{ "name": "first" }, { "name": "next" }],
                }),
                vec![
                    "initContainers[next]",
                    "containers[second]",
                    "containers[?]",
                ],
            ),
        ] {
            assert_eq!(dropped_containers(&template), wanted, "{template}");
        }
    }
}
