//! docs/apps-on-kubernetes.md as a reader follows it: each of its commands runs as it is written,
//! with `helm` from `tests/real/kube/bin` and the built `ludgate`. The chart's demo is tested with
//! it.
//!
//! The test does two things differently. It opens pages with a browser of its own. And the cluster
//! has no network, so the test loads images with the names in the document and in the template. The
//! template's image is no MLflow: busybox serves a page on the port and path that `mlflow server`
//! gets as arguments.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::images::{load_ludgate_image, load_mlflow_image};
use crate::support::{
    browser::Browser,
    changes::POD_PATIENCE,
    command_line::finish,
    kube_namespace::{KubeNamespace, application, kubectl},
    process::{program, until_open},
    until::holds_within,
};

/// The image in the document; without `image.tag` its tag is the version.
const IMAGE: &str = "registry.example.com/ludgate";
const MLFLOW: &str = "/apps/mlflow/";
/// Another app, of a template of the demo.
const CREATE_HELLO: &str =
    "ludgate apps create hello --template whoami --group phusers --instance-type small --watch";
/// With it the group would exceed its quota of one core.
const CREATE_THIRD: &str =
    "ludgate apps create third --template chat --group phusers --instance-type medium --watch";

/// How a block of the document is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To its end.
    Run,
    /// Until the end of the test.
    Background,
    /// With the code that alice gets in a browser.
    SignIn,
    /// To its end. Then MLflow can be opened.
    MakeApp,
}

impl Step {
    fn from_block(block: &str) -> Step {
        if block.contains("# keep this running") {
            Step::Background
        } else if block.contains("ludgate apps sign-in") {
            Step::SignIn
        } else if block.contains("ludgate apps create") {
            Step::MakeApp
        } else {
            Step::Run
        }
    }
}

/// A file of the project.
fn shipped(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("a shipped file")
}

/// The `sh` blocks of a document, in order.
fn blocks(document: &str) -> Vec<(Step, &str)> {
    let rest = document.split("\n```sh\n").skip(1);
    rest.map(|rest| {
        let (block, _) = rest.split_once("\n```").expect("the end of the block");
        (Step::from_block(block), block)
    })
    .collect()
}

/// The image of the shipped template, as containerd names it.
fn image_of_template() -> String {
    let template = shipped("config/templates/mlflow-2.yaml");
    let mut images = template
        .lines()
        .filter_map(|line| line.trim().strip_prefix("image: "));
    let image = images.next().expect("an image");
    assert_eq!(images.next(), None, "one container");
    format!("docker.io/{image}")
}

fn browser() -> Browser {
    let gateway = "127.0.0.1:8080".parse().expect("an address");
    Browser::new(gateway, "localhost:8080")
}

/// A reader with a terminal, in a folder that has the project's `config`.
struct Reader {
    folder: TempDir,
    /// The value of `PATH`.
    path: String,
}

impl Reader {
    /// The current namespace of kubectl is the given one.
    async fn new(namespace: &KubeNamespace) -> Reader {
        let folder = tempfile::tempdir().expect("a folder");
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a folder");
        symlink(program(), programs.join("ludgate")).expect("a link");
        symlink(project.join("config"), folder.path().join("config")).expect("a link");
        let reader = Reader {
            path: format!(
                "{}:{}:{}",
                programs.display(),
                project.join("tests/real/kube/bin").display(),
                std::env::var("PATH").expect("a PATH")
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

    fn spawn(&self, script: &str) -> Child {
        let mut shell = self.shell(script);
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        shell.spawn().expect("it starts")
    }

    /// Runs commands that must work, and returns what they print.
    async fn run(&self, script: &str) -> String {
        finish(self.spawn(script), "").await.ok()
    }

    /// Forwards the ports of the demo: the site's and the provider's.
    async fn forward_ports(&self, command: &str) -> Child {
        // Without `exec` only the shell would be killed at the end.
        let mut shell = self.shell(&format!("exec {command}"));
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let child = shell.spawn().expect("it starts");
        for port in [8080, 8081] {
            until_open(("127.0.0.1", port)).await;
        }
        child
    }

    /// Signs alice in: the command asks for the code that she gets in a browser.
    async fn sign_in(&self, command: &str) {
        let signing_in = self.spawn(command);
        let mut browser = browser();
        let start = browser.open("/oidc/auth-flow/request").await;
        let page = browser.sign_in_from(&start, "alice").await;
        finish(signing_in, &page.copied_code()).await.ok();
    }

    /// The API server calls the webhook of the chart at its Service.
    async fn apply_invalid_app(&self) {
        let pod = json!({ "spec": {
            "hostNetwork": true, "containers": [{ "name": "app", "image": "app:1" }],
        } });
        let app = application("invalid", "public", json!({ "podTemplate": pod })).to_string();
        let refused = finish(self.spawn("kubectl apply -f -"), &app).await.error();
        let wanted = "denied the request: podTemplate: not allowed: hostNetwork";
        assert!(refused.contains(wanted), "{refused}");
    }

    /// Makes MLflow as the document does, and an app of the demo meanwhile; opens both.
    async fn make_apps(&self, commands: &str) -> String {
        let (printed, hello) = tokio::join!(self.run(commands), self.run(CREATE_HELLO));
        for printed in [&printed, &hello] {
            assert!(printed.trim_end().ends_with("Ready"), "{printed}");
        }
        let page = opened_by_alice(MLFLOW).await;
        assert_eq!(page, "MLflow at /apps/mlflow\n");
        let page = opened_by_alice("/apps/hello/").await;
        assert!(page.contains("alice"), "{page}");
        let page = browser().sign_in(MLFLOW, "bob").await;
        assert_eq!(page.status(), 403, "bob is not in phusers");
        assert!(page.text().contains("have access"), "{}", page.text());

        let refused = finish(self.spawn(CREATE_THIRD), "").await;
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        let quota = "exceeded cpu quota: 1";
        assert!(refused.stdout.contains(quota), "{}", refused.stdout);
        // It would take the room that MLflow leaves when it is stopped.
        self.run("ludgate apps delete third").await;
        self.apply_invalid_app().await;
        printed
    }
}

/// Signs alice in, and returns the text of an app's page.
async fn opened_by_alice(target: &str) -> String {
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

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_lead_from_an_empty_cluster_to_mlflow() {
    let document = shipped("docs/apps-on-kubernetes.md");
    let blocks = blocks(&document);
    for step in [Step::Background, Step::SignIn, Step::MakeApp] {
        let count = blocks.iter().filter(|(it, _)| *it == step).count();
        assert_eq!(count, 1, "{step:?}");
    }
    let namespace = KubeNamespace::new().await;
    load_ludgate_image(&format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"))).await;
    load_mlflow_image(&image_of_template()).await;
    let reader = Reader::new(&namespace).await;

    let mut background = Vec::new();
    let mut printed = String::new();
    for (step, block) in blocks {
        match step {
            Step::Run => printed += &reader.run(block).await,
            Step::Background => background.push(reader.forward_ports(block).await),
            Step::SignIn => reader.sign_in(block).await,
            Step::MakeApp => printed += &reader.make_apps(block).await,
        }
    }
    for wanted in [
        "Listening at: http://0.0.0.0:5000\n",
        "Stopped\n",
        "mlflow is deleted\n",
        "hub is uninstalled\n",
    ] {
        assert!(printed.contains(wanted), "no {wanted:?} in {printed}");
    }
}
