//! PrimeHub's Python client, unchanged from PyPI, makes an app on a cluster with our controller
//! and API. Every command it has for that is in the transcript, with and without `--json`.

use std::{
    path::Path,
    process::{ExitStatus, Stdio},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use crate::support::{
    api::Api,
    changes::POD_PATIENCE,
    controller::Controlled,
    kube_namespace::KubeNamespace,
    until::{assert_soon, until_async},
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
        let input = match input.is_null() {
            true => String::new(),
            false => input.to_string(),
        };
        let (status, mut entry) = self.output(arguments, &input).await;
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

    /// Runs a command for people, and for programs.
    async fn run_both(&mut self, arguments: &str) {
        self.run(arguments, &Value::Null).await;
        self.run(&format!("{arguments} --json"), &Value::Null).await;
    }

    /// Runs a command, and returns what it printed as JSON.
    async fn json(&self, arguments: &str) -> Value {
        let (_, printed) = self.output(&format!("{arguments} --json"), "").await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Runs a command, and returns what it printed.
    async fn output(&self, arguments: &str, input: &str) -> (ExitStatus, String) {
        let mut child = self.command(arguments).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("an input");
        if !input.is_empty() {
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
        let mut errors = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut errors).await.expect("readable");
        }
        panic!("the output ended before {wanted:?}: {errors}");
    };
    let printed = tokio::time::timeout(POD_PATIENCE, printed).await;
    printed.unwrap_or_else(|_| panic!("no line {wanted:?}"));
}

/// A template that serves its environment and logs a line each second. One greeting it refuses.
fn template() -> Value {
    let script = "[ \"$GREETING\" != none ] || { echo a greeting is needed; exit 1; }; mkdir -p /tmp/www$PRIMEHUB_APP_BASE_URL; env >/tmp/www$PRIMEHUB_APP_BASE_URL/index.html; httpd -p 5000 -h /tmp/www; for n in 1 2 3 4 5 6 7 8 9; do echo line $n; sleep 1; done; sleep 3600";
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

/// A change of the only variable.
fn greeting(value: &str) -> Value {
    json!({ "env": [{ "name": "GREETING", "value": value }] })
}

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
    let group = client.json("groups get phusers").await["id"].clone();
    let group = group.as_str().expect("an id").to_owned();
    for command in [
        "me me",
        "groups list",
        "groups get phusers",
        "groups get nowhere",
        &format!("groups list-users {group}"),
        &format!("groups get-mlflow {group}"),
        "groups get-mlflow nowhere",
        "instancetypes list",
        "instancetypes get gpu-1",
        "images list",
        "volumes list",
        "apptemplates list",
        "apptemplates get web",
        "apptemplates get nope",
        "apps list",
        "apps get nope",
        "info info",
    ] {
        client.run_both(command).await;
    }

    let new = |id: &str, instance_type: &str| {
        json!({
            "templateId": "web",
            "id": id,
            "displayName": "My web",
            "env": [{ "name": "GREETING", "value": "hi" }],
            "instanceType": instance_type,
            "scope": "public",
        })
    };
    client.run("apps create", &new("web-1", "cpu-1")).await;
    // A container that waits to start has an empty log.
    let (status, printed) = client.output("apps logs web-1", "").await;
    assert!(status.success(), "{printed}");
    assert!(!printed.contains("waiting to start"), "{printed}");
    client.run("apps create", &new("web-2", "nope")).await;
    let second = new("web-2", "cpu-1");
    client.run("apps create --json", &second).await;
    controlled.until_phase("web-2", "Ready").await;
    client.run("apps delete web-2 --json", &Value::Null).await;
    controlled.until_phase("web-1", "Ready").await;
    client.run_both("apps list").await;
    client.run_both("apps get web-1").await;

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
    client.run_both("apps logs web-1 --tail 2").await;

    let mut change = greeting("bye");
    change["displayName"] = "Our web".into();
    client.run("apps update web-1", &change).await;
    let changed = client.json("apps get web-1").await;
    assert_eq!(changed["env"], change["env"]);
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
    let message = controlled.until_phase("web-1", "Ready").await;
    assert_eq!(message, "Deployment is ready");

    client
        .run("apps update web-1 --json", &greeting("none"))
        .await;
    // Before that, the message may name the state of the container alone.
    let is_explained = |status: &Value| {
        let message = status["message"].as_str().unwrap_or_default();
        status["phase"] == "Error" && message.contains("a greeting is needed")
    };
    controlled.until("web-1", is_explained).await;
    let failed = client.json("apps get web-1").await;
    assert_eq!(failed["status"], "Error");
    client.run("apps update web-1", &greeting("bye")).await;
    controlled.until_phase("web-1", "Ready").await;

    client.run("apps stop web-1", &Value::Null).await;
    controlled.until_phase("web-1", "Stopped").await;
    assert!(controlled.pods("web-1").await.is_empty());
    client.run_both("apps list").await;
    client.run("apps stop web-1 --json", &Value::Null).await;
    let stopped = client.json("apps list").await;
    assert_eq!(stopped[0]["status"], "Stopped");
    client.run("apps start web-1 --json", &Value::Null).await;
    controlled.until_phase("web-1", "Ready").await;
    client.run("apps start web-1", &Value::Null).await;

    client.run("apps delete web-1", &Value::Null).await;
    let deleted = std::time::Instant::now();
    let is_gone = async || world.exchange(page).await.status() == 404;
    until_async("the deleted app is gone", is_gone).await;
    assert_soon(std::time::Duration::from_secs(1), deleted.elapsed());
    client.run("apps delete web-1", &Value::Null).await;
    insta::assert_snapshot!("python_client", client.transcript);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unchanged_client_gets_a_token_and_lists_more_apps_than_a_page_has() {
    let namespace = KubeNamespace::new().await;
    let ids: Vec<String> = (0..26).map(|at| format!("app-{at:02}")).collect();
    for id in &ids {
        namespace.app(id, "group", json!({ "stop": true })).await;
    }
    let world = namespace.world_with_api().await;
    let site = format!("http://{}", world.host);
    let mut browser = world.browser();
    let start = browser.open("/oidc/auth-flow/request").await;
    let code = browser.sign_in_from(&start, "alice").await.copied_code();

    let client = PythonClient::new(Vec::new()).await;
    let sign_in = format!("config generate-token {site}");
    let (status, printed) = client.output(&sign_in, &format!("{code}\n")).await;
    assert!(status.success(), "{printed}");
    let address = format!("Go to this URL in the browser {site}/oidc/auth-flow/request\n");
    assert!(printed.contains(&address), "{printed}");
    let (status, printed) = client.output(&sign_in, &format!("{code}\n")).await;
    assert!(
        status.success() && printed.contains("Failed to fetch API Token"),
        "a code works once: {printed}"
    );
    let me = client.json("me me").await;
    assert_eq!(me["username"], "alice");

    let (status, printed) = client.output("config set-group phusers", "").await;
    assert!(status.success(), "{printed}");
    let listed = client.json("apps list").await;
    let listed = listed.as_array().expect("a list").iter();
    let listed: Vec<&str> = listed.filter_map(|app| app["id"].as_str()).collect();
    assert_eq!(listed, ids);
    let (_, printed) = client.output("apps list", "").await;
    let count = printed.lines().filter(|it| it.starts_with("id:")).count();
    assert_eq!(count, ids.len(), "{printed}");
}
