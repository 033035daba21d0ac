//! Labs through the gateway (docs/labs.md), with a real hub: its configuration is the shipped
//! example, and people sign in at the gateway alone. Gateway and lab controller have the shipped
//! rights.

use std::net::SocketAddr;

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::json;

use super::{
    hub::{HubAddress, HubServer, HubSignIn},
    site::{LabChoices, LabSite},
    spawn::{start_lab, stop_lab},
};
use crate::support::{
    assertions::write_new_key,
    backend::Backend,
    raw::Raw,
    until::in_time,
    world::{World, client, free_port},
};

/// The hub is this app of the gateway.
const HUB: &str = "/apps/nb";
/// A WebSocket that each JupyterLab opens: the events of its server.
const EVENTS: &str = "/api/events/subscribe";
/// A ping with a key of zeros, and the first byte of the answer (RFC 6455 section 5.5.3).
const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
const PONG: u8 = 0x8a;

/// What a site has in the place of a user-info URL: it describes alice to every caller.
async fn describe_alice() -> Backend {
    let described = json!({
        "username": "alice", "uid": 1101, "gid": 1101,
        "groups": [{ "name": "alice", "id": 1101 }],
    })
    .to_string();
    let length = described.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{described}"
    );
    let info = Backend::start("user-info").await;
    info.script(answer.into_bytes());
    info
}

/// A gateway whose apps are the hub and the labs, the lab controller, and the hub.
struct Gated {
    world: World,
    site: LabSite,
    hub: HubServer,
    _keys: tempfile::TempDir,
    _info: Backend,
}

impl Gated {
    async fn start() -> Gated {
        let port = free_port();
        let address = HubAddress {
            authority: format!("127.0.0.1:{port}"),
            base: HUB,
            proxy: SocketAddr::from(([127, 0, 0, 1], free_port())),
        };
        let provider = DemoProvider::start(client(&address.authority), Clock::system()).await;
        let provider = provider.expect("started");
        let info = describe_alice().await;
        // The hub calls from this address.
        let keys = format!(
            "trusted_peers = [\"127.0.0.1/32\"]\nuser_info = \"http://{}/\"\n{}",
            info.address(),
            table("NAMESPACE")
        );
        let choices = LabChoices::plain("nublado");
        let site = LabSite::with(provider.clone(), choices, &keys).await;
        let namespace = &site.namespace;
        namespace.grant("gateway-labs.yaml").await;

        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key.pem");
        write_new_key(&key);
        let identity = format!("assertion_keys = [{key:?}]\n");
        let apps = format!(
            "[[apps]]\nid = \"nb\"\naccess = \"user\"\nassertion = true\nupstream = \"http://{}\"\n\
             {}[labs]\n{}",
            address.proxy,
            namespace.toml(),
            table(&namespace.name)
        );
        let world = World::behind_with_identity(provider, port, &identity, &apps).await;
        let world = world.ready().await;
        let hub = HubServer::start(&site, address, HubSignIn::Gateway).await;
        Gated {
            world,
            site,
            hub,
            _keys: folder,
            _info: info,
        }
    }

    /// Waits until the gateway serves the lab of alice, or no longer does.
    async fn until_served(&self, is_served: bool) {
        self.world
            .until(|snapshot| snapshot.lab("alice").is_some() == is_served)
            .await;
    }
}

/// The key of `[labs]` by which gateway and lab controller know each other.
fn table(namespace: &str) -> String {
    format!("gateway = {{ prefix = \"{HUB}/user\", namespace_prefix = \"{namespace}\" }}\n")
}

/// Whether the lab answers on a WebSocket. Events may come before the answer.
async fn answers(socket: &mut Raw) -> bool {
    socket.send(PING).await;
    let answered = async {
        loop {
            let bytes = socket.reader.some().await.unwrap_or_default();
            if bytes.is_empty() || bytes.contains(&PONG) {
                return !bytes.is_empty();
            }
        }
    };
    in_time("a pong of the lab", answered).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_of_the_example_hub_opens_through_the_gateway_to_its_owner_alone() {
    let gated = Gated::start().await;
    let (world, hub) = (&gated.world, &gated.hub);
    let mut alice = hub.browser("alice", world.running.address);
    alice.sign_in().await;
    start_lab(&mut alice, "Lab Kubernetes pod started for alice").await;
    gated.until_served(true).await;

    let lab = alice.open_lab("alice").await;
    assert_eq!(lab.status(), 200, "{}", lab.text());
    assert!(lab.text().contains("jupyter-config-data"), "{}", lab.text());
    let (head, mut socket) = alice.open_socket("alice", EVENTS).await;
    assert_eq!(head.status(), 101, "{}", head.start);
    assert!(answers(&mut socket).await, "the WebSocket ended");

    // The gateway refuses, before the lab or the hub is asked.
    let mut bob = hub.browser("bob", world.running.address);
    bob.sign_in().await;
    let refused = bob.open_lab("alice").await;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert!(refused.text().contains("have access"), "{}", refused.text());
    let (head, _socket) = bob.open_socket("alice", EVENTS).await;
    assert_eq!(head.status(), 403, "{}", head.start);
    let path = format!("{HUB}/user/alice/lab");
    let stranger = world.browser().open(&path).await;
    assert_eq!(stranger.status(), 302, "{}", stranger.text());
    assert!(answers(&mut socket).await, "hers goes on");

    stop_lab(&mut alice, &gated.site).await;
    gated.until_served(false).await;
    // The gateway closes it, or JupyterLab does, whichever comes first.
    let _ = in_time("the end of the WebSocket", socket.reader.rest()).await;
}
