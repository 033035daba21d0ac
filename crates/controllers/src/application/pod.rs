//! The pod of an app: its template, with the variables, volumes and resources that the platform
//! adds. Fields that are not named here stay as the template has them.

use serde_json::{Map, Value, json};

use super::{
    app::Application, environment::Presets, group_names, inputs::Inputs,
    instance_type::InstanceType, settings::ApplicationSettings,
};

/// The volume of an app whose group has none.
const EPHEMERAL: &str = "primehub-app-root";

/// What an app's pod is made of.
#[derive(Clone, Copy)]
pub struct PodParts<'a> {
    /// The app.
    pub app: &'a Application,
    /// What it is made of besides its own spec.
    pub inputs: &'a Inputs,
    /// What holds for all apps.
    pub settings: &'a ApplicationSettings,
}

/// The spec of the pod.
///
/// # Errors
/// The reason why the template is no pod, for the app's status.
pub fn spec(parts: PodParts<'_>) -> Result<Value, String> {
    let template = &parts.app.spec.pod_template.spec;
    let Value::Object(mut spec) = template.clone() else {
        return Err("podTemplate.spec is no object".into());
    };
    let data = DataVolume::new(parts);
    let container = spec.get("containers").and_then(|all| all.get(0)).cloned();
    let Some(Value::Object(container)) = container else {
        return Err("podTemplate.spec.containers has no container".into());
    };
    let container = main_container(container, parts, &data);
    let mut first = folder_container(parts, &data);
    first.extend(own_init_containers(&spec, &container));
    spec.insert("containers".into(), json!([container]));
    if !first.is_empty() {
        spec.insert("initContainers".into(), first.into());
    }
    append(&mut spec, "volumes", vec![data.volume.clone()]);
    let tolerations = parts.inputs.instance_type.tolerations.clone();
    append(&mut spec, "tolerations", tolerations);
    select_nodes(&mut spec, &parts.inputs.instance_type);
    Ok(prefix_images(spec.into(), parts.settings))
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
    fn new(parts: PodParts<'_>) -> DataVolume {
        let id = &parts.app.id;
        let folder = format!("phapplications/{id}");
        let own_root = parts
            .app
            .spec
            .app_root
            .as_deref()
            .filter(|root| !root.is_empty());
        let Some(claim) = &parts.inputs.volume else {
            let size = parts.settings.ephemeral_size.to_string();
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
        let group = &parts.app.spec.group_name;
        let name = group_names::volume(group);
        let at = format!("/project/{}", group_names::directory(group));
        let mut mounts = vec![json!({ "name": name, "mountPath": at })];
        let default_root = format!("{at}/{folder}");
        let root = match own_root {
            Some(root) => Some(root),
            // Mounted by itself, kubelet makes the folder.
            None if parts.settings.folder_image.is_none() => Some(default_root.as_str()),
            None => None,
        };
        if let Some(root) = root {
            mounts.push(json!({ "name": name, "mountPath": root, "subPath": folder }));
        }
        DataVolume {
            volume: json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } }),
            mounts,
            root: own_root.map_or(default_root, str::to_owned),
            is_shared: true,
        }
    }
}

fn main_container(
    mut container: Map<String, Value>,
    parts: PodParts<'_>,
    data: &DataVolume,
) -> Map<String, Value> {
    let settings = parts.settings;
    let presets = Presets {
        id: &parts.app.id,
        root: &data.root,
        base_url: &format!("{}/{}", settings.apps_prefix, parts.app.id),
        site_url: &settings.site_url,
        group: &parts.app.spec.group_name,
    };
    let own = container.get("env").and_then(Value::as_array);
    let merged = presets.merge(own.map(Vec::as_slice).unwrap_or_default());
    container.insert("env".into(), merged.into());
    append(&mut container, "volumeMounts", data.mounts.clone());
    container.insert("resources".into(), parts.inputs.instance_type.resources());
    container.insert("imagePullPolicy".into(), "IfNotPresent".into());
    // The end of the log becomes the message of a container that fails.
    let policy = "FallbackToLogsOnError";
    container.insert("terminationMessagePolicy".into(), policy.into());
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        unify_ports(ports);
    }
    container
}

/// Makes the app's folder on the group's volume, for every user: an app may run as any.
fn folder_container(parts: PodParts<'_>, data: &DataVolume) -> Vec<Value> {
    let Some(image) = parts
        .settings
        .folder_image
        .as_ref()
        .filter(|_| data.is_shared)
    else {
        return Vec::new();
    };
    vec![json!({
        "name": format!("init-{}", parts.app.id),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["prepare-folder", data.root],
        "securityContext": { "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": false },
        "volumeMounts": data.mounts,
        "resources": parts.inputs.instance_type.resources(),
    })]
}

/// The template's init containers, with the variables, mounts and resources of the app.
fn own_init_containers(spec: &Map<String, Value>, main: &Map<String, Value>) -> Vec<Value> {
    let own = spec.get("initContainers").and_then(Value::as_array);
    let mut containers = own.cloned().unwrap_or_default();
    for container in &mut containers {
        let Value::Object(container) = container else {
            continue;
        };
        let mut env = main["env"].as_array().cloned().unwrap_or_default();
        if let Some(Value::Array(own)) = container.get("env") {
            let is_new = |entry: &&Value| !env.iter().any(|other| other["name"] == entry["name"]);
            let new: Vec<Value> = own.iter().filter(is_new).cloned().collect();
            env.extend(new);
        }
        container.insert("env".into(), env.into());
        for field in ["volumeMounts", "resources"] {
            container.insert(field.into(), main[field].clone());
        }
    }
    containers
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

/// Appends to a list that may be absent.
fn append(object: &mut Map<String, Value>, field: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    match object.get_mut(field) {
        Some(Value::Array(list)) => list.extend(more),
        _ => {
            object.insert(field.to_owned(), more.into());
        }
    }
}

/// Server-side apply needs the protocol, which is part of a port's key, and refuses two ports of
/// one key.
fn unify_ports(ports: &mut Vec<Value>) {
    let mut seen = Vec::new();
    ports.retain_mut(|port| {
        if let Value::Object(port) = port {
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
        let key = (port["containerPort"].clone(), port["protocol"].clone());
        let is_new = !seen.contains(&key);
        if is_new {
            seen.push(key);
        }
        is_new
    });
}
