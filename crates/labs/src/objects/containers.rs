//! Containers of a lab: the lab itself, and those that run before it.

use serde_json::{Value, json};

use super::{account::as_person, parts::LabParts, secrets, volumes};
use crate::config::{ContainerImage, InitContainer};

/// Name of the lab's container.
pub(super) const LAB_CONTAINER: &str = "notebook";
/// Variable of the configuration with the kind of site, and its value if that has a landing page.
const SITE_TYPE: (&str, &str) = ("RSP_SITE_TYPE", "science");

pub(super) fn lab(parts: &LabParts<'_>, mounts: &[Value]) -> Value {
    let field = json!({ "fieldRef": { "fieldPath": "spec.nodeName" } });
    let node = |name: &str| json!({ "name": name, "valueFrom": field });
    let mut env = secrets::variables(parts);
    // The second is the older name.
    env.extend(["KUBERNETES_NODE_NAME", "K8S_NODE_NAME"].map(node));
    json!({
        "name": LAB_CONTAINER,
        "args": parts.config().start_command,
        "env": env,
        "envFrom": env_from(parts),
        "image": parts.request.image.pinned_reference(),
        "imagePullPolicy": "IfNotPresent",
        "ports": [{ "containerPort": crate::names::LAB_PORT, "name": "jupyterlab" }],
        "resources": parts.size.resources.to_container(),
        "securityContext": as_person(parts.request.user),
        "volumeMounts": mounts,
        "workingDir": parts.home_directory(),
    })
}

/// The containers before the lab, in their order: home directories first, since others may need
/// them.
pub(super) fn before_lab(parts: &LabParts<'_>, mounts: &[Value]) -> Vec<Value> {
    let mut containers = Vec::new();
    let config = parts.config();
    let homes = volumes::home_mounts(parts);
    let standard = |name: &str, image: &ContainerImage| InitContainer {
        name: format!("nublado-std-{name}"),
        image: image.clone(),
        command: Some(vec!["nublado".to_owned(), name.to_owned()]),
        is_privileged: false,
        volume_mounts: Vec::new(),
    };
    let helper = parts.context.helper_image;
    if let Some(image) = helper.filter(|_| config.standard_inithome) {
        let inithome = InitContainer {
            is_privileged: true,
            ..standard("inithome", image)
        };
        containers.push(container(parts, &inithome, &homes, identity(parts)));
    }
    if volumes::runs_configured_containers(parts) {
        for configured in &config.init_containers {
            let mounts = configured.volume_mounts.iter();
            let mounts: Vec<Value> = mounts
                .map(crate::config::VolumeMount::to_container)
                .collect();
            let mut env = identity(parts);
            env.extend(hub_secrets(parts));
            containers.push(container(parts, configured, &mounts, env));
        }
    }
    let Some(image) = helper else {
        return containers;
    };
    let (variable, science) = SITE_TYPE;
    if config.env.get(variable).is_some_and(|site| site == science) {
        let page = standard("landingpage", image);
        containers.push(container(parts, &page, &homes, identity(parts)));
    }
    let mut env = identity(parts);
    env.extend(secrets::variables(parts));
    let mounts = startup_mounts(mounts);
    containers.push(container(parts, &standard("startup", image), &mounts, env));
    containers
}

/// What the lab has, but the folder of the startup can be written.
fn startup_mounts(mounts: &[Value]) -> Vec<Value> {
    let mounts = mounts.iter().cloned();
    let writable = mounts.map(|mut mount| {
        if mount["name"] == volumes::STARTUP_VOLUME {
            mount["readOnly"] = false.into();
        }
        mount
    });
    writable.collect()
}

/// The secrets of the hub. Containers of the configuration have all variables of the hub.
fn hub_secrets(parts: &LabParts<'_>) -> Vec<Value> {
    let is_of_hub = |variable: &Value| {
        let name = variable["name"].as_str().unwrap_or_default();
        parts.env.secret.contains_key(name)
    };
    secrets::variables(parts)
        .into_iter()
        .filter(is_of_hub)
        .collect()
}

/// Who the person is, for containers that run as another one.
fn identity(parts: &LabParts<'_>) -> Vec<Value> {
    let user = parts.request.user;
    let variables = [
        ("NUBLADO_HOME", parts.home_directory()),
        ("NUBLADO_UID", user.uid.to_string()),
        ("NUBLADO_GID", user.gid.to_string()),
    ];
    variables
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .into()
}

fn env_from(parts: &LabParts<'_>) -> Value {
    json!([{ "configMapRef": { "name": parts.names.env } }])
}

fn container(
    parts: &LabParts<'_>,
    init: &InitContainer,
    mounts: &[Value],
    env: Vec<Value>,
) -> Value {
    let security = if init.is_privileged {
        json!({
            "allowPrivilegeEscalation": true,
            "privileged": true,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": false,
            "runAsUser": 0,
        })
    } else {
        as_person(parts.request.user)
    };
    let image = &init.image;
    let mut container = json!({
        "name": init.name,
        "env": env,
        "envFrom": env_from(parts),
        "image": format!("{}:{}", image.repository, image.tag),
        "imagePullPolicy": image.pull_policy.as_str(),
        "resources": parts.size.resources.to_container(),
        "securityContext": security,
        "volumeMounts": mounts,
    });
    if let Some(command) = &init.command {
        container["command"] = json!(command);
    }
    container
}
