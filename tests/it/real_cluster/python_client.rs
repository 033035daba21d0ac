//! PrimeHub's Python client, unchanged from PyPI, makes an app on a cluster with our controller
//! and API. Every command it has for that is in the transcript.

use std::{
    path::Path,
    process::{ExitStatus, Stdio},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use crate::support::{
    api::Api,
    changes::POD_PATIENCE,
    controller::Controlled,
    message::PATIENCE,
    world::{World, free_port},
};

/// The program with its configuration in a folder of its own.
struct PythonClient {
    program: String,
    home: tempfile::TempDir,
    /// Commands with what they printed.
    transcript: String,
    /// Texts that differ from run to run, and what stands for them.
    replacements: Vec<(String, &'static str)>,
}

impl PythonClient {
    async fn new(replacements: Vec<(String, &'static str)>) -> PythonClient {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/python_client/install.sh");
        let installed = Command::new(script).output().await.expect("a shell");
        let program = String::from_utf8(installed.stdout).expect("a path");
        PythonClient {
            program: program.trim().to_owned(),
            home: tempfile::tempdir().expect("a folder"),
            transcript: String::new(),
            replacements,
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments.split(' '))
            .env("HOME", self.home.path())
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command, and adds it to the transcript.
    async fn run(&mut self, arguments: &str, input: &Value) {
        let (status, mut entry) = self.output(arguments, input).await;
        if !status.success() {
            entry += &format!("[{status}]\n");
        }
        entry = format!("$ primehub {arguments}\n{entry}");
        for (text, placeholder) in &self.replacements {
            entry = entry.replace(text, placeholder);
        }
        let lines: Vec<String> = entry.lines().map(without_what_differs).collect();
        self.transcript += &format!("{}\n\n", lines.join("\n"));
    }

    /// Runs a command, and returns what it printed as JSON.
    async fn json(&self, arguments: &str) -> Value {
        let (_, printed) = self
            .output(&format!("{arguments} --json"), &Value::Null)
            .await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Runs a command, and returns what it printed.
    async fn output(&self, arguments: &str, input: &Value) -> (ExitStatus, String) {
        let mut child = self.command(arguments).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("an input");
        if !input.is_null() {
            let input = input.to_string();
            stdin.write_all(input.as_bytes()).await.expect("written");
        }
        drop(stdin);
        let output = child.wait_with_output().await.expect("it ran");
        let printed = [output.stdout, output.stderr].concat();
        (
            output.status,
            String::from_utf8_lossy(&printed).into_owned(),
        )
    }
}

/// A line of the transcript without the time of a warning, the names of pods and their number, and
/// spaces at the end.
fn without_what_differs(line: &str) -> String {
    let line = match line.split_once(" - cmd-config - ") {
        Some((_, warning)) => warning,
        None => line,
    };
    let pods = line
        .find("\"pods\": [")
        .or_else(|| line.starts_with("pods:").then_some(0));
    let line = match pods.and_then(|at| Some((at, at + line[at..].find(']')?))) {
        Some((at, end)) => {
            let name = line[at..].split('[').next().unwrap_or_default();
            format!("{}{name}[PODS{}", &line[..at], &line[end..])
        }
        None => line.to_owned(),
    };
    line.trim_end().to_owned()
}

impl Controlled {
    /// An API beside the controller, with a template `web`, and the URL of its site.
    pub async fn api(&self) -> (Api, String) {
        let namespace = &self.namespace;
        namespace
            .kubectl(&["apply", "-f", "-"], &template().to_string())
            .await;
        namespace.grant("api.yaml").await;
        let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
        let site = format!("http://127.0.0.1:{}", free_port());
        let api = Api::with(&namespace.name, &kubeconfig, &site, PLATFORM).await;
        (api, site)
    }
}

/// Waits until a command prints a line.
pub async fn until_line(child: &mut Child, wanted: &str) {
    let lines = child.stdout.take().expect("an output");
    let mut lines = BufReader::new(lines).lines();
    let printed = async {
        while let Some(line) = lines.next_line().await.expect("readable") {
            if line == wanted {
                return;
            }
        }
        panic!("the output ended");
    };
    let printed = tokio::time::timeout(PATIENCE, printed).await;
    printed.unwrap_or_else(|_| panic!("no line {wanted:?}"));
}

/// A template that serves its environment and logs a line each second.
fn template() -> Value {
    let script = "mkdir -p /tmp/www$PRIMEHUB_APP_BASE_URL; env >/tmp/www$PRIMEHUB_APP_BASE_URL/index.html; httpd -p 5000 -h /tmp/www; for n in 1 2 3 4 5 6 7 8 9; do echo line $n; sleep 1; done; sleep 3600";
    let container = json!({
        "name": "app",
        "image": "localhost/busybox:1",
        "command": ["sh", "-c", script],
        "ports": [{ "name": "http", "containerPort": 5000 }],
        "readinessProbe": { "tcpSocket": { "port": 5000 }, "periodSeconds": 1 },
    });
    json!({
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhAppTemplate",
        "metadata": { "name": "web" },
        "spec": {
            "name": "Web",
            "version": "v1",
            "description": "Shows its environment.",
            "docLink": "https://example.com/web",
            "icon": "data:image/png;base64,AAAA",
            "defaultEnvs": [{ "name": "GREETING", "defaultValue": "hello", "optional": true }],
            "template": { "spec": {
                "podTemplate": { "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                } },
                "svcTemplate": { "spec": { "ports": [{ "name": "http", "port": 5000, "targetPort": "http" }] } },
                "httpPort": 5000,
            } },
        },
    })
}

pub const PLATFORM: &str = "[groups.phusers]\ndisplay_name = \"PrimeHub users\"\nquota = { cpu = 2, memory = \"8GiB\" }\n\
     instance_types = [\"gpu-1\"]\n[groups.friends]\n\
     [instance_types.cpu-1]\ncpu = 0.1\nmemory = \"64MiB\"\n\
     [instance_types.gpu-1]\ncpu = 1\nmemory = \"2GiB\"\ngpu = 1\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_unchanged_client_makes_an_app_and_reads_its_log() {
    let controlled = Controlled::with(PLATFORM).await;
    let namespace = &controlled.namespace;
    let (api, site) = controlled.api().await;
    let token = api.provider.access_token("alice");
    let mut client = PythonClient::new(vec![
        (token.clone(), "TOKEN"),
        (site.clone(), "https://hub.example.com"),
    ])
    .await;

    client
        .run(
            &format!("config set-endpoint {site}/api/graphql"),
            &Value::Null,
        )
        .await;
    client
        .run(&format!("config set-token {token}"), &Value::Null)
        .await;
    client.run("config set-group nowhere", &Value::Null).await;
    client.run("config set-group phusers", &Value::Null).await;
    for command in [
        "me me",
        "me me --json",
        "groups list",
        "groups get phusers --json",
        "instancetypes list",
        "instancetypes get gpu-1 --json",
        "apptemplates list",
        "apptemplates get web --json",
        "apptemplates get nope",
        "apps list",
        "apps get nope",
    ] {
        client.run(command, &Value::Null).await;
    }

    let new = json!({
        "templateId": "web",
        "id": "web-1",
        "displayName": "My web",
        "env": [{ "name": "GREETING", "value": "hi" }],
        "instanceType": "cpu-1",
        "scope": "public",
    });
    client.run("apps create", &new).await;
    let mut wrong = new.clone();
    wrong["id"] = "web-2".into();
    wrong["instanceType"] = "nope".into();
    client.run("apps create", &wrong).await;
    controlled.until_phase("web-1", "Ready").await;
    client.run("apps list", &Value::Null).await;
    client.run("apps list --json", &Value::Null).await;
    client.run("apps get web-1", &Value::Null).await;
    client.run("apps get web-1 --json", &Value::Null).await;

    let world = World::with(&namespace.toml(), |_| {}).await.ready().await;
    world.until_running("web-1").await;
    let page = "GET /apps/web-1/ HTTP/1.1\r\nHost: HOST\r\n\r\n";
    let shown = world.exchange(page).await.text();
    assert!(shown.contains("GREETING=hi\n"), "{shown}");

    let mut follow = client
        .command("apps logs web-1 --follow --tail 1000")
        .spawn()
        .expect("it starts");
    until_line(&mut follow, "line 9").await;
    follow.kill().await.expect("it ends");
    client.run("apps logs web-1 --tail 2", &Value::Null).await;

    let change =
        json!({ "env": [{ "name": "GREETING", "value": "bye" }], "displayName": "Our web" });
    client.run("apps update web-1", &change).await;
    let changed = client.json("apps get web-1").await;
    let wanted = json!([{ "name": "GREETING", "value": "bye" }]);
    assert_eq!(changed["env"], wanted);
    let shown = async {
        loop {
            let shown = world.exchange(page).await;
            if shown.text().contains("GREETING=bye\n") {
                return;
            }
        }
    };
    tokio::time::timeout(POD_PATIENCE, shown)
        .await
        .expect("the changed variable");

    client.run("apps stop web-1", &Value::Null).await;
    controlled.until_phase("web-1", "Stopped").await;
    assert!(controlled.pods("web-1").await.is_empty());
    client.run("apps get web-1 --json", &Value::Null).await;
    client.run("apps start web-1 --json", &Value::Null).await;
    controlled.until_phase("web-1", "Ready").await;

    client.run("apps delete web-1", &Value::Null).await;
    let gone = async { while world.exchange(page).await.status() != 404 {} };
    let second = std::time::Duration::from_secs(1);
    tokio::time::timeout(second, gone)
        .await
        .expect("no such app a second after it was deleted");
    client.run("apps delete web-1", &Value::Null).await;
    insta::assert_snapshot!("python_client", client.transcript);
}
