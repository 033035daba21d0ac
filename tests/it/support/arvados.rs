//! A stand-in for an Arvados cluster: its API over HTTPS, and the gateway beside each of its
//! containers.
//!
//! Paths, records, errors and checks are those of Arvados' documentation and programs; what it
//! stands in for is only what a gateway in front of containers asks.

mod api;
mod certificates;
mod container_gateway;
mod query;
mod records;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::net::TcpListener;

pub use self::{
    api::{Call, ELSEWHERE, Fault},
    container_gateway::Lie,
};
use self::{
    certificates::Authority,
    container_gateway::{ContainerGateway, Door},
    records::{Kind, Record, Records, new_uuid, timestamp},
};

/// A cluster of its own. Cloning gives the same one.
#[derive(Clone)]
pub struct Arvados(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    authority: Authority,
    records: Mutex<Records>,
    places: Mutex<BTreeMap<String, VirtualHost>>,
    calls: Mutex<Vec<Call>>,
    handshakes: AtomicUsize,
    fault: Mutex<Option<Fault>>,
}

/// Where a container is: behind its door, which is open while it runs.
struct VirtualHost {
    door: Arc<Door>,
    open: Option<ContainerGateway>,
}

/// A person or program with an account, and one token of it in both forms.
pub struct User {
    pub uuid: String,
    pub token_v2: String,
    pub token_v1: String,
}

/// A container and the requests that it fulfils, one for each submitter.
pub struct Container {
    pub uuid: String,
    pub request_uuids: Vec<String>,
}

impl Arvados {
    /// Starts the API on a port of its own.
    pub async fn start() -> Arvados {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let inner = Arc::new(Inner {
            address: listener.local_addr().expect("an address"),
            authority: Authority::new(),
            records: Mutex::new(Records::new()),
            places: Mutex::default(),
            calls: Mutex::default(),
            handshakes: AtomicUsize::new(0),
            fault: Mutex::new(None),
        });
        tokio::spawn(api::accept(listener, Arc::clone(&inner)));
        Arvados(inner)
    }

    /// The URL of the API.
    pub fn api(&self) -> String {
        format!("https://{}", self.0.address)
    }

    /// The CA that signed the API's certificate.
    pub fn ca_pem(&self) -> String {
        self.0.authority.pem.clone()
    }

    /// The token that may everything.
    pub fn root_token(&self) -> String {
        self.records(|records| records.root_token())
    }

    pub fn add_user(&self, name: &str, is_admin: bool) -> User {
        let uuid = new_uuid("tpzed");
        self.records(|records| {
            records.add_user(uuid.clone(), name, is_admin);
            let (token_v2, token_v1) = records.add_token(&uuid);
            User {
                uuid,
                token_v2,
                token_v1,
            }
        })
    }

    /// An inactive user reads nothing but their own account.
    pub fn set_active(&self, user_uuid: &str, active: bool) {
        self.change(Kind::User, user_uuid, |user| {
            user.fields.insert("is_active".into(), active.into());
        });
    }

    /// From now on this token is as good as none, in both forms. The API answers an expired one the
    /// same way.
    pub fn revoke(&self, token: &str) {
        self.records(|records| records.revoke(token));
    }

    /// A running container with a gateway of its own, behind which these ports lead to these
    /// addresses.
    pub async fn add_container(
        &self,
        submitters: &[&str],
        published: Value,
        ports: &[(u16, SocketAddr)],
    ) -> Container {
        let uuid = new_uuid("dz642");
        let door = Arc::new(Door::new(&uuid, &self.root_token(), ports));
        self.0
            .places
            .lock()
            .expect("no panic")
            .insert(uuid.clone(), VirtualHost { door, open: None });
        let request_uuids = self.records(|records| {
            records.add(
                Kind::Container,
                Some(uuid.clone()),
                container_fields(&published),
            );
            let request = |submitter: &&str| {
                let own = request_fields(&uuid, submitter, &published);
                records.add(Kind::ContainerRequest, None, own)
            };
            submitters.iter().map(request).collect()
        });
        self.set_state(&uuid, "Running");
        Container {
            uuid,
            request_uuids,
        }
    }

    /// `Queued`, `Locked`, `Running`, `Complete` or `Cancelled`. Whatever is not running has no
    /// gateway, and connections to the one that it had are cut.
    pub fn set_state(&self, container: &str, state: &str) {
        let runs = match state {
            "Running" => true,
            "Queued" | "Locked" | "Complete" | "Cancelled" => false,
            other => panic!("no state of a container: {other}"),
        };
        let address = self.vhost(container, |vhost| {
            if runs {
                let open = vhost
                    .open
                    .get_or_insert_with(|| Arc::clone(&vhost.door).open());
                open.address.to_string()
            } else {
                vhost.open = None;
                String::new()
            }
        });
        let ended = ["Complete", "Cancelled"].contains(&state);
        let (started_at, finished_at) = match (runs, ended) {
            (true, _) => (json!(timestamp()), Value::Null),
            (false, true) => (json!(timestamp()), json!(timestamp())),
            (false, false) => (Value::Null, Value::Null),
        };
        self.change(Kind::Container, container, |record| {
            let fields = &mut record.fields;
            fields.insert("state".into(), state.into());
            fields.insert("gateway_address".into(), address.clone().into());
            // A container that ends keeps the time at which it began.
            if !ended || fields["started_at"].is_null() {
                fields.insert("started_at".into(), started_at.clone());
            }
            fields.insert("finished_at".into(), finished_at.clone());
        });
        let state = if ended { "Final" } else { "Committed" };
        self.change_requests(container, |request| {
            request.fields.insert("state".into(), state.into());
        });
    }

    pub fn set_published(&self, container: &str, published: Value) {
        self.change(Kind::Container, container, |record| {
            record
                .fields
                .insert("published_ports".into(), published.clone());
        });
        let asked = as_requested(&published);
        self.change_requests(container, |request| {
            request
                .fields
                .insert("published_ports".into(), asked.clone());
        });
    }

    /// Lets a user read a container and its requests, as sharing the project would.
    pub fn allow_reading(&self, container: &str, user_uuid: &str) {
        self.change(Kind::Container, container, |record| {
            record.readers.insert(user_uuid.to_owned());
        });
    }

    /// A name for a port of a container request, or of a container.
    pub fn add_link(&self, name: &str, head_uuid: &str, port: u16) {
        let own = json!({
            "link_class": "published_port", "name": name, "head_uuid": head_uuid, "tail_uuid": "",
            "properties": { "port": port },
        });
        self.records(|records| records.add(Kind::Link, None, own));
    }

    pub fn remove_link(&self, name: &str) {
        self.records(|records| records.remove_link(name));
    }

    /// Every request to the API so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().expect("no panic").clone()
    }

    /// How many requests went to paths that begin so.
    pub fn calls_to(&self, prefix: &str) -> usize {
        self.calls()
            .iter()
            .filter(|call| call.path_and_query.starts_with(prefix))
            .count()
    }

    /// TLS handshakes completed by the API.
    pub fn api_handshakes(&self) -> usize {
        self.0.handshakes.load(Ordering::SeqCst)
    }

    /// TLS handshakes completed by this container's gateway, in all its runs.
    pub fn handshakes(&self, container: &str) -> usize {
        self.vhost(container, |vhost| {
            vhost.door.handshakes.load(Ordering::SeqCst)
        })
    }

    /// Every call to the API goes wrong like this from now on; `None` makes it well again.
    pub fn fail(&self, fault: Option<Fault>) {
        *self.0.fault.lock().expect("no panic") = fault;
    }

    /// Replaces this container's gateway by an impostor; `None` restores it. A certificate is shown
    /// when a connection begins, the rest is decided at every request.
    pub fn lie(&self, container: &str, lie: Option<Lie>) {
        self.vhost(container, |vhost| {
            *vhost.door.lie.lock().expect("no panic") = lie
        });
    }

    fn records<T>(&self, work: impl FnOnce(&mut Records) -> T) -> T {
        work(&mut self.0.records.lock().expect("no panic"))
    }

    fn vhost<T>(&self, container: &str, work: impl FnOnce(&mut VirtualHost) -> T) -> T {
        let mut places = self.0.places.lock().expect("no panic");
        work(
            places
                .get_mut(container)
                .unwrap_or_else(|| panic!("no container {container}")),
        )
    }

    fn change(&self, kind: Kind, uuid: &str, change: impl Fn(&mut Record)) {
        let changed =
            self.records(|records| records.change(kind, |r| r.text("uuid") == uuid, change));
        assert_ne!(changed, 0, "no such record: {uuid}");
    }

    fn change_requests(&self, container: &str, change: impl Fn(&mut Record)) {
        let fits = |request: &Record| request.text("container_uuid") == container;
        self.records(|records| records.change(Kind::ContainerRequest, fits, change));
    }
}

/// What a container has besides what every record has; how it runs is set with its state.
fn container_fields(published: &Value) -> Value {
    json!({
        "state": "Queued", "gateway_address": "", "started_at": null, "finished_at": null,
        "published_ports": published, "service": true, "runtime_status": {}, "exit_code": null, "log": null,
        "output": null, "progress": null, "priority": 500, "command": ["serve"], "cwd": "/",
        "container_image": "fa3c1a9cb6783f85f2ecda037e07b8c3+167", "environment": {}, "mounts": {},
        "output_path": "/out", "output_glob": [], "output_properties": {}, "output_storage_classes": ["default"],
        "runtime_constraints": { "ram": 1_073_741_824, "vcpus": 1, "API": true }, "scheduling_parameters": {},
        "auth_uuid": null, "locked_by_uuid": null, "lock_count": 1, "interactive_session_started": false,
        "runtime_user_uuid": null, "runtime_auth_scopes": ["all"], "cost": 0.0, "subrequests_cost": 0.0,
    })
}

fn request_fields(container: &str, submitter: &str, published: &Value) -> Value {
    json!({
        "name": "a service", "description": null, "properties": {}, "state": "Committed",
        "container_uuid": container, "requesting_container_uuid": null, "owner_uuid": submitter,
        "modified_by_user_uuid": submitter, "published_ports": as_requested(published), "service": true,
        "priority": 500, "container_count": 1, "container_count_max": 3, "use_existing": true,
        "command": ["serve"], "cwd": "/", "container_image": "arvados/jobs:latest", "environment": {},
        "mounts": {}, "output_path": "/out", "output_uuid": null, "log_uuid": null, "expires_at": null,
        "runtime_constraints": { "ram": 1_073_741_824, "vcpus": 1, "API": true }, "scheduling_parameters": {},
    })
}

/// A request says what it wants published; where that came to be is in the container alone.
fn as_requested(published: &Value) -> Value {
    let mut asked = published.clone();
    for port in asked
        .as_object_mut()
        .into_iter()
        .flat_map(|ports| ports.values_mut())
    {
        for given in ["external_port", "base_url", "initial_url"] {
            port.as_object_mut().and_then(|port| port.remove(given));
        }
    }
    asked
}
