//! A reader of a document in `docs`, who runs its commands as they are written and opens its pages.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub use crate::support::documents::blocks;
use crate::support::{
    browser::Browser,
    changes::POD_PATIENCE,
    command_line::finish,
    kube_namespace::{KubeNamespace, kubectl},
    process::{program, until_open},
    until::holds_within,
};

/// A file of the project.
pub fn shipped(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("a shipped file")
}

/// A Deployment in the place of another product's controller, whose program is not here.
pub fn stand_in_deployment(name: &str, labels: &Value) -> Value {
    let pod = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{ "name": "manager", "image": "localhost/busybox:1" }],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}

/// The image of Ludgate in the documents; without `image.tag` its tag is the version.
pub fn ludgate_image() -> String {
    format!("registry.example.com/ludgate:{}", env!("CARGO_PKG_VERSION"))
}

/// A new browser, for the site behind forwarded ports.
pub fn browser() -> Browser {
    let gateway = "127.0.0.1:8080".parse().expect("an address");
    Browser::new(gateway, "localhost:8080")
}

/// Signs alice in, and returns the text of a page.
pub async fn opened_by_alice(target: &str) -> String {
    let mut alice = browser();
    let mut page = alice.sign_in(target, "alice").await;
    // Gateway and controller learn of a ready pod at different times.
    let is_open = holds_within(POD_PATIENCE, async || {
        page = alice.open(target).await;
        page.status() == 200
    });
    let is_open = is_open.await;
    assert!(is_open, "{target}: {page:?}");
    page.text()
}

/// The ports of this machine that a command of kubectl forwards.
fn forwarded_ports(command: &str) -> Vec<u16> {
    let pairs = command
        .split_whitespace()
        .filter_map(|word| word.split_once(':'));
    pairs.filter_map(|(own, _)| own.parse().ok()).collect()
}

/// Forwarded ports. Documents have fixed ones, so one test has ports at a time.
pub struct ForwardedPorts {
    child: Child,
    /// Closing it unlocks it.
    _lock: File,
}

impl ForwardedPorts {
    /// Ends the command, so that the ports are free.
    pub async fn stop(mut self) {
        self.child.kill().await.expect("it ends");
    }
}

/// Waits until no other test of this cluster has the ports. Tests are processes of their own.
async fn lock_ports() -> File {
    let cluster = env::var("KUBECONFIG").expect("a KUBECONFIG");
    let file = File::create(format!("{cluster}.ports")).expect("a file");
    let locking = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    locking.await.expect("no panic").expect("locked")
}

/// A reader with a terminal, in a folder that has the project's `config` and `python`.
pub struct DocumentReader {
    folder: TempDir,
    /// The value of `PATH`.
    path: String,
}

impl DocumentReader {
    /// The current namespace of kubectl is the given one.
    pub async fn new(namespace: &KubeNamespace) -> DocumentReader {
        let folder = tempfile::tempdir().expect("a folder");
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a folder");
        symlink(program(), programs.join("ludgate")).expect("a link");
        for part in ["config", "python"] {
            symlink(project.join(part), folder.path().join(part)).expect("a link");
        }
        let reader = DocumentReader {
            path: format!(
                "{}:{}:{}",
                programs.display(),
                project.join("tests/real/kube/bin").display(),
                env::var("PATH").expect("a PATH")
            ),
            folder,
        };
        let admin = ["config", "view", "--raw", "--minify", "-o", "json"];
        let mut config: Value = serde_json::from_str(&kubectl(&admin, "").await).expect("JSON");
        config["contexts"][0]["context"]["namespace"] = namespace.name.as_str().into();
        fs::write(reader.kubeconfig(), config.to_string()).expect("written");
        reader
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-eu", "-c", script])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env_remove("LUDGATE_SITE")
            .env_remove("LUDGATE_TOKEN")
            .kill_on_drop(true);
        shell
    }

    /// Starts commands with pipes.
    pub fn spawn(&self, script: &str) -> Child {
        let mut shell = self.shell(script);
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        shell.spawn().expect("it starts")
    }

    /// Runs commands that must work, and returns what they print.
    pub async fn run(&self, script: &str) -> String {
        finish(self.spawn(script), "").await.ok()
    }

    /// Forwards ports with this command.
    pub async fn forward_ports(&self, command: &str) -> ForwardedPorts {
        let lock = lock_ports().await;
        // Without `exec` only the shell would be killed at the end.
        let mut shell = self.shell(&format!("exec {command}"));
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let child = shell.spawn().expect("it starts");
        for port in forwarded_ports(command) {
            until_open(("127.0.0.1", port)).await;
        }
        ForwardedPorts { child, _lock: lock }
    }
}
