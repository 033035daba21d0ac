//! Each row of the table "Other apps" of docs/apps.md, in one gateway and one browser: the app
//! works with the settings of its row, on a path and on a host.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{
    House, Server,
    samples::{SAMPLES, Sample},
    server,
    settings_table::{AppSettings, Row, rows},
};
use crate::support::{message::PATIENCE, until::holds_within, world::free_port};

/// What an app gets on a path if its row says that this is not supported.
static STRIPPED: AppSettings = AppSettings {
    strip_prefix: true,
    own: Vec::new(),
};

/// One way to serve an app.
struct Place<'a> {
    sample: &'static Sample,
    settings: &'a AppSettings,
    id: String,
    port: u16,
    on_host: bool,
    /// Whether the table says that the app works here.
    supported: bool,
}

/// All ways of all rows. Those with the same settings of the app itself share its process.
fn places(rows: &[Row]) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for (row, sample) in rows.iter().zip(&SAMPLES) {
        let supported = !row.on_path.is_empty();
        let unsupported = (!supported).then_some(&STRIPPED);
        let on_path = row.on_path.iter().chain(unsupported).enumerate();
        let on_path = on_path.map(|(number, settings)| match number {
            0 => (sample.id.to_owned(), settings, false),
            _ => (format!("{}-{}", sample.id, number + 1), settings, false),
        });
        assert_eq!(row.on_host.len(), 1, "{}: one way on a host", row.app);
        let on_host = row.on_host.iter();
        let on_host = on_host.map(|settings| (format!("{}-h", sample.id), settings, true));
        for (id, settings, on_host) in on_path.chain(on_host) {
            let shared = places
                .iter()
                .find(|other| other.sample.id == sample.id && other.settings.own == settings.own);
            let port = shared.map_or_else(free_port, |other| other.port);
            places.push(Place {
                sample,
                settings,
                id,
                port,
                on_host,
                supported: on_host || supported,
            });
        }
    }
    places
}

/// Starts the programs, all at once.
async fn start(places: &[Place<'_>]) -> Vec<(Server, TempDir)> {
    let mut starting = JoinSet::new();
    for (number, place) in places.iter().enumerate() {
        if places[..number]
            .iter()
            .any(|other| other.port == place.port)
        {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let own = &place.settings.own;
        let port = place.port;
        let command = place.sample.to_command(own, &place.id, port, folder.path());
        starting.spawn(async move { (server(command, port).await, folder) });
    }
    starting.join_all().await
}

impl Place<'_> {
    fn table(&self) -> String {
        let strip_prefix = if self.settings.strip_prefix {
            "strip_prefix = true\n"
        } else {
            ""
        };
        format!(
            "[[apps]]\nid = \"{}\"\naccess = \"user\"\nupstream = \"http://127.0.0.1:{}\"\n{strip_prefix}",
            self.id, self.port
        )
    }

    async fn open(&self, house: &House) {
        let url = if self.on_host {
            house.host(&self.id, "/")
        } else {
            house.path(&self.id, "/")
        };
        house.open(&url).await;
    }

    /// Uses the page, and returns what is wrong with it.
    async fn problems(&self, house: &House) -> Vec<String> {
        self.open(house).await;
        if !self.supported {
            return self.problems_of_absolute_links(house).await;
        }
        let mut problems = Vec::new();
        if !house.becomes_true(self.sample.script).await {
            let page = house.browser.source().await;
            problems.push(format!("{}: no answer: {page}", self.id));
        }
        // Errors of this page are not taken for those of the next.
        house.browser.open("about:blank").await;
        let harmless =
            |error: &String| self.sample.failing.iter().any(|part| error.contains(*part));
        let errors = house.browser.errors().await;
        let errors = errors.into_iter().filter(|error| !harmless(error));
        problems.extend(errors.map(|error| format!("{}: {error}", self.id)));
        problems
    }

    /// The page is there, but its script is requested at the site, where it is not. If the app
    /// works, the table is wrong.
    async fn problems_of_absolute_links(&self, house: &House) -> Vec<String> {
        let without_script = "return document.querySelector('button').onclick === null";
        let is_without = house.browser.run(without_script).await;
        house.browser.open("about:blank").await;
        let errors = house.browser.errors().await;
        let missing = format!("http://hub.localhost:{}/page.js - ", house.port);
        let is_missing = errors.iter().any(|error| error.starts_with(&missing));
        if is_without.as_bool() == Some(true) && is_missing {
            return Vec::new();
        }
        vec![format!(
            "{}: works, or fails otherwise: {errors:?}",
            self.id
        )]
    }

    /// Whether the access log has a WebSocket or an event stream of the app.
    fn has_streamed(&self, stream: &str, log: &Path) -> bool {
        let log = std::fs::read_to_string(log).expect("a log");
        // The last line may be incomplete.
        let lines = log.lines();
        let mut entries = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries.any(|line| {
            let path = line["path"].as_str().unwrap_or_default();
            line["app"].as_str() == Some(self.id.as_str())
                && path.ends_with(stream)
                && matches!(line["status"].as_u64(), Some(101 | 200))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_apps_work_with_the_settings_of_the_table_on_paths_and_on_hosts() {
    let rows = rows();
    let apps: Vec<&str> = rows.iter().map(|row| row.app.as_str()).collect();
    let samples: Vec<&str> = SAMPLES.iter().map(|sample| sample.row).collect();
    assert_eq!(apps, samples, "a sample program for each row");
    let places = places(&rows);
    let _servers = start(&places).await;
    let house = House::new(|| places.iter().map(Place::table).collect()).await;
    // The errors of the pages to sign in are not the apps'.
    places[0].open(&house).await;
    house.browser.open("about:blank").await;
    house.browser.errors().await;
    let mut problems = Vec::new();
    for place in &places {
        problems.extend(place.problems(&house).await);
    }
    // WebSockets are logged when they end. The browser keeps those of pages that it may go back to.
    house.browser.close().await;
    let log = house.folder.path().join("requests.log");
    for place in &places {
        let Some(stream) = place.sample.stream else {
            continue;
        };
        let logged = async || place.has_streamed(stream, &log);
        if !holds_within(PATIENCE, logged).await {
            problems.push(format!("{}: no stream at {stream}", place.id));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
