//! Volume viewers on a cluster: cloudcmd, a real file browser, behind the gateway.

mod browse;
mod document;
mod placement;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::images::load_cloudcmd_image;
use crate::support::{
    controller::{Controlled, ControllerKind, Prepared},
    kube_namespace::{KubeNamespace, kubectl},
    world::{ADMIN_TOKEN, World, with_operators},
};

const IMAGE: &str = "localhost/cloudcmd:1";

/// The pod of viewers without one. It ends quickly.
fn default_pod() -> Value {
    json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "cloudcmd",
            "image": IMAGE,
            // Its WebSockets need a prefix without the slash at the end. Node.js as the first
            // process of a container ignores SIGTERM; the shell ends at once.
            "command": ["sh", "-c", concat!(
                "trap 'exit 0' TERM; ",
                "cloudcmd --root /data --port 8080 --prefix \"${FB_BASEURL%/}\" --no-auth",
                " --no-open --no-terminal --no-console --no-config-dialog --no-contact --no-online",
                " & wait",
            )],
            "env": [{ "name": "FB_BASEURL", "value": "" }, { "name": "HOME", "value": "/tmp" }],
            "ports": [{ "containerPort": 8080 }],
            "readinessProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1 },
            "volumeMounts": [{ "name": "viewer-volume", "mountPath": "/data" }],
        }],
    })
}

/// A namespace with a controller of viewers, and a gateway that publishes them.
struct Viewers {
    controlled: Controlled,
    world: World,
    _folder: TempDir,
}

impl Viewers {
    /// `access` is the rule of the gateway, `more` further keys of `[controller.viewers]`.
    async fn start(access: &str, more: &str) -> Viewers {
        load_cloudcmd_image(IMAGE).await;
        let folder = tempfile::tempdir().expect("a folder");
        let pod = folder.path().join("pod.json");
        std::fs::write(&pod, default_pod().to_string()).expect("written");
        let table = format!(
            "base_prefix = \"/pvcviewers\"\ndefault_pod_file = \"{}\"\n{more}",
            pod.display()
        );
        let prepared = Prepared::for_controller(ControllerKind::Viewers, &table).await;
        if access.contains('{') {
            grant_namespace(&prepared.namespace).await;
        }
        let catalogue = format!(
            "{}viewers = {{ access = \"{access}\" }}\n",
            prepared.namespace.toml()
        );
        let world = World::with(&catalogue, with_operators).await.ready().await;
        // The controller asks the gateway for uses.
        let gateways = format!(
            "[controller.idle]\ngateways = [\"{}\"]\ntoken = \"{ADMIN_TOKEN}\"\n",
            world.running.admin
        );
        let config = prepared.config();
        let written = std::fs::read_to_string(&config).expect("a configuration");
        std::fs::write(&config, format!("{written}{gateways}")).expect("written");
        Viewers {
            controlled: prepared.start().await,
            world,
            _folder: folder,
        }
    }

    fn namespace(&self) -> &KubeNamespace {
        &self.controlled.namespace
    }

    /// The path of a viewer at the gateway.
    fn path(&self, viewer: &str) -> String {
        format!("/pvcviewers/{}/{viewer}/", self.namespace().name)
    }

    /// The id of a viewer in the gateway.
    fn id(&self, viewer: &str) -> String {
        format!("{}/{viewer}", self.namespace().name)
    }
}

/// Grants the gateway what an access rule with labels needs, for this namespace only.
async fn grant_namespace(namespace: &KubeNamespace) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/rbac/viewer-namespaces.yaml"
    );
    let name = &namespace.name;
    let adapted = std::fs::read_to_string(path)
        .expect("the shipped rights")
        .replace("[hub]", &format!("[{name}]"))
        .replace("namespace: hub", &format!("namespace: {name}"))
        .replace(
            "ludgate-viewer-namespaces",
            &format!("ludgate-viewer-namespaces-{name}"),
        );
    kubectl(&["apply", "-f", "-"], &adapted).await;
}
