//! Charts from an HTTP repository, an OCI registry and a git repository: installed, upgraded,
//! rolled back and uninstalled by real Helm, with pods that serve the page of each version.

use ludgate_installs::release::ReleaseStatus::Deployed;
use serde_json::{Value, json};

use super::site::{InstallSite, WebApp};
use crate::support::git_server::GitServer;

/// The definitions, and the installation of each.
const SOURCES: [&str; 3] = ["http", "oci", "git"];

/// Versions whose charts are the same in each source.
fn versions(source: impl Fn(&str, &str) -> Value) -> Value {
    let version = |version: &str, chart: &str, tag: &str| {
        let source = source(chart, tag);
        json!({ "version": version, "template": { "source": source } })
    };
    json!([
        version("1.0.0", "0.1.0", "v1"),
        version("2.0.0", "0.2.0", "v2")
    ])
}

async fn define(site: &InstallSite, git: &GitServer) {
    site.define_web("http", json!({})).await;
    let oci = versions(|chart, _| {
        json!({ "helm": {
            "url": site.installs.repository.oci_url(), "plainHTTP": true,
            "chartName": "web", "chartVersion": chart,
        } })
    });
    site.installs
        .define("oci", json!({ "versions": oci }))
        .await;
    let git = versions(
        |_, tag| json!({ "git": { "remote": git.remote(), "ref": { "tag": tag }, "path": "web" } }),
    );
    site.installs
        .define("git", json!({ "versions": git }))
        .await;
}

/// An app from its installation to its removal.
async fn live(site: &InstallSite, source: &str) {
    let first = WebApp {
        definition: source,
        version: "1.0.0",
        values: "theme: blue",
        ..WebApp::default()
    };
    let second = WebApp {
        version: "2.0.0",
        values: "theme: green",
        ..first.clone()
    };
    // A person who rolls back asks for the earlier version and its values.
    let steps = [
        (&first, "web 0.1.0, blue"),
        (&second, "web 0.2.0, green"),
        (&first, "web 0.1.0, blue"),
    ];
    for (revision, (app, page)) in (1..).zip(steps) {
        site.install(source, app).await;
        let status = site.installs.until_ready(source).await;
        let release = &status["helmRelease"];
        assert_eq!(release["version"], revision, "{source}: {status}");
        assert_eq!(status["applicationVersion"]["version"], app.version);
        let last = site.revisions(source).await.pop();
        assert_eq!(last, Some((revision, Deployed)), "{source}");
        site.until_page(source, page).await;
    }
    site.installs.delete(source).await;
    site.installs.until_gone(source).await;
    assert!(site.revisions(source).await.is_empty(), "{source}");
    site.until_no_pods(source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_of_all_sources_are_installed_upgraded_rolled_back_and_uninstalled() {
    let (site, git) = tokio::join!(InstallSite::start(), GitServer::start("web"));
    define(&site, &git).await;
    let [http, oci, from_git] = SOURCES;
    tokio::join!(live(&site, http), live(&site, oci), live(&site, from_git));
    let mut commands = site.installs.commands();
    commands.sort();
    // No attempt was repeated.
    let wanted = [["uninstall"; 3].as_slice(), ["upgrade"; 9].as_slice()].concat();
    assert_eq!(commands, wanted);
}
