//! The sample programs in tests/real/apps/samples, one for each row of the table "Other apps" of
//! docs/apps.md: their commands, and the scripts that use their pages.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use super::{installed, root};

/// A sample program.
pub struct Sample {
    /// Its row of the table.
    pub row: &'static str,
    /// The id of its app on a path.
    pub id: &'static str,
    /// Its command. `PORT` stands for its port, `SAMPLES` for the folder of the programs. It runs
    /// in an empty folder of its own.
    command: &'static str,
    /// The body of a function that uses the page. It is called again until it returns true: when
    /// the app has answered, and knows the user.
    pub script: &'static str,
    /// The end of the path of the WebSocket or the event stream that brings the answer.
    pub stream: Option<&'static str>,
    /// Requests of the page that fail although the app works.
    pub failing: &'static [&'static str],
}

/// Asks a page with a button "Who am I?", in shadow roots too, until its answer is there. Asked
/// again after some time: a button may be drawn before its script runs.
const ASK: &str = r#"
    const all = (root) => [...root.querySelectorAll("*")].flatMap((element) =>
        element.shadowRoot ? [element, ...all(element.shadowRoot)] : [element]);
    const elements = all(document);
    const texts = elements.flatMap((element) => [...element.childNodes])
        .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data);
    if (texts.join(" ").includes("You are alice")) return true;
    if (!(Date.now() - window.askedAt < 3000)) {
        const button = elements.find((element) =>
            element.localName === "button" && element.innerText.includes("Who am I?"));
        if (button) {
            window.askedAt = Date.now();
            button.click();
        }
    }
    return false;
"#;

/// TensorBoard shows no user. The page has the name of the curve, and has loaded its points.
const CURVE: &str = r#"
    return document.body.innerText.includes("loss") &&
        performance.getEntriesByType("resource").some((entry) =>
            entry.name.endsWith("/timeSeries") && entry.responseStatus === 200);
"#;

/// The editor of Node-RED shows no user, but an endpoint of the flow does. The button of a node
/// sends a message through the flow, which the server shows in the editor's sidebar.
const FLOW: &str = r##"
    const message = document.querySelector(".red-ui-debug-msg");
    if (message?.textContent.includes("a message of the flow"))
        return fetch("answer").then((response) => response.text())
            .then((text) => text === "You are alice");
    const button = document.querySelector("#ask .red-ui-flow-node-button-button");
    if (button && !(Date.now() - window.askedAt < 3000)) {
        window.askedAt = Date.now();
        button.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    }
    return false;
"##;

/// Browsers request a web app manifest without cookies. The gateway refuses that at apps that need
/// a user.
const MANIFEST: &str = "/manifest.json";

/// In the order of the table.
pub static SAMPLES: [Sample; 9] = [
    Sample {
        row: "Streamlit",
        id: "streamlit",
        command: "streamlit run SAMPLES/streamlit_app.py --server.address 127.0.0.1 --server.port PORT \
                  --server.headless true --browser.gatherUsageStats false",
        script: ASK,
        stream: Some("/_stcore/stream"),
        failing: &[],
    },
    Sample {
        row: "Gradio",
        id: "gradio",
        command: "python SAMPLES/gradio_app.py PORT",
        script: ASK,
        stream: Some("/gradio_api/queue/data"),
        // On a path its manifest and its icon are absolute links.
        failing: &[MANIFEST, "/favicon.ico"],
    },
    Sample {
        row: "TensorBoard",
        id: "tensorboard",
        command: "python SAMPLES/tensorboard_app.py --port PORT",
        script: CURVE,
        stream: None,
        // On a path its fonts are absolute links, also with `--path_prefix`.
        failing: &["/font-roboto/"],
    },
    Sample {
        row: "Node-RED",
        id: "node-red",
        command: "node-red --userDir . --port PORT -D uiHost=127.0.0.1 -D telemetry.enabled=false \
                  -D editorTheme.tours=false -D editorTheme.palette.editable=false \
                  SAMPLES/node_red_flow.json",
        script: FLOW,
        stream: Some("/comms"),
        failing: &[],
    },
    Sample {
        row: "Dash",
        id: "dash",
        command: "python SAMPLES/dash_app.py PORT",
        script: ASK,
        stream: None,
        failing: &[],
    },
    Sample {
        row: "Panel, Bokeh",
        id: "panel",
        command: "panel serve SAMPLES/panel_app.py --address 127.0.0.1 --port PORT",
        script: ASK,
        stream: Some("/panel_app/ws"),
        failing: &[],
    },
    Sample {
        row: "marimo",
        id: "marimo",
        command: "marimo run SAMPLES/marimo_app.py --headless --host 127.0.0.1 --port PORT",
        script: ASK,
        stream: Some("/ws"),
        failing: &[MANIFEST],
    },
    Sample {
        row: "Flask",
        id: "flask",
        command: "python SAMPLES/flask_app.py PORT",
        script: ASK,
        stream: None,
        failing: &[],
    },
    Sample {
        row: "any other app with absolute links and no base path setting",
        id: "express",
        command: "node SAMPLES/express_app.cjs PORT",
        script: ASK,
        stream: None,
        failing: &[],
    },
];

impl Sample {
    /// The command that starts it with these settings of its own, in an empty folder. Panics if its
    /// program does not have the settings that are code.
    pub fn to_command(&self, own: &[String], id: &str, port: u16, folder: &Path) -> Command {
        let samples = root().join("tests/real/apps/samples");
        let port = port.to_string();
        let samples_text = samples.to_str().expect("UTF-8");
        let placed = |word: &str| word.replace("SAMPLES", samples_text).replace("PORT", &port);
        let mut words: Vec<String> = self.command.split_whitespace().map(placed).collect();
        let own: Vec<String> = own.iter().map(|text| text.replace("<id>", id)).collect();
        let (arguments, code): (Vec<&String>, Vec<&String>) =
            own.iter().partition(|text| text.starts_with("--"));
        if !code.is_empty() {
            let program = std::fs::read_to_string(&words[1]).expect("a program");
            for text in code {
                assert!(program.contains(text.as_str()), "{}: {text}", words[1]);
            }
            words.push("path".to_owned());
        }
        for text in arguments {
            words.extend(text.split_whitespace().map(str::to_owned));
        }
        let node_modules = installed().join("samples-npm/node_modules");
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(folder)
            .env("HOME", folder)
            .env("PATH", search_path(&node_modules))
            .env("NODE_PATH", node_modules)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// The installed programs before those of the system.
fn search_path(node_modules: &Path) -> OsString {
    let own = [
        installed().join("samples-venv/bin"),
        node_modules.join(".bin"),
    ];
    let system = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(std::env::split_paths(&system));
    std::env::join_paths(folders.collect::<Vec<PathBuf>>()).expect("no separator in a path")
}
