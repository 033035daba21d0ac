//! A second cluster: an API server of its own, beside the one of the test.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{changes::POD_PATIENCE, kube_namespace::kubectl};

/// The API server, with the rights of an administrator. It ends with the test.
pub struct EdgeCluster {
    pub client: Client,
    pub kubeconfig: PathBuf,
    _server: Server,
}

/// The script that started the server. On SIGTERM, it stops the server.
struct Server(Child);

impl EdgeCluster {
    /// Starts it, and waits until it answers.
    pub async fn start() -> EdgeCluster {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/run.sh");
        let child = Command::new(script)
            .args(["sh", "-c", "echo \"$KUBECONFIG\" && exec sleep infinity"])
            // With it, the script would use the cluster of the test.
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut server = Server(child.expect("it starts"));
        let output = server.0.stdout.take().expect("an output");
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            let read = BufReader::new(output).read_line(&mut line);
            read.map(|_| line)
        });
        let line = timeout(POD_PATIENCE, reading).await;
        let line = line.expect("the server starts").expect("no panic");
        let line = line.expect("readable");
        assert!(!line.is_empty(), "the server does not start");
        let kubeconfig = PathBuf::from(line.trim());
        grant_admin(&kubeconfig).await;
        EdgeCluster {
            client: client(&kubeconfig).await,
            kubeconfig,
            _server: server,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}

/// Gives the ClusterRole `admin` rights, which no controller of aggregation does on this server.
async fn grant_admin(kubeconfig: &Path) {
    let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
    let patch = json!({ "rules": [all] }).to_string();
    let option = format!("--kubeconfig={}", kubeconfig.display());
    let arguments = [
        option.as_str(),
        "patch",
        "clusterrole",
        "admin",
        "--type=merge",
        "-p",
        &patch,
    ];
    kubectl(&arguments, "").await;
}
