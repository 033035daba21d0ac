//! The table "Other apps" of docs/apps.md: which settings each app needs, on a path and on a host.

use super::root;

/// The head of the table.
const HEAD: &str = "| app | settings on a path | settings on a host |\n|---|---|---|\n";

/// One app of the table.
pub struct Row {
    pub app: String,
    /// The ways to serve it on a path; none if that is not supported.
    pub on_path: Vec<AppSettings>,
    /// The ways to serve it on a host of its own.
    pub on_host: Vec<AppSettings>,
}

/// One way to serve an app.
#[derive(Default)]
pub struct AppSettings {
    pub strip_prefix: bool,
    /// Settings of the app itself, as the table has them: arguments, which begin with `--`, or
    /// parts of its program. `<id>` stands for the app's id.
    pub own: Vec<String>,
}

/// The rows of the table, in order.
pub fn rows() -> Vec<Row> {
    let document = std::fs::read_to_string(root().join("docs/apps.md")).expect("a document");
    let (_, table) = document.split_once(HEAD).expect("the table of other apps");
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [app, on_path, on_host] = cells[..] else {
        panic!("a row of three cells: {line}")
    };
    Row {
        app: app.to_owned(),
        on_path: settings(on_path),
        on_host: settings(on_host),
    }
}

/// The alternatives of a cell.
fn settings(cell: &str) -> Vec<AppSettings> {
    match cell {
        "not supported" => Vec::new(),
        "none" => vec![AppSettings::default()],
        _ => cell.split(", or ").map(alternative).collect(),
    }
}

fn alternative(text: &str) -> AppSettings {
    let code: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    assert!(!code.is_empty(), "settings are written as code: {text}");
    let own = code.iter().filter(|code| **code != "strip_prefix");
    AppSettings {
        strip_prefix: code.contains(&"strip_prefix"),
        own: own.map(|code| (*code).to_owned()).collect(),
    }
}
