//! A proxy in front of the API server that disturbs chosen writes of a controller.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, Config, client::Body, config::Kubeconfig};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server refuses it with this status.
    Status(u16),
    /// The connection is cut before the server gets the write.
    CutBefore,
    /// The server does it, and the connection is cut before its answer arrives.
    CutAfter,
    /// The same two, and the proxy says so and keeps the connection open: the writer can be killed.
    HangBefore,
    HangAfter,
}

/// Each way in which a write fails.
const FAULTS: [Fault; 8] = [
    Fault::Status(409),
    Fault::Status(410),
    Fault::Status(429),
    Fault::Status(500),
    Fault::Status(503),
    Fault::Status(504),
    Fault::CutBefore,
    Fault::CutAfter,
];

/// A fault of one write for one object, which a test makes for this case alone.
#[derive(Clone, Copy, Debug)]
pub struct FaultCase {
    fault: usize,
    /// How many writes come before it.
    pub at: usize,
}

impl FaultCase {
    /// Each fault at each of so many writes.
    pub fn all(writes: usize) -> impl Iterator<Item = FaultCase> {
        let faults = 0..FAULTS.len();
        faults.flat_map(move |fault| (0..writes).map(move |at| FaultCase { fault, at }))
    }

    /// The name of the object.
    pub fn object(self) -> String {
        format!("f{}-{}", self.fault, self.at)
    }

    pub fn fault(self) -> Fault {
        FAULTS[self.fault]
    }

    /// The fault of a write, by the name of the object.
    pub fn plan(object: &str, count: usize) -> Option<Fault> {
        let (fault, at) = object.strip_prefix('f')?.split_once('-')?;
        let fault = fault.parse::<usize>().expect("a number");
        (at == count.to_string()).then(|| FAULTS[fault])
    }
}

/// Chooses the fault of a write by the object that it is for, and by how many writes for this
/// object came before it.
type Plan = Box<dyn Fn(&str, usize) -> Option<Fault> + Send + Sync>;

/// A proxy with a plan of faults.
#[derive(Clone)]
pub struct ApiFaults {
    state: Arc<State>,
}

struct State {
    client: Client,
    plan: Mutex<Plan>,
    /// Writes by object.
    writes: Mutex<HashMap<String, usize>>,
    hanging: watch::Sender<usize>,
}

impl ApiFaults {
    /// Puts the proxy between the users of a kubeconfig and their server.
    pub async fn insert(
        kubeconfig: &Path,
        plan: impl Fn(&str, usize) -> Option<Fault> + Send + Sync + 'static,
    ) -> ApiFaults {
        let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(read, &Default::default()).await;
        let state = Arc::new(State {
            client: Client::try_from(config.expect("a configuration")).expect("a client"),
            plan: Mutex::new(Box::new(plan)),
            writes: Mutex::default(),
            hanging: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = serving.clone();
                let service = service_fn(move |request| state.clone().pass(request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["clusters"][0]["cluster"] = json!({ "server": format!("http://{address}") });
        std::fs::write(kubeconfig, config.to_string()).expect("written");
        ApiFaults { state }
    }

    /// Replaces the plan.
    pub fn plan(&self, plan: impl Fn(&str, usize) -> Option<Fault> + Send + Sync + 'static) {
        *self.state.plan.lock().expect("no panic") = Box::new(plan);
    }

    /// How many writes for an object have come.
    pub fn writes(&self, object: &str) -> usize {
        let writes = self.state.writes.lock().expect("no panic");
        writes.get(object).copied().unwrap_or(0)
    }

    /// How many writes have come to hang.
    pub fn hanging(&self) -> watch::Receiver<usize> {
        self.state.hanging.subscribe()
    }
}

type Reply = Response<Body>;

impl State {
    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Cut> {
        let fault = self.fault(&request);
        match fault {
            Some(Fault::Status(code)) => return Ok(refusal(code)),
            Some(Fault::CutBefore) => return Err(Cut),
            Some(Fault::HangBefore) => self.hang().await,
            Some(Fault::CutAfter | Fault::HangAfter) | None => {}
        }
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        // The client adds its own.
        head.headers.remove(http::header::HOST);
        head.headers.remove(http::header::AUTHORIZATION);
        let request = Request::from_parts(head, Body::from(body.to_vec()));
        let response = self.client.send(request).await.map_err(|_| Cut)?;
        match fault {
            Some(Fault::CutAfter) => Err(Cut),
            Some(Fault::HangAfter) => {
                self.hang().await;
                Err(Cut)
            }
            Some(Fault::Status(_) | Fault::CutBefore | Fault::HangBefore) | None => Ok(response),
        }
    }

    /// The fault of a request, if it writes an app or a viewer, a child of it or its status.
    fn fault(&self, request: &Request<Incoming>) -> Option<Fault> {
        if request.method() == Method::GET {
            return None;
        }
        let object = object_of(request.uri().path())?;
        let count = {
            let mut writes = self.writes.lock().expect("no panic");
            let count = writes.entry(object.clone()).or_default();
            *count += 1;
            *count - 1
        };
        (self.plan.lock().expect("no panic"))(&object, count)
    }

    async fn hang(&self) {
        self.hanging.send_modify(|count| *count += 1);
        std::future::pending().await
    }
}

/// The app of `…/phapplications/<app>/status` or of `…/app-<app>[-group|-proxy]`, or the viewer of
/// `…/pvcviewers/<viewer>[/status]` or of `…/pvcviewer-<viewer>`. Of a lab, `pods/<name>`; of any
/// new namespace, `namespaces`.
fn object_of(path: &str) -> Option<String> {
    let mut parts = path.split('/').rev();
    let (last, before) = (parts.next()?, parts.next()?);
    if last == "status" {
        return Some(before.to_owned());
    }
    if before == "pvcviewers" {
        return Some(last.to_owned());
    }
    if let Some(viewer) = last.strip_prefix("pvcviewer-") {
        return Some(viewer.to_owned());
    }
    // Objects of labs: with their kind, since some have the same name.
    if last == "namespaces" {
        return Some(last.to_owned());
    }
    if last.contains("-nb") || (before, last) == ("services", "lab") {
        return Some(format!("{before}/{last}"));
    }
    let child = last.strip_prefix("app-")?;
    let app = child
        .strip_suffix("-group")
        .or(child.strip_suffix("-proxy"));
    Some(app.unwrap_or(child).to_owned())
}

fn refusal(code: u16) -> Reply {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": "Injected", "message": "the test refuses this",
    });
    let body = Body::from(status.to_string().into_bytes());
    let response = Response::builder()
        .status(code)
        .header("Content-Type", "application/json");
    response.body(body).expect("a response")
}

/// The connection is to be cut.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;
