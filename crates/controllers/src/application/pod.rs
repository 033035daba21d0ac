//! The pod of an app: its template, with the variables, volumes and resources that the platform
//! adds. Fields that are not named here stay as the template has them.

use serde_json::{Map, Value, json};

use super::{
    datasets::PinnedDataset, environment::Presets, group_names, inputs::RenderContext,
    instance_type::InstanceType, settings::ApplicationSettings, shared_volumes::SharedVolumes,
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
    let shared = SharedVolumes::new(context);
    let container = spec.get("containers").and_then(|all| all.get(0)).cloned();
    let Some(Value::Object(container)) = container else {
        return Err("podTemplate.spec.containers has no container".into());
    };
    shared.check_template(template)?;
    let own = &data.volume["name"];
    if entries(&spec, "volumes").any(|volume| volume["name"] == *own) {
        return Err(format!(
            "podTemplate.spec.volumes: {own} is the name of the app's own volume"
        ));
    }
    let container = main_container(container, context, &data, &shared);
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
    append(&mut spec, "volumes", vec![data.volume.clone()]);
    append(&mut spec, "volumes", shared.volumes);
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
    shared: &SharedVolumes,
) -> Map<String, Value> {
    let settings = context.settings;
    let presets = Presets {
        id: &context.app.name,
        root: &data.root,
        base_url: &format!("{}/{}", settings.apps_prefix, context.app.name),
        site_url: &settings.site_url,
        group: &context.app.spec.group_name,
    };
    let mut env: Vec<Value> = entries(&container, "env").cloned().collect();
    let datasets = context.inputs.datasets.iter();
    env.extend(datasets.flat_map(PinnedDataset::variables));
    container.insert("env".into(), presets.merge(&env).into());
    let mounts = new_mounts(&container, data.mounts.iter().chain(&shared.mounts));
    append(&mut container, "volumeMounts", mounts);
    container.insert("resources".into(), context.inputs.instance_type.resources());
    container.insert("imagePullPolicy".into(), "IfNotPresent".into());
    report_log(&mut container);
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        unify_ports(ports);
    }
    container
}

/// The wanted mounts, except where the template mounts something itself.
fn new_mounts<'v>(
    container: &'v Map<String, Value>,
    wanted: impl Iterator<Item = &'v Value>,
) -> Vec<Value> {
    let own = entries(container, "volumeMounts");
    let mut paths: Vec<&Value> = own.map(|it| &it["mountPath"]).collect();
    let mut mounts = Vec::new();
    for mount in wanted {
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

/// The entries of a list that may be absent.
fn entries<'o>(
    object: &'o Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'o Value> + use<'o> {
    let list = object.get(field).and_then(Value::as_array);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{
        app::Application, dataset_grant::DatasetAccess, datasets::DatasetSource,
        inputs::PinnedInputs, samples, settings::Group,
    };

    /// The app `lab` of the group `My_Group` with this pod.
    fn app(pod: &Value) -> Application {
        let pod = json!({ "spec": pod });
        samples::app(json!({ "groupName": "My_Group", "podTemplate": pod }))
    }

    /// The pod of an app with PHFS, a dataset of variables, and a folder of the node.
    fn rendered(app: &Application) -> Result<Value, String> {
        let settings = samples::settings();
        let size = InstanceType::sample();
        let dataset = |name: &str, source: DatasetSource| PinnedDataset {
            name: name.to_owned(),
            access: DatasetAccess::ReadOnly,
            source,
        };
        let variables = [("first".to_owned(), "red".to_owned())];
        let inputs = PinnedInputs {
            phfs: Some("shared".to_owned()),
            datasets: vec![
                dataset("colours", DatasetSource::Variables(variables.into())),
                dataset("numbers", DatasetSource::HostPath("/data".to_owned())),
            ],
            ..PinnedInputs::resolve(app, &Group::default(), &size, &settings)
        };
        let context = RenderContext {
            app,
            inputs: &inputs,
            settings: &settings,
        };
        spec(context)
    }

    #[test]
    fn phfs_and_datasets_are_mounted_and_the_templates_hooks_stay() {
        let hooks = json!({ "postStart": { "exec": { "command": ["/app", "warm-up"] } } });
        let own = json!({ "name": "tmp", "mountPath": "/datasets/numbers" });
        let env =
            json!([{ "name": "COLOURS_FIRST", "value": "own" }, { "name": "A", "value": "1" }]);
        let template = json!({
            "containers": [{ "name": "app", "env": env, "lifecycle": hooks, "volumeMounts": [own] }],
            "initContainers": [{ "name": "first" }],
            "volumes": [{ "name": "tmp", "emptyDir": {} }],
        });
        let app = app(&template);
        let pod = rendered(&app).expect("made");
        assert_eq!(rendered(&app).as_ref(), Ok(&pod), "always the same");
        let size = json!({ "sizeLimit": "5Gi" });
        assert_eq!(
            pod["volumes"],
            json!([
                { "name": "tmp", "emptyDir": {} },
                { "name": "primehub-app-root", "emptyDir": size },
                { "name": "phfs", "persistentVolumeClaim": { "claimName": "shared" } },
                { "name": "dataset-numbers", "hostPath": { "path": "/data" } },
            ])
        );
        let mounts = json!([
            own,
            { "name": "primehub-app-root", "mountPath": "/phapplications/lab" },
            { "name": "phfs", "mountPath": "/phfs", "subPath": "groups/my-group" },
            { "name": "dataset-numbers", "mountPath": "/mnt/dataset-numbers", "readOnly": true },
        ]);
        let container = &pod["containers"][0];
        assert_eq!(container["volumeMounts"], mounts);
        assert_eq!(container["lifecycle"], hooks);
        let env = container["env"].as_array().expect("a list");
        let wanted =
            json!([{ "name": "COLOURS_FIRST", "value": "red" }, { "name": "A", "value": "1" }]);
        assert_eq!(json!(env[5..]), wanted);
        let first = &pod["initContainers"][0];
        assert_eq!(first["volumeMounts"], mounts);
        assert_eq!(json!(first["env"]), container["env"]);
    }

    #[test]
    fn a_template_cannot_mount_phfs_or_a_dataset_in_its_own_way() {
        let mounting = |field: &str, volume: &str| {
            let mount = json!({ "name": volume, "mountPath": "/x", "devicePath": "/x" });
            json!({ "name": "app", field: [mount] })
        };
        let harmless = json!([{ "name": "app" }]);
        for (template, wanted) in [
            (
                json!({ "containers": [mounting("volumeMounts", "dataset-numbers")] }),
                "podTemplate.spec.containers: the volume \"dataset-numbers\" is mounted by the controller only",
            ),
            (
                json!({ "containers": [mounting("volumeMounts", "phfs")] }),
                "podTemplate.spec.containers: the volume \"phfs\" is mounted by the controller only",
            ),
            (
                json!({ "containers": harmless, "initContainers": [mounting("volumeDevices", "phfs")] }),
                "podTemplate.spec.initContainers: the volume \"phfs\" is mounted by the controller only",
            ),
            (
                json!({ "containers": harmless, "volumes": [{ "name": "phfs", "emptyDir": {} }] }),
                "podTemplate.spec.volumes: \"phfs\" is the name of a volume that the controller adds",
            ),
            (
                json!({ "containers": harmless, "volumes": [{ "name": "primehub-app-root" }] }),
                "podTemplate.spec.volumes: \"primehub-app-root\" is the name of the app's own volume",
            ),
        ] {
            assert_eq!(
                rendered(&app(&template)),
                Err(wanted.to_owned()),
                "{template}"
            );
        }
        // A dataset of variables is no volume.
        let own = json!([{ "name": "dataset-colours", "emptyDir": {} }]);
        let mount = mounting("volumeMounts", "dataset-colours");
        let template = json!({ "containers": [mount], "volumes": own });
        assert!(rendered(&app(&template)).is_ok());
    }

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
