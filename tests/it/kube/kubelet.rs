//! A stand-in of a node's kubelet, which has the logs of pods.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use super::namespace::Namespace;
use crate::support::{kube_namespace::kubectl, message::Reader};

/// What a node runs: knows every pod, and says two lines of each.
pub struct Kubelet {
    node: String,
    /// The targets of the requests for logs.
    pub seen: Arc<Mutex<Vec<String>>>,
    /// The second line is said once this is true.
    pub second_line: watch::Sender<bool>,
    /// While this is true, containers wait to start.
    pub is_starting: watch::Sender<bool>,
}

/// What a connection to the kubelet needs.
#[derive(Clone)]
struct Node {
    seen: Arc<Mutex<Vec<String>>>,
    second_line: watch::Receiver<bool>,
    is_starting: watch::Receiver<bool>,
}

impl Kubelet {
    pub async fn start(namespace: &Namespace) -> Kubelet {
        let listener = namespace.pods.listen(9, 0);
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("a socket");
        let made =
            rcgen::generate_simple_self_signed([address.ip().to_string()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate and its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let kubelet = Kubelet {
            node: format!("node-{}", namespace.name),
            seen: Arc::default(),
            second_line: watch::Sender::new(false),
            is_starting: watch::Sender::new(false),
        };
        let node = Node {
            seen: kubelet.seen.clone(),
            second_line: kubelet.second_line.subscribe(),
            is_starting: kubelet.is_starting.subscribe(),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, node) = (acceptor.clone(), node.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        node.answer(stream).await;
                    }
                });
            }
        });
        register(&kubelet.node, address).await;
        kubelet
    }

    /// Makes a pod on this node; `label` names its app.
    pub async fn pod(&self, namespace: &Namespace, name: &str, label: Option<&str>) {
        let labels = label.map_or(
            json!({}),
            |label| json!({ "app": "primehub-app", "primehub.io/phapplication": label }),
        );
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
            "spec": { "nodeName": self.node, "containers": [{ "name": "app", "image": "app:1" }] },
        });
        namespace
            .kubectl(&["apply", "-f", "-"], &pod.to_string())
            .await;
    }

    /// The target of the last request for a log.
    pub fn last_seen(&self) -> Option<String> {
        self.seen.lock().expect("no panic").last().cloned()
    }
}

impl Node {
    async fn answer(mut self, stream: impl AsyncRead + AsyncWrite) {
        let (read, mut write) = tokio::io::split(stream);
        let Ok(Some(head)) = Reader::new(read).head().await else {
            return;
        };
        self.seen
            .lock()
            .expect("no panic")
            .push(head.target().to_owned());
        if *self.is_starting.borrow() {
            let why = "container \"app\" in pod \"x\" is waiting to start: ContainerCreating";
            let length = why.len();
            let refused =
                format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {length}\r\n\r\n{why}");
            let _ = write.write_all(refused.as_bytes()).await;
            let _ = write.flush().await;
            return;
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nfirst line\r\n";
        let _ = write.write_all(head.as_bytes()).await;
        let _ = write.flush().await;
        if self.second_line.wait_for(|is_said| *is_said).await.is_ok() {
            let _ = write.write_all(b"C\r\n\nsecond line\r\n0\r\n\r\n").await;
            let _ = write.flush().await;
        }
    }
}

/// Tells the API server where the node's kubelet listens.
async fn register(name: &str, kubelet: SocketAddr) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    kubectl(&["apply", "-f", "-"], &node.to_string()).await;
    let client =
        kube::Client::try_from(kube::Config::infer().await.expect("KUBECONFIG")).expect("a client");
    let kind = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let nodes: Api<kube::api::DynamicObject> = Api::all_with(client, &kind);
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": kubelet.ip().to_string() }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": kubelet.port() } },
    }});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("a status");
}
