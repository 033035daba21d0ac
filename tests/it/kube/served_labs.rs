//! Labs through the gateway: a lab is for its owner alone, for as long as it runs. Tests write what
//! the service of labs and the endpoint controller write.

use std::{net::SocketAddr, path::PathBuf};

use kube::api::ApiResource;
use ludgate::cluster::endpoint_slices;
use ludgate_labs::{
    metadata::{CATEGORY_LABEL, USER_LABEL},
    names::LAB_PORT,
};
use serde_json::{Value, json};

use super::namespace::Namespace;
use crate::support::{
    backend::Backend, browser::Browser, kube_namespace::kubectl, message::Message, world::World,
};

/// Whose lab it is.
const OWNER: &str = "alice";

/// A gateway that serves labs, and the namespace of one.
struct ServedLab {
    world: World,
    namespace: Namespace,
    slices: ApiResource,
}

impl ServedLab {
    /// A lab without a pod yet.
    async fn start(prefix: &str) -> ServedLab {
        let namespace = Namespace::new().await;
        let slices = endpoint_slices::served_version(&namespace.client).await;
        grant(&namespace.name).await;
        let table = format!(
            "[labs]\ngateway = {{ prefix = \"{prefix}\", namespace_prefix = \"{}\" }}\n",
            namespace.name
        );
        let world = namespace.world_with(&table).await;
        let lab = ServedLab {
            world,
            namespace,
            slices: slices.expect("EndpointSlices"),
        };
        kubectl(&["create", "namespace", &lab.lab_namespace()], "").await;
        lab.apply(lab.service()).await;
        lab
    }

    fn lab_namespace(&self) -> String {
        format!("{}-{OWNER}", self.namespace.name)
    }

    async fn apply(&self, object: Value) {
        let namespace = self.lab_namespace();
        let arguments = ["-n", &namespace, "apply", "-f", "-"];
        kubectl(&arguments, &object.to_string()).await;
    }

    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "lab", "labels": labels() },
            "spec": { "ports": [{ "port": LAB_PORT }], "selector": labels() },
        })
    }

    /// Says which pods of the lab are ready, and waits until the gateway knows.
    async fn ready(&self, pods: &[SocketAddr]) {
        let endpoints = pods.iter().map(|pod| {
            json!({
                "addresses": [pod.ip().to_string()],
                "conditions": { "ready": true },
                "targetRef": { "kind": "Pod", "name": "lab", "uid": pod.to_string() },
            })
        });
        // The endpoint controller gives the slices of a Service its labels.
        let mut labels = labels();
        labels["kubernetes.io/service-name"] = "lab".into();
        self.apply(json!({
            "apiVersion": self.slices.api_version, "kind": self.slices.kind,
            "metadata": { "name": "lab-1", "labels": labels },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<_>>(),
            "ports": [{ "name": "", "port": LAB_PORT, "protocol": "TCP" }],
        }))
        .await;
        self.until_served(!pods.is_empty()).await;
    }

    async fn until_served(&self, is_served: bool) {
        self.world
            .until(|snapshot| snapshot.lab(OWNER).is_some() == is_served)
            .await;
    }

    /// The app of the lab, in a pod that is ready.
    async fn run(&self) -> Backend {
        let listener = self.namespace.pods.listen(0, LAB_PORT);
        let backend = Backend::on("lab", listener);
        self.ready(&[backend.address()]).await;
        backend
    }

    /// What the browser's person gets for a WebSocket.
    async fn upgrade(&self, browser: &Browser, path: &str) -> Message {
        let (host, cookies) = (&self.world.host, browser.cookie_line(path));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Origin: http://{host}\r\n{cookies}\r\n"
        );
        self.world.exchange(&request).await
    }
}

impl Drop for ServedLab {
    fn drop(&mut self) {
        let binding = wide_name(&self.namespace.name);
        for (kind, name) in [
            ("namespace", self.lab_namespace()),
            ("clusterrole", binding.clone()),
            ("clusterrolebinding", binding),
        ] {
            let _ = std::process::Command::new("kubectl")
                .args(["delete", kind, &name, "--wait=false", "--ignore-not-found"])
                .output();
        }
    }
}

fn labels() -> Value {
    json!({ CATEGORY_LABEL: "lab", USER_LABEL: OWNER })
}

fn wide_name(namespace: &str) -> String {
    format!("ludgate-gateway-labs-{namespace}")
}

/// Grants what the shipped file grants, under a name of the test's own.
async fn grant(namespace: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/rbac/gateway-labs.yaml");
    let shipped = std::fs::read_to_string(file).expect("the shipped rights");
    for part in ["namespace: hub", "name: ludgate-gateway-labs"] {
        assert!(shipped.contains(part), "no {part}");
    }
    let adapted = shipped
        .replace("namespace: hub", &format!("namespace: {namespace}"))
        .replace(
            "name: ludgate-gateway-labs",
            &format!("name: {}", wide_name(namespace)),
        );
    kubectl(&["apply", "-f", "-"], &adapted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_is_for_its_owner_alone_and_ends_with_its_objects() {
    let served = ServedLab::start("/nb/user").await;
    let (world, path) = (&served.world, "/nb/user/alice/lab");
    assert_eq!(world.browser().fetch(path).await.status(), 404);

    let lab = served.run().await;
    assert_eq!(world.browser().open(path).await.status(), 302, "to sign in");
    assert_eq!(world.browser().fetch(path).await.status(), 401);
    let mut bob = world.signed_in("bob").await;
    assert_eq!(bob.open(path).await.status(), 403);
    let terminal = "/nb/user/alice/terminals/ws";
    assert_eq!(served.upgrade(&bob, terminal).await.status(), 403);
    assert_eq!(lab.count(), 0, "nothing of that reached the lab");

    let mut alice = world.signed_in("alice").await;
    let page = alice.open("/nb/user/alice/lab?reset").await;
    assert_eq!(
        (page.status(), page.text().as_str()),
        (200, "lab /nb/user/alice/lab")
    );
    assert_eq!(
        lab.last().target(),
        "/nb/user/alice/lab?reset",
        "its base URL is kept"
    );
    let bare = alice.open("/nb/user/alice").await;
    assert_eq!(bare.header("location").as_deref(), Some("/nb/user/alice/"));
    assert!(alice.open("/apps/").await.text().contains("Lab of alice"));
    assert!(!bob.open("/apps/").await.text().contains("Lab of alice"));

    let mut socket = world.websocket_at(&alice, terminal).await;
    assert!(socket.carries().await, "the terminal echoes");
    kubectl(
        &[
            "delete",
            "namespace",
            &served.lab_namespace(),
            "--wait=false",
        ],
        "",
    )
    .await;
    assert_eq!(socket.farewell().await, Some(1008), "the WebSocket ended");
    served.until_served(false).await;
    assert_eq!(alice.open(path).await.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_does_not_run_leaves_its_path_to_the_hub() {
    // `usr` stands for the hub, with its proxy.
    let served = ServedLab::start("/apps/usr/user").await;
    let (world, path) = (&served.world, "/apps/usr/user/alice/lab");
    let (mut alice, mut bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let of_hub = format!("usr {path}");
    assert_eq!(alice.open(path).await.text(), of_hub);

    let lab = served.run().await;
    assert_eq!(alice.open(path).await.text(), format!("lab {path}"));
    assert_eq!(bob.open(path).await.status(), 403);
    for encoded in [
        "/apps/usr/user/%61lice/lab",
        "/apps/usr/user/alice%2Flab",
        "/apps/usr/%75ser/alice/lab",
        "/apps/usr/user%2Falice/lab",
        "/apps/usr//user/alice/lab",
        "/apps/usr/x/../user/alice/lab",
    ] {
        assert_eq!(
            bob.open(encoded).await.status(),
            400,
            "not by the hub's proxy"
        );
    }
    assert_eq!(
        bob.open("/apps/usr/hub/home").await.status(),
        200,
        "the hub is for all"
    );
    let mut socket = world.websocket_at(&alice, "/apps/usr/user/alice/ws").await;
    assert!(socket.carries().await);
    assert_eq!(lab.seen().len(), 2);

    served.ready(&[]).await;
    assert_eq!(socket.farewell().await, Some(1008), "its pod has ended");
    assert_eq!(alice.open(path).await.text(), of_hub);
}
