//! An app with several upstreams: how requests are spread, which visitors keep their upstream, and
//! what becomes of a request whose upstream is lost.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use ludgate::{model::app::AppSpec, settings};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

use crate::support::{
    backend::{Backend, refused_port},
    browser::From,
    message::Message,
    raw::Raw,
    until::until_async,
    world::{ADMIN_TOKEN, World, with_operators},
};

/// The table of an app with these upstreams.
pub fn app(id: &str, upstreams: &[SocketAddr], more: &str) -> String {
    let upstreams: Vec<_> = upstreams.iter().map(|at| format!("http://{at}")).collect();
    format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = {upstreams:?}\n{more}\n")
}

/// The apps of a configuration file.
pub fn parsed(apps: &str) -> Vec<AppSpec> {
    let settings = settings::parse(apps, Path::new("."), std::iter::empty());
    settings.unwrap_or_else(|wrong| panic!("{wrong}")).apps
}

/// The upstreams of an app as operators see them.
pub async fn listed(world: &World, id: &str) -> Vec<Value> {
    let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
    let apps = world.admin("/apps", &token).await.json();
    let apps = apps["apps"].as_array().cloned().expect("a list");
    let found = apps.into_iter().find(|app| app["id"] == id);
    let upstreams = found.expect("listed")["upstreams"].as_array().cloned();
    upstreams.unwrap_or_default()
}

/// Waits until so many requests are in progress at all upstreams of an app.
async fn until_in_progress(world: &World, id: &str, wanted: u64) {
    until_async("requests in progress", async || {
        let upstreams = listed(world, id).await;
        let counts = upstreams.iter().map(|it| it["in_progress"].as_u64());
        counts.map(|count| count.expect("a number")).sum::<u64>() == wanted
    })
    .await;
}

/// The name of the backend that answered.
pub fn name_of(answer: &Message) -> String {
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let text = answer.text();
    text.split(' ').next().unwrap_or_default().to_owned()
}

async fn get(world: &World, id: &str) -> Message {
    world
        .exchange(&format!("GET /apps/{id}/x HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        .await
}

/// The name of the backend that a client at this address reaches.
async fn reached_from(world: &World, source: &str) -> String {
    let mut raw = Raw::connect_from(source, world.running.address).await;
    let host = &world.host;
    raw.send(format!("GET /apps/many/x HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .await;
    name_of(&raw.answer().await.expect("an answer"))
}

/// A recording app whose process can end: its connections close, and its port refuses new ones.
struct Stoppable {
    backend: Backend,
    task: JoinHandle<()>,
}

impl Stoppable {
    async fn start(name: &'static str) -> Stoppable {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let backend = Backend::nowhere(name, listener.local_addr().expect("an address"));
        let serving = backend.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let backend = serving.clone();
                connections.spawn(async move { backend.serve(stream).await });
            }
        });
        Stoppable { backend, task }
    }

    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_spread_and_a_websocket_counts_as_long_as_it_lasts() {
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    let table = app("many", &[one.address(), two.address()], "");
    let world = World::with(&table, with_operators).await;
    for _ in 0..20 {
        until_in_progress(&world, "many", 0).await;
        name_of(&get(&world, "many").await);
    }
    assert_eq!((one.count(), two.count()), (10, 10));
    until_in_progress(&world, "many", 0).await;
    let websocket = world.websocket(&world.browser(), "many").await;
    let (busy, free) = if one.count() > 10 {
        (&one, &two)
    } else {
        (&two, &one)
    };
    let before = (busy.count(), free.count());
    for _ in 0..6 {
        until_in_progress(&world, "many", 1).await;
        name_of(&get(&world, "many").await);
    }
    assert_eq!((busy.count(), free.count()), (before.0, before.1 + 6));
    drop(websocket);
    until_in_progress(&world, "many", 0).await;
    let names = [name_of(&get(&world, "many").await), {
        until_in_progress(&world, "many", 0).await;
        name_of(&get(&world, "many").await)
    }];
    assert_ne!(names[0], names[1], "both are free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_stays_and_a_lost_upstream_moves_only_its_own_visitors() {
    let backends = [
        Stoppable::start("one").await,
        Stoppable::start("two").await,
        Stoppable::start("three").await,
    ];
    let addresses: Vec<_> = backends.iter().map(|it| it.backend.address()).collect();
    let world = World::with(&app("many", &addresses, "sticky = true"), with_operators).await;
    let sources: Vec<_> = (10..40).map(|last| format!("127.0.0.{last}")).collect();
    let mut homes = BTreeMap::new();
    for source in &sources {
        homes.insert(source, reached_from(&world, source).await);
    }
    for source in &sources {
        assert_eq!(
            reached_from(&world, source).await,
            homes[source],
            "{source}"
        );
    }
    for name in ["one", "two", "three"] {
        assert!(homes.values().any(|home| home == name), "{name}: {homes:?}");
    }
    let [lost, ..] = backends;
    lost.stop().await;
    for source in &sources {
        let now = reached_from(&world, source).await;
        if homes[source] == "one" {
            assert_ne!(now, "one", "{source}");
        } else {
            assert_eq!(now, homes[source], "{source}");
        }
    }
    let upstreams = listed(&world, "many").await;
    assert!(
        upstreams[0]["problem"].as_str().is_some() && upstreams[1]["problem"].is_null(),
        "{upstreams:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_in_person_stays_with_one_upstream() {
    let backends = [
        Backend::start("one").await,
        Backend::start("two").await,
        Backend::start("three").await,
    ];
    let addresses = backends.each_ref().map(Backend::address);
    let table = app("many", &addresses, "sticky = true").replace("\"public\"", "\"user\"");
    let world = World::with(&table, |_| {}).await.ready().await;
    for person in ["alice", "bob"] {
        let mut browser = world.signed_in(person).await;
        let home = name_of(&browser.fetch("/apps/many/x").await);
        for _ in 0..10 {
            let now = name_of(&browser.fetch("/apps/many/x").await);
            assert_eq!(now, home, "{person}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_moves_any_request_to_another_upstream_once() {
    let (dead, other_dead) = (refused_port().await, refused_port().await);
    let live = Backend::start("live").await;
    let tables = [
        app("many", &[dead, live.address()], ""),
        app("dead", &[dead, other_dead], ""),
    ];
    let world = World::with(&tables.concat(), |_| {}).await;
    for round in 0..6 {
        let mut browser = world.browser();
        let answer = browser
            .send("POST", "/apps/many/echo", From::Fetch, "", b"once")
            .await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "once"));
        assert_eq!(live.count(), round + 1, "never twice");
    }
    let browser = world.browser();
    assert!(world.websocket(&browser, "many").await.carries().await);
    let answer = world.browser().fetch("/apps/dead/x").await;
    let reason = answer.json()["reason"].clone();
    assert_eq!(
        (answer.status(), reason.as_str()),
        (502, Some("upstream_refused"))
    );
    let line = world.log.line_with("\"app\":\"dead\"").await;
    let both = format!("http://{dead}, http://{other_dead}");
    assert_eq!(line["upstream"], both, "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_upstream_finishes_what_it_has_and_gets_nothing_new() {
    let (old, new) = (Backend::start("old").await, Backend::start("new").await);
    let world = World::with(&app("many", &[old.address(), new.address()], ""), |_| {}).await;
    let mut websockets = Vec::new();
    while old.count() == 0 {
        websockets.push(world.websocket(&world.browser(), "many").await);
    }
    world
        .running
        .replace_apps(parsed(&app("many", &[new.address()], "")));
    let before = old.count();
    for _ in 0..6 {
        assert_eq!(name_of(&get(&world, "many").await), "new");
    }
    assert_eq!(old.count(), before);
    for websocket in &mut websockets {
        assert!(websocket.carries().await, "it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_counted_per_app_if_wanted() {
    let dead = refused_port().await;
    let text = format!("[metrics]\nper_app = true\n{}", app("dead", &[dead], ""));
    let world = World::with(&text, |_| {}).await;
    assert_eq!(world.browser().fetch("/apps/dead/x").await.status(), 502);
    let counted = "ludgate_upstream_faults_total{app=\"dead\",outcome=\"upstream_refused\"} 1";
    world.until_counted(counted).await;
}
