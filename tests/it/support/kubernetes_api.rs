//! A scripted Kubernetes API over plain HTTP: what it keeps it serves as the public documentation
//! says, and any request can be made to go wrong in a way that a real server cannot be asked for.

mod serve;
mod states_seen;
mod store;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

use self::store::Store;
pub use self::{
    serve::{bookmark, error_event},
    states_seen::StatesSeen,
};
use super::{
    message::PATIENCE,
    raw::Raw,
    until::until_async,
    world::{ADMIN_TOKEN, World, free_port, with_operators},
};

pub const APPS: &str = "phapplications";
pub const SLICES: &str = "endpointslices";
pub const VIEWERS: &str = "pvcviewers";
/// Namespace objects; each is kept in the namespace of its own name.
pub const NAMESPACES: &str = "namespaces";
/// The namespace that gateways of these tests read, unless they say otherwise.
pub const HUB: &str = "hub";
/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Which groups and versions there are.
    Discovery,
    /// The first page of a list.
    List(&'static str),
    /// A page that follows another.
    Page(&'static str),
    Watch(&'static str),
    Other,
}

/// How a request goes wrong.
#[derive(Clone)]
pub enum Fault {
    /// Answered with this status and a Status object; 429 and 503 ask to be left alone for an hour.
    Status(u16),
    /// Accepted and never answered.
    Hang,
    /// Half of the answer, then nothing.
    HangInside,
    /// Half of the answer, then a reset.
    Reset,
    /// Answered when a permit is there.
    Hold(Arc<Semaphore>),
    /// A watch that says this first.
    Says(String),
    /// A watch that says this and ends.
    SaysAndEnds(String),
    /// A watch whose first event is written differently.
    Spoil(fn(&str) -> String),
    /// A watch that ends in the middle of its first event.
    CutInside,
}

/// For [`KubernetesApi::script`]: until it is healed.
pub const ALWAYS: usize = usize::MAX;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Call {
    pub kind: RequestKind,
    pub target: String,
}

/// The API. Cloning gives the same one.
#[derive(Clone)]
pub struct KubernetesApi(Arc<Inner>);

struct Inner {
    port: u16,
    folder: tempfile::TempDir,
    store: Mutex<Store>,
    faults: Mutex<Vec<(RequestKind, usize, Fault)>>,
    calls: Mutex<Vec<Call>>,
    /// Rings with every request.
    called: watch::Sender<()>,
    /// Rings with every change of an object.
    changed: watch::Sender<()>,
    /// Rings when open watches are to end.
    ended: watch::Sender<()>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl KubernetesApi {
    pub async fn start() -> KubernetesApi {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{ "name": "it", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
            "users": [{ "name": "it", "user": {} }],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).expect("written");
        let api = KubernetesApi(Arc::new(Inner {
            port,
            folder,
            store: Mutex::new(Store::new()),
            faults: Mutex::default(),
            calls: Mutex::default(),
            called: watch::Sender::new(()),
            changed: watch::Sender::new(()),
            ended: watch::Sender::new(()),
            serving: Mutex::new(None),
        }));
        api.back().await;
        api
    }

    /// A gateway whose catalogue this is; nothing need be known yet. `more` is more of
    /// `[kubernetes]`.
    pub async fn gateway(&self, more: &str) -> World {
        let kubeconfig: PathBuf = self.0.folder.path().join("kubeconfig");
        let namespace = if more.contains("namespaces") {
            ""
        } else {
            "namespace = \"hub\"\n"
        };
        let section = format!(
            "[kubernetes]\n{namespace}kubeconfig = \"{}\"\n{more}\n",
            kubeconfig.display()
        );
        World::with(&section, with_operators).await
    }

    /// The same, when it has listed everything once and watches.
    pub async fn world(&self, more: &str) -> World {
        let watches = [RequestKind::Watch(APPS), RequestKind::Watch(SLICES)]
            .map(|kind| (kind, self.count(kind) + 1));
        let world = self.gateway(more).await;
        world.until(|snapshot| snapshot.is_complete()).await;
        for (kind, count) in watches {
            self.until_count(kind, count).await;
        }
        // The apps are published before the process calls itself ready.
        let admin = world.running.admin;
        until_async("the process is ready", async move || is_ready(admin).await).await;
        world
    }

    /// Writes an object, whatever it is, as long as it has a name.
    pub fn put(&self, plural: &'static str, namespace: &str, object: Value) {
        self.0
            .store
            .lock()
            .expect("no panic")
            .put(plural, namespace, object);
        self.0.changed.send_replace(());
    }

    pub fn app(&self, name: &str, scope: &str, more: Value) {
        self.put(APPS, HUB, application(name, scope, more));
    }

    pub fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        self.0
            .store
            .lock()
            .expect("no panic")
            .delete(plural, namespace, name);
        self.0.changed.send_replace(());
    }

    /// An object as it stands, and the version of everything.
    pub fn get(&self, plural: &'static str, name: &str) -> Value {
        self.0
            .store
            .lock()
            .expect("no panic")
            .get(plural, HUB, name)
    }

    pub fn version(&self) -> u64 {
        self.0.store.lock().expect("no panic").version()
    }

    /// Forgets all events until now: a watch from an older version has to list again.
    pub fn compact(&self) {
        self.0.store.lock().expect("no panic").compact();
    }

    /// Which versions of EndpointSlices there are.
    pub fn serve_slices_as(&self, versions: &[&'static str]) {
        self.0.store.lock().expect("no panic").slice_versions = versions.to_vec();
    }

    /// The next requests of this sort go wrong like this.
    pub fn script(&self, kind: RequestKind, times: usize, fault: Fault) {
        self.0
            .faults
            .lock()
            .expect("no panic")
            .push((kind, times, fault));
    }

    pub fn heal(&self) {
        self.0.faults.lock().expect("no panic").clear();
    }

    /// Every open watch ends, as each does some day; what comes of it is seen in the next.
    pub async fn end_watches(&self, plural: &'static str) {
        let next = self.count(RequestKind::Watch(plural)) + 1;
        self.0.ended.send_replace(());
        self.until_count(RequestKind::Watch(plural), next).await;
    }

    /// The open watch ends, and the next says at once that everything must be listed anew.
    pub async fn expire(&self, plural: &'static str) {
        let event = format!("{}\n", error_event(410));
        self.script(RequestKind::Watch(plural), 1, Fault::SaysAndEnds(event));
        self.end_watches(plural).await;
    }

    /// Stops listening and closes every connection.
    pub async fn away(&self) {
        let serving = self.0.serving.lock().expect("no panic").take();
        if let Some(serving) = serving {
            serving.abort();
            let _ = serving.await;
        }
    }

    pub async fn back(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.0.port));
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let inner = Arc::downgrade(&self.0);
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let Some(inner) = inner.upgrade() else { return };
                open.spawn(serve::serve(stream, inner));
            }
        });
        *self.0.serving.lock().expect("no panic") = Some(serving);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().expect("no panic").clone()
    }

    pub fn count(&self, kind: RequestKind) -> usize {
        self.0
            .calls
            .lock()
            .expect("no panic")
            .iter()
            .filter(|call| call.kind == kind)
            .count()
    }

    /// Waits until so many requests of this sort came.
    pub async fn until_count(&self, kind: RequestKind, count: usize) {
        let mut called = self.0.called.subscribe();
        let enough = async {
            while self.count(kind) < count {
                called.changed().await.expect("the API lives");
            }
        };
        let waited = tokio::time::timeout(PATIENCE, enough).await;
        waited.unwrap_or_else(|_| panic!("{kind:?} came {} times, not {count}", self.count(kind)));
    }
}

async fn is_ready(admin: SocketAddr) -> bool {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    Raw::exchange(admin, request).await.status() == 200
}

/// An app as its author writes it; `more` is merged into its spec.
pub fn application(name: &str, scope: &str, more: Value) -> Value {
    let mut spec = json!({
        "displayName": name, "groupName": "phusers", "instanceType": "cpu-1", "scope": scope, "httpPort": 5000,
        "podTemplate": { "spec": { "containers": [{ "name": "app", "image": "app:1" }] } },
        "svcTemplate": { "spec": { "ports": [{ "name": "http", "port": 5000 }] } },
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    json!({ "apiVersion": "primehub.io/v1alpha1", "kind": "PhApplication", "metadata": { "name": name }, "spec": spec })
}

/// A slice of an app's Service, with these endpoints at port 5000.
pub fn slice(name: &str, app: &str, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": format!("app-{app}") } },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 5000, "protocol": "TCP" }],
    })
}

/// What a program is told that opens an app: status and reason.
pub async fn decision(world: &World, app: &str) -> String {
    let answer = world
        .exchange(&format!(
            "GET /apps/{app}/ HTTP/1.1\r\nHost: HOST\r\nAccept: application/json\r\n\r\n"
        ))
        .await;
    let reason = answer.json()["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    format!("{} {reason}", answer.status())
}

/// What the admin listener tells of objects that are not published as they were written: object,
/// text, and whether the last good form is.
pub async fn problems(world: &World) -> Vec<(String, String, bool)> {
    let list = world
        .admin("/apps", &format!("Authorization: Bearer {ADMIN_TOKEN}\r\n"))
        .await
        .json();
    let problems = list["problems"]
        .as_array()
        .cloned()
        .unwrap_or_default()
        .into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    problems
        .map(|problem| {
            let kept = problem["still_published"] == true;
            (text(&problem["object"]), text(&problem["problem"]), kept)
        })
        .collect()
}

/// A metric that has no labels.
pub async fn metric(world: &World, name: &str) -> f64 {
    let value = world.metric(name).await;
    value.unwrap_or_else(|| panic!("no metric {name}"))
}
