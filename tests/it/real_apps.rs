//! JupyterLab, MLflow, Next.js and the other apps of docs/apps.md in a real browser, at a path and
//! on a host, configured as docs/apps.md and the README say; Envoy in front of an app. On its own
//! (`make test-apps`), since the programs are large: tests/real/apps/install.sh puts them there.

mod envoy;
mod other_apps;
mod samples;
mod settings_table;

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::Value;

use crate::support::{
    chromium::Chromium,
    process::{Running, gateway},
    world::{SECRET, client, free_port},
};

/// An app of this size starts slowly beside others.
const START: Duration = Duration::from_secs(180);

fn installed() -> PathBuf {
    let folder = std::env::var_os("LUDGATE_APPS").expect("LUDGATE_APPS: make test-apps sets it");
    PathBuf::from(folder)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The code of a document that begins so, up to its end.
fn code(document: &str, beginning: &str) -> String {
    let text = std::fs::read_to_string(root().join(document)).expect("a document");
    let from = text
        .find(beginning)
        .unwrap_or_else(|| panic!("{document} has no {beginning:?}"));
    text[from..].split("```").next().expect("code").to_owned()
}

/// An app's server with every process that it started.
struct Server(Running);

impl Drop for Server {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Starts a server and waits until it listens.
async fn server(mut command: Command, port: u16) -> Server {
    let log = std::env::temp_dir().join(format!("ludgate-app-{port}.log"));
    let file = std::fs::File::create(&log).expect("a file");
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a file"))
        .stderr(file);
    // Some start workers of their own, which end with it.
    command.process_group(0);
    let mut server = Server(Running(command.spawn().expect("the app runs")));
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            if let Ok(Some(status)) = server.0.0.try_wait() {
                panic!(
                    "{status}: {}",
                    std::fs::read_to_string(&log).unwrap_or_default()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(START, listening).await;
    waited.unwrap_or_else(|_| {
        panic!(
            "not in time: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        )
    });
    server
}

async fn jupyter(folder: &Path, port: u16, more: &[&str]) -> Server {
    let mut command = Command::new(installed().join("venv/bin/jupyter"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .args(["lab", "--no-browser", "--allow-root"])
        .arg(format!("--ServerApp.port={port}"))
        .args(more);
    server(command, port).await
}

async fn mlflow(folder: &Path, port: u16, more: &[&str]) -> Server {
    let mut command = Command::new(installed().join("venv/bin/mlflow"));
    command
        .current_dir(folder)
        .args(["server", "--port", &port.to_string(), "--workers", "1"])
        .args(more);
    server(command, port).await
}

/// `base` is read again at the start, and must be what it was built with.
async fn next(which: &str, base: &str, port: u16) -> Server {
    let mut command = Command::new("node");
    command
        .current_dir(installed().join(which))
        .args([
            "node_modules/next/dist/bin/next",
            "start",
            "-H",
            "127.0.0.1",
            "-p",
            &port.to_string(),
        ])
        .envs([("NEXT_TELEMETRY_DISABLED", "1"), ("BASE_PATH", base)]);
    server(command, port).await
}

/// A gateway with these apps, and a browser.
struct House {
    port: u16,
    browser: Chromium,
    provider: DemoProvider,
    _gateway: Running,
    folder: tempfile::TempDir,
}

impl House {
    async fn new(apps: impl FnOnce() -> String) -> House {
        let port = free_port();
        let host = format!("hub.localhost:{port}");
        let provider = DemoProvider::start(client(&host), Clock::system())
            .await
            .expect("a provider");
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [site]\nurl = \"http://{host}\"\napps_domain = \"localhost\"\n\
             [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n{}",
            provider.issuer(),
            apps()
        );
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = gateway(folder.path(), &text, port).await;
        let browser = Chromium::start("").await;
        House {
            port,
            browser,
            provider,
            _gateway: gateway,
            folder,
        }
    }

    fn path(&self, id: &str, rest: &str) -> String {
        format!("http://hub.localhost:{}/apps/{id}{rest}", self.port)
    }

    fn host(&self, id: &str, rest: &str) -> String {
        format!("http://{id}.localhost:{}{rest}", self.port)
    }

    /// Opens an address, signing in as alice where that is asked for.
    async fn open(&self, url: &str) {
        let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        self.browser.open(url).await;
        self.browser
            .wait_for_url(|now| {
                now.starts_with(&origin) && !now.contains("/oauth2/")
                    || now.starts_with(self.provider.issuer())
            })
            .await;
        if self.browser.url().await.starts_with(self.provider.issuer()) {
            self.browser.click("a[href*=\"login_as=alice\"]").await;
            self.browser
                .wait_for_url(|now| now.starts_with(&origin) && !now.contains("/oauth2/"))
                .await;
        }
    }

    /// Waits until a script in the page says yes.
    async fn until(&self, what: &str, script: &str) {
        if !self.becomes_true(script).await {
            panic!(
                "{what}: {}\n{}",
                self.browser.url().await,
                self.browser.source().await
            );
        }
    }

    /// Whether a script in the page says yes in time.
    async fn becomes_true(&self, script: &str) -> bool {
        let reached = async {
            while self.browser.run(script).await != Value::Bool(true) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), reached).await;
        waited.is_ok()
    }
}

/// Starts a kernel and has it compute something, as a notebook does: by a POST and a WebSocket.
fn cell(base: &str) -> String {
    format!(
        r#"
        const xsrf = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? "";
        const made = await fetch("{base}api/kernels", {{ method: "POST", headers: {{ "X-XSRFToken": xsrf }}, body: "{{}}" }});
        if (made.status !== 201) return `kernel: ${{made.status}} ${{await made.text()}}`;
        const {{ id }} = await made.json();
        const socket = new WebSocket(location.origin.replace("http", "ws") + `{base}api/kernels/${{id}}/channels`);
        return await new Promise((done) => {{
            const header = {{ msg_id: "1", msg_type: "execute_request", username: "", session: "s", version: "5.3" }};
            const content = {{ code: "6*7", silent: false, store_history: true, user_expressions: {{}}, allow_stdin: false }};
            socket.onopen = () => socket.send(JSON.stringify({{ header, parent_header: {{}}, metadata: {{}}, content, channel: "shell" }}));
            socket.onerror = () => done("the WebSocket was refused");
            socket.onmessage = (event) => {{
                const message = JSON.parse(event.data);
                if (message.header.msg_type === "execute_result") done(message.content.data["text/plain"]);
            }};
        }});
        "#
    )
}

async fn computes(house: &House, base: &str) {
    house
        .until(
            "JupyterLab is drawn",
            "return document.querySelector('#jp-main-dock-panel') !== null",
        )
        .await;
    let script = format!("return (async () => {{ {} }})()", cell(base));
    assert_eq!(house.browser.run(&script).await, "42", "{base}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jupyterlab_runs_a_cell_at_a_path_on_a_host_and_with_its_own_name() {
    let (folder, ports) = (
        tempfile::tempdir().expect("a folder"),
        [(); 3].map(|()| free_port()),
    );
    let said = code("docs/apps.md", "jupyter lab");
    let said: Vec<&str> = said.split_whitespace().skip(2).collect();
    let [base, remote, token] = said[..] else {
        panic!("{said:?}")
    };
    let (at_path, on_host, own_name) = ([base, remote, token], [remote, token], [token]);
    let _servers = tokio::join!(
        jupyter(folder.path(), ports[0], &at_path),
        jupyter(folder.path(), ports[1], &on_host),
        jupyter(folder.path(), ports[2], &own_name),
    );
    let table = code("docs/apps.md", "[[apps]]\nid = \"lab\"");
    let house = House::new(|| {
        let at = |port: u16| table.replace("127.0.0.1:8888", &format!("127.0.0.1:{port}"));
        let named = |id: &str| format!("id = \"{id}\"");
        let on_host = at(ports[1]).replace("id = \"lab\"", &named("lab-h"));
        let own_name =
            at(ports[2]).replace("id = \"lab\"", &named("lab-own")) + "rewrite_host = true\n";
        format!("{}{on_host}{own_name}", at(ports[0]))
    })
    .await;
    house.open(&house.path("lab", "/lab")).await;
    computes(&house, "/apps/lab/").await;
    for id in ["lab-h", "lab-own"] {
        house.open(&house.host(id, "/lab")).await;
        computes(&house, "/").await;
    }
    // Without its base path the app answers 404, and there is no redirect loop.
    house.open(&house.path("lab-h", "/")).await;
    house
        .until(
            "no circle of redirects",
            "return document.body.innerText.includes('404')",
        )
        .await;
}

/// Opens the page and makes an experiment, as its button does.
async fn tracks(house: &House, url: &str, base: &str) {
    house.open(url).await;
    house
        .until(
            "MLflow is drawn",
            "return document.querySelector('#root')?.childElementCount > 0",
        )
        .await;
    let script = format!(
        "return (async () => {{ const made = await fetch('{base}ajax-api/2.0/mlflow/experiments/create', \
         {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }}, body: JSON.stringify({{ name: location.href }}) }}); \
         return made.status + ' ' + Object.keys(await made.json()) }})()"
    );
    assert_eq!(
        house.browser.run(&script).await,
        "200 experiment_id",
        "{url}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mlflow_as_the_readme_has_it_shows_and_takes_experiments() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let ports = [(); 2].map(|()| free_port());
    let first = code("README.md", "[[apps]]\nid = \"mlflow\"").replace("group:phusers", "user");
    let documented = code("docs/apps.md", "[[apps]]\nid = \"mlflow\"");
    let house = House::new(|| {
        let at =
            |table: &str, port: u16| table.replace("127.0.0.1:5000", &format!("127.0.0.1:{port}"));
        let third = documented
            .replace("\"mlflow\"", "\"named\"")
            .replace("rewrite_host = true\n", "");
        format!("{}{}", at(&first, ports[0]), at(&third, ports[1]))
    })
    .await;
    let hosts = format!("hub.localhost:{0},named.localhost:{0}", house.port);
    let origins = format!(
        "http://hub.localhost:{0},http://named.localhost:{0}",
        house.port
    );
    let names = [
        "--allowed-hosts",
        &hosts,
        "--cors-allowed-origins",
        &origins,
    ];
    let _servers = tokio::join!(
        mlflow(folders[0].path(), ports[0], &[]),
        mlflow(folders[1].path(), ports[1], &names),
    );
    for id in ["mlflow", "named"] {
        tracks(&house, &house.path(id, "/"), &format!("/apps/{id}/")).await;
        tracks(&house, &house.host(id, "/"), "/").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nextjs_with_a_base_path_is_in_no_circle_and_runs_its_scripts() {
    let ports = [free_port(), free_port()];
    let _servers = tokio::join!(
        next("next-path", "/apps/nx", ports[0]),
        next("next-host", "", ports[1])
    );
    let table = code("docs/apps.md", "[[apps]]\nid = \"nx\"");
    let house = House::new(|| {
        let at = |port: u16| table.replace("127.0.0.1:3000", &format!("127.0.0.1:{port}"));
        format!(
            "{}{}",
            at(ports[0]),
            at(ports[1]).replace("\"nx\"", "\"nx-h\"")
        )
    })
    .await;
    // As people write it, with and without the slash, in both orders.
    for url in [
        house.path("nx", ""),
        house.path("nx", "/"),
        house.path("nx", ""),
        house.path("nx", "?a=b"),
        house.host("nx-h", "/"),
    ] {
        house.open(&url).await;
        let clicked = "const button = document.querySelector('button'); button?.click(); \
                       return /clicked [1-9]/.test(button?.innerText ?? '')";
        house.until("a click counts", clicked).await;
    }
}

/// What axe-core calls serious or critical on the page as it is, each with where it is.
async fn serious(browser: &Chromium) -> Value {
    let axe = installed().join("next-path/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("axe-core is installed");
    let script = format!(
        "{axe}; return axe.run().then((found) => found.violations \
         .filter((one) => ['serious', 'critical'].includes(one.impact)) \
         .map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' ')))"
    );
    browser.run(&script).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_ours_has_a_serious_accessibility_problem() {
    let house = House::new(|| {
        let app = |id: &str, access: &str| {
            format!("[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://127.0.0.1:1\"\n")
        };
        [app("dead", "user"), app("open", "public"), app("others", "group:empty")].concat()
    })
    .await;
    let none = Value::Array(Vec::new());
    let site = |target: &str| format!("http://hub.localhost:{}{target}", house.port);
    house.browser.open(&site("/apps/")).await;
    assert_eq!(
        serious(&house.browser).await,
        none,
        "the launcher for a visitor"
    );
    house.browser.open(&site("/oauth2/sign_in")).await;
    assert_eq!(
        serious(&house.browser).await,
        none,
        "the page that offers to sign in"
    );
    // Signed in, an app that is away; then a refusal, the launcher with apps of others, and the way
    // out.
    house.open(&house.path("dead", "/")).await;
    assert!(
        house.browser.source().await.contains("502 "),
        "{}",
        house.browser.source().await
    );
    assert_eq!(serious(&house.browser).await, none, "an app that is away");
    for (what, target) in [
        ("a refusal", "/apps/others/"),
        ("nothing there", "/apps/none/"),
        ("the launcher", "/apps/"),
        ("the way out", "/oauth2/sign_out"),
    ] {
        house.browser.open(&site(target)).await;
        assert_eq!(serious(&house.browser).await, none, "{what}");
    }
}
