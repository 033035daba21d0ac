//! The chart's demo, installed by Helm: gateway, provider, API, controller and an app in real pods.

use std::{path::Path, process::Stdio};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::support::{
    browser::Browser,
    changes::POD_PATIENCE,
    command_line::{Terminal, finish},
    kube_namespace::KubeNamespace,
    process::program,
};

/// What the notes of the chart say: the ports of the site and of the provider.
const PORTS: [&str; 2] = ["8080:8080", "8081:8081"];

/// Runs a script of `tests/real/kube`, and returns its output.
async fn script(name: &str, arguments: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube");
    let command = Command::new(folder.join(name))
        .args(arguments)
        .output()
        .await;
    let output = command.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Loads the program into the cluster, as the image `localhost/ludgate:1`.
pub async fn load_ludgate_image() {
    let program = program();
    script("cluster/ludgate_image.sh", &[&program.to_string_lossy()]).await;
}

async fn install(namespace: &KubeNamespace) {
    load_ludgate_image().await;
    let python = script("helm_library.sh", &[]).await;
    let values = json!({
        "demo": { "enabled": true },
        "image": { "repository": "localhost/ludgate", "tag": "1" },
    });
    let helm = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/helm.py");
    let installed = Command::new(python)
        .arg("-B")
        .arg(helm)
        .args([&namespace.name, "hub", &values.to_string()])
        .output()
        .await
        .expect("it starts");
    let errors = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{errors}");
    for deployment in ["hub-ludgate", "hub-ludgate-controller"] {
        let deployment = format!("deployment/{deployment}");
        let wait = ["rollout", "status", &deployment, "--timeout=120s"];
        namespace.kubectl(&wait, "").await;
    }
}

/// `kubectl port-forward`, as soon as it listens.
async fn port_forward(namespace: &KubeNamespace) -> Child {
    let mut child = Command::new("kubectl")
        .args(["-n", &namespace.name, "port-forward", "--address=127.0.0.1"])
        .arg("deployment/hub-ludgate")
        .args(PORTS)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let lines = child.stdout.take().expect("an output");
    let mut lines = BufReader::new(lines).lines();
    let listening = async {
        for _ in PORTS {
            let line = lines.next_line().await.expect("readable");
            let line = line.expect("it listens");
            assert!(line.starts_with("Forwarding from "), "{line}");
        }
    };
    let listening = tokio::time::timeout(POD_PATIENCE, listening).await;
    listening.expect("it listens");
    // A closed pipe would end it at its next line.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_of_the_chart_runs_an_app_that_a_person_made() {
    let namespace = KubeNamespace::new().await;
    install(&namespace).await;
    let _forward = port_forward(&namespace).await;
    let gateway = "127.0.0.1:8080".parse().expect("an address");
    let browser = || Browser::new(gateway, "localhost:8080");

    let alice = Terminal::new();
    let signing_in = alice.spawn("sign-in http://localhost:8080");
    let mut signed_in = browser();
    let start = signed_in.open("/oidc/auth-flow/request").await;
    let page = signed_in.sign_in_from(&start, "alice").await;
    let printed = finish(signing_in, &page.copied_code()).await;
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let templates = alice.run("templates --json").await.json();
    assert_eq!(templates.as_array().map(Vec::len), Some(2));

    let create = "create hello --template whoami --group phusers --instance-type small --watch";
    let created = alice.run(create).await.ok();
    assert!(created.trim_end().ends_with("Ready"), "{created}");
    let page = browser().sign_in("/apps/hello/", "alice").await;
    assert_eq!(page.status(), 200);
    assert!(page.text().contains("alice"), "{}", page.text());
    let page = browser().sign_in("/apps/hello/", "bob").await;
    assert_eq!(page.status(), 403, "bob is not in phusers");
    // The quota of the group is one core.
    let large = "create large --template chat --group phusers --instance-type large --watch";
    let refused = alice.run(large).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    let quota = "exceeded cpu quota: 1, requesting 2";
    assert!(refused.stdout.contains(quota), "{}", refused.stdout);
}
