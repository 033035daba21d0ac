//! docs/apps-on-kubernetes.md as a reader follows it: each of its commands runs as it is written,
//! with `helm` from `tests/real/kube/bin` and the built `ludgate`. The chart's demo is tested with
//! it.
//!
//! The test does two things differently. It opens pages with a browser of its own. And the cluster
//! has no network, so the test loads images with the names in the document and in the template. The
//! template's image is no MLflow: busybox serves a page on the port and path that `mlflow server`
//! gets as arguments.

use serde_json::json;

use super::{
    document_reader::{DocumentReader, blocks, browser, ludgate_image, opened_by_alice, shipped},
    images::{load_ludgate_image, load_mlflow_image},
};
use crate::support::{
    command_line::finish,
    kube_namespace::{KubeNamespace, application},
};

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

impl DocumentReader {
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

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_lead_from_an_empty_cluster_to_mlflow() {
    let document = shipped("docs/apps-on-kubernetes.md");
    let blocks: Vec<_> = blocks(&document, "sh")
        .into_iter()
        .map(|block| (Step::from_block(block), block))
        .collect();
    for step in [Step::Background, Step::SignIn, Step::MakeApp] {
        let count = blocks.iter().filter(|(it, _)| *it == step).count();
        assert_eq!(count, 1, "{step:?}");
    }
    let namespace = KubeNamespace::new().await;
    load_ludgate_image(&ludgate_image()).await;
    load_mlflow_image(&image_of_template()).await;
    let reader = DocumentReader::new(&namespace).await;

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
    for ports in background {
        ports.stop().await;
    }
}
