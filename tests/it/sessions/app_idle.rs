//! Apps with an idle time of their own: their sessions expire earlier, and a new one needs a new
//! sign-in.

use std::{path::Path, time::Duration};

use ludgate::settings;

use crate::support::{documents::blocks, origins::Origins, world::World};

const MINUTE: Duration = Duration::from_secs(60);
const STRICT: &str = "[[apps]]\nid = \"strict\"\naccess = \"user\"\nupstream = \"http://ADDRESS\"\n\
                      isolation = \"host\"\nidle = \"10m\"\n";

/// Opens a page of an app's host as alice. Whether the provider was asked on the way.
async fn open(world: &World, alice: &mut Origins, app: &str) -> bool {
    let page = format!("{}/", world.on_host(app));
    let (url, answer) = alice.follow(&page, "alice").await;
    assert_eq!((answer.status(), url), (200, page));
    alice.way.iter().any(|url| url.contains("/oauth2/callback"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_expires_after_the_app_s_idle_time_and_the_provider_is_asked_again() {
    let world = World::with_app("strict", STRICT).await.ready().await;
    let mut alice = Origins::new(&world);
    assert!(open(&world, &mut alice, "strict").await);
    let page = format!("{}/", world.on_host("strict"));
    for _ in 0..3 {
        world.manual_clock.advance(9 * MINUTE);
        assert_eq!(alice.fetch(&page).await.status(), 200, "it is in use");
    }
    world.manual_clock.advance(10 * MINUTE);
    assert_eq!(alice.fetch(&page).await.status(), 401);
    // The sign-in lives, and is enough for another app.
    assert!(!open(&world, &mut alice, "usr").await);
    assert!(open(&world, &mut alice, "strict").await);
    assert!(
        !open(&world, &mut alice, "strict").await,
        "it has a session"
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_session_needs_a_sign_in_that_is_not_older_either() {
    let world = World::with_app("strict", STRICT).await.ready().await;
    let mut alice = Origins::new(&world);
    assert!(open(&world, &mut alice, "usr").await);
    assert!(
        !open(&world, &mut alice, "strict").await,
        "it has just begun"
    );
    let mut bob = Origins::new(&world);
    assert!(open(&world, &mut bob, "usr").await);
    world.manual_clock.advance(11 * MINUTE);
    // Use of other apps makes a sign-in no younger.
    assert!(!open(&world, &mut bob, "usr").await);
    assert!(open(&world, &mut bob, "strict").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_renews_asks_the_provider_too() {
    let world = World::with_app("strict", STRICT).await.ready().await;
    let mut alice = Origins::new(&world);
    open(&world, &mut alice, "strict").await;
    world.manual_clock.advance(11 * MINUTE);
    let page = format!("{}/", world.on_host("strict"));
    assert_eq!(alice.fetch(&page).await.status(), 401);
    let window = format!("{}/.ludgate/renewed", world.on_host("strict"));
    let (url, answer) = alice.follow(&window, "alice").await;
    assert_eq!((answer.status(), url), (200, window));
    assert!(alice.way.iter().any(|url| url.contains("/oauth2/callback")));
    assert_eq!(alice.fetch(&page).await.status(), 200);
}

#[test]
fn the_samples_of_the_document_are_configurations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(folder.join("docs/sessions.md")).expect("a document");
    let of_apps = |block: &&str| block.starts_with("[[apps]]");
    let samples: Vec<_> = blocks(&document, "toml")
        .into_iter()
        .filter(of_apps)
        .collect();
    assert_eq!(samples.len(), 2);
    let site = "[site]\nurl = \"https://hub.example.com\"\napps_domain = \"apps.example.net\"\n";
    let text = format!("{site}{}\n", samples.join("\n"));
    let parsed = settings::parse(&text, folder, std::iter::empty());
    parsed.unwrap_or_else(|errors| panic!("{errors}"));
}
