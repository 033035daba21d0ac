//! Whole imports: what is written is a valid configuration, and admits no one more.

mod documents;
mod headers;
mod tables;

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{ImportOutcome, ImportSource, Imported, import_oauth2_proxy};
use crate::settings::{self, ConfigErrors, Settings};

/// Options that nearly all inputs have.
const BASE: &str = r#"
provider = "oidc"
oidc_issuer_url = "https://id.example.com"
client_id = "web"
redirect_url = "https://hub.example.com/oauth2/callback"
email_domains = ["example.com"]
upstreams = ["http://127.0.0.1:3000/"]
"#;
/// A secret that must be nowhere.
const CANARY: &str = "CANARY-5f3a";

/// An input of one file.
fn source(name: &str, text: &str) -> ImportSource {
    ImportSource {
        name: name.to_owned(),
        content: text.as_bytes().to_vec(),
    }
}

/// Imports one file, without a file of addresses.
fn import(text: &str) -> Imported {
    import_oauth2_proxy(&[source("proxy.cfg", text)], |_| None)
        .unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Imports options on top of [`BASE`], of which those with the same name are left out.
fn import_with(options: &str) -> Imported {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let given: Vec<String> = options.lines().map(key).collect();
    let base = BASE.lines().filter(|line| !given.contains(&key(line)));
    let base: Vec<&str> = base.collect();
    import(&format!("{options}\n{}", base.join("\n")))
}

/// What became of an option, by its lines.
fn outcomes(imported: &Imported, option: &str) -> Vec<ImportOutcome> {
    let lines = imported.report.lines.iter();
    let lines = lines.filter(|line| line.option == option);
    lines.map(|line| line.outcome).collect()
}

/// A folder with the files that a written configuration may name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, content) in [
        ("client-secret", "s3cr3t"),
        ("session-store", "redis://:p@127.0.0.1:6379"),
        (
            "session-keys",
            "g7hTA+zxc+zxpZyCk+ypr97jkh4o+RmyRvAE6qEfHto=",
        ),
    ] {
        fs::write(folder.path().join(file), content).expect("written");
    }
    folder
}

/// The settings of a written file, as `ludgate config check` reads them.
fn parse(file: &str, folder: &Path) -> Result<Settings, ConfigErrors> {
    settings::parse(file, folder, std::iter::empty())
}

/// The same; a mistake fails the test.
fn settings_of(imported: &Imported) -> Settings {
    let folder = folder();
    let file = &imported.file;
    parse(file, folder.path()).unwrap_or_else(|errors| panic!("{errors}\n{file}"))
}

/// The access rules of an app and of its paths.
fn rules(settings: &Settings, app: usize) -> Vec<String> {
    let app = &settings.apps[app];
    let paths = app.paths.iter().map(|(_, rule)| {
        let methods: Vec<&str> = rule.methods().iter().map(http::Method::as_str).collect();
        format!("{}{} {}", methods.join(","), rule.prefix(), rule.access())
    });
    std::iter::once(app.access.to_string())
        .chain(paths)
        .collect()
}
