//! The pod of a viewer that brings none: the built-in one, or the one from the configured file.
//!
//! Invariants: it mounts the claim, and its web app has the viewer's path as base URL, also after
//! the path has changed.

use serde_json::{Map, Value, json};

use super::{
    parsed::{InvalidViewer, Viewer},
    settings::DefaultPod,
};
use crate::pods::append;

/// The volume with the claim.
const VOLUME: &str = "viewer-volume";
/// The variable with the path at which File Browser is reached.
const BASE_URL: &str = "FB_BASEURL";

/// The spec of the default pod.
///
/// # Errors
/// The configured file is unreadable, or holds no pod.
pub fn spec(viewer: &Viewer, default: &DefaultPod) -> Result<Map<String, Value>, InvalidViewer> {
    let spec = match default {
        DefaultPod::BuiltIn { image } => built_in(image),
        DefaultPod::File(spec) => spec.clone(),
    };
    let Value::Object(mut spec) = spec else {
        return Err(InvalidViewer::NoPodSpec);
    };
    let Some(Value::Array(containers)) = spec.get_mut("containers") else {
        return Err(InvalidViewer::NoPodSpec);
    };
    if containers.is_empty() {
        return Err(InvalidViewer::NoPodSpec);
    }
    // A file is written for all viewers, so it cannot know the path of this one.
    set_variable(containers, BASE_URL, &viewer.prefix());
    let claim = json!({ "claimName": viewer.claim });
    let volume = json!({ "name": VOLUME, "persistentVolumeClaim": claim });
    append(&mut spec, "volumes", vec![volume]);
    Ok(spec)
}

/// Kubeflow's default pod. `FB_NOAUTH` is safe, because only the gateway reaches the pod.
fn built_in(image: &str) -> Value {
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    json!({
        "containers": [{
            "name": "pvcviewer",
            "image": image,
            "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
            "env": [
                variable("FB_ADDRESS", "0.0.0.0"),
                variable("FB_PORT", "8080"),
                variable("FB_DATABASE", "/tmp/filebrowser.db"),
                variable("FB_NOAUTH", "true"),
                variable(BASE_URL, ""),
            ],
            "workingDir": "/data",
            "volumeMounts": [{ "name": VOLUME, "mountPath": "/data" }],
        }],
    })
}

/// Sets a variable of the containers that have it.
fn set_variable(containers: &mut [Value], name: &str, value: &str) {
    for container in containers {
        let env = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in env.into_iter().flatten() {
            if variable["name"] == name {
                *variable = json!({ "name": name, "value": value });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::samples;

    fn from_file(spec: Value) -> Result<Value, InvalidViewer> {
        let viewer = samples::viewer(json!({
            "pvc": "data", "networking": { "basePrefix": "/pvcviewers" },
        }));
        super::spec(&viewer, &DefaultPod::File(spec)).map(Value::Object)
    }

    #[test]
    fn a_pod_from_a_file_gets_the_volume_and_the_base_url() {
        let scratch = json!({ "name": "scratch", "emptyDir": {} });
        let env = json!([{ "name": "FB_BASEURL", "value": "/?" }, { "name": "A", "value": "1" }]);
        let file = json!({
            "securityContext": { "runAsUser": 1234 },
            "containers": [{ "name": "test", "env": env }],
            "volumes": [scratch],
        });
        let env = json!([
            { "name": "FB_BASEURL", "value": "/pvcviewers/team/v/" },
            { "name": "A", "value": "1" },
        ]);
        let claim = json!({ "claimName": "data" });
        let wanted = json!({
            "securityContext": { "runAsUser": 1234 },
            "containers": [{ "name": "test", "env": env }],
            "volumes": [scratch, { "name": "viewer-volume", "persistentVolumeClaim": claim }],
        });
        assert_eq!(from_file(file), Ok(wanted));
    }

    #[test]
    fn a_file_without_a_pod_has_kubeflows_message() {
        for file in [
            json!(null),
            json!("text"),
            json!({}),
            json!({ "containers": [] }),
        ] {
            let error = from_file(file.clone()).expect_err("no pod");
            assert_eq!(error.to_string(), "PodSpec must be specified", "{file}");
        }
    }
}
