//! The networking of a viewer that has none: a base path from the settings, and its pod's port.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::{
    default_pod,
    parsed::{Networking, SERVICE_PORT, Viewer},
    settings::ViewerSettings,
};

/// Gives a viewer without networking a path, if the settings have a base path. A viewer with a dot
/// in its name gets none, since a Service cannot have its name.
pub fn complete(viewer: Viewer, settings: &ViewerSettings) -> Viewer {
    let (Some(base), None) = (&settings.base_prefix, &viewer.networking) else {
        return viewer;
    };
    if viewer.name.contains('.') {
        return viewer;
    }
    let prefix = format!("{base}/{}/{}/", viewer.namespace, viewer.name);
    let networking = Networking {
        target_port: IntOrString::Int(container_port(&viewer, settings)),
        rewrite: prefix.clone(),
        prefix,
        timeout: None,
    };
    Viewer {
        networking: Some(networking),
        ..viewer
    }
}

/// The first port of the viewer's containers.
fn container_port(viewer: &Viewer, settings: &ViewerSettings) -> i32 {
    let default = default_pod::spec(viewer, &settings.default_pod).ok();
    let spec = viewer.pod_spec.as_ref().or(default.as_ref());
    let containers = spec.and_then(|spec| spec.get("containers"));
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    let mut ports = containers.filter_map(|container| {
        let port = container["ports"][0]["containerPort"].as_u64()?;
        u16::try_from(port).ok()
    });
    ports.next().unwrap_or(SERVICE_PORT).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::viewer::samples;

    #[test]
    fn a_viewer_without_networking_gets_the_base_path_and_its_pods_port() {
        let mut settings = samples::settings();
        let bare = samples::viewer(json!({ "pvc": "data" }));
        assert_eq!(complete(bare.clone(), &settings).networking, None);
        settings.base_prefix = Some("/pvcviewers".into());
        let volume = json!({ "name": "x", "persistentVolumeClaim": { "claimName": "data" } });
        let own = |ports| {
            let containers = json!([{ "name": "a" }, { "name": "b", "ports": ports }]);
            let pod = json!({ "containers": containers, "volumes": [volume] });
            samples::viewer(json!({ "pvc": "data", "podSpec": pod }))
        };
        for (viewer, port) in [
            (bare, 8080),
            (own(json!([{ "containerPort": 8000 }])), 8000),
            (own(json!([])), 80),
        ] {
            let viewer = complete(viewer, &settings);
            let networking = viewer.networking.expect("networking");
            assert_eq!(networking.target_port, IntOrString::Int(port));
            assert_eq!(networking.prefix, "/pvcviewers/team/v/");
            assert_eq!(networking.rewrite, networking.prefix);
        }
        let written = json!({ "pvc": "data", "networking": { "basePrefix": "/b" } });
        let written = samples::viewer(written);
        assert_eq!(complete(written.clone(), &settings), written);
    }
}
