//! An installed app whose definition publishes it: the gateway opens it to its group, for as long
//! as it is installed.

use serde_json::json;

use super::site::{InstallSite, WebApp, waiting};
use crate::support::{
    browser::From,
    changes::POD_PATIENCE,
    message::PATIENCE,
    until::holds_within,
    world::{World, with_operators},
};

const PAGE: &str = "web 0.1.0, plain";

#[tokio::test(flavor = "multi_thread")]
async fn an_exposed_app_opens_for_its_group_and_for_no_one_else() {
    let site = InstallSite::start().await;
    let expose = |access: &str| json!({ "service": "web", "port": 80, "access": access });
    let definition = json!({ "expose": expose("group:phusers") });
    site.define_web("web", definition).await;
    let namespace = site.installs.namespace();
    let catalogue = format!(
        "{}installations = {{ prefix = \"/installs\" }}\n",
        namespace.toml()
    );
    let world = World::with(&catalogue, with_operators).await.ready().await;
    let id = format!("/{}/app", namespace.name);
    let path = format!("/installs/{}/app/", namespace.name);
    let app = WebApp {
        definition: "web",
        version: "1.0.0",
        values: "waits: true",
        helm: waiting(),
    };
    site.install("app", &app).await;
    world.until(|snapshot| snapshot.find(&id).is_some()).await;
    let mut alice = world.signed_in("alice").await;
    let early = alice.open(&path).await;
    assert_ne!(early.status(), 200, "{}", early.text());

    site.release_pods("app").await;
    let mut page = early;
    let is_open = holds_within(POD_PATIENCE, async || {
        page = alice.open(&path).await;
        page.status() == 200 && page.text().trim_end() == PAGE
    });
    let is_open = is_open.await;
    assert!(is_open, "{page:?}");
    let stranger = world.browser().open(&path).await;
    assert_eq!(stranger.status(), 302);
    let program = world
        .browser()
        .send("GET", &path, From::Program, "", b"")
        .await;
    assert_eq!(program.status(), 401);
    let refused = world.browser().sign_in(&path, "bob").await;
    assert_eq!(refused.status(), 403, "bob is not in phusers");
    assert!(!refused.text().contains(PAGE));

    // A change of the rule counts for people who are signed in.
    let definition = json!({ "expose": expose("group:other") });
    site.define_web("web", definition).await;
    let is_refused = holds_within(PATIENCE, async || alice.open(&path).await.status() == 403);
    assert!(is_refused.await);
    let definition = json!({ "expose": expose("group:phusers") });
    site.define_web("web", definition).await;
    let is_open = holds_within(PATIENCE, async || alice.open(&path).await.status() == 200);
    assert!(is_open.await);

    site.installs.delete("app").await;
    site.installs.until_gone("app").await;
    world.until(|snapshot| snapshot.find(&id).is_none()).await;
    let gone = alice.open(&path).await;
    assert_ne!(gone.status(), 200, "{}", gone.text());
}
