//! Sign-out and the current user on every origin (docs/behaviour.md#sign-in): an app needs no
//! address of the site for them.

use crate::support::{
    browser::{From, field},
    origins::Origins,
    world::World,
};

async fn signed_in_at(world: &World, label: &str) -> Origins {
    let mut alice = Origins::new(world);
    let url = format!("{}/", world.on_host(label));
    let (_, page) = alice.follow(&url, "alice").await;
    assert_eq!(page.status(), 200, "{page:?}");
    alice
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_out_of_a_host_leads_to_the_site_which_asks_and_ends_the_whole_sign_in() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = signed_in_at(&world, "grp").await;
    alice
        .follow(&format!("{}/", world.on_host("usr")), "unused")
        .await;
    let hosts = ["grp", "usr"].map(|label| world.on_host(label));
    let sign_out = format!("{}/.ludgate/sign_out", hosts[0]);
    let answer = alice.open(&sign_out).await;
    let on_site = format!("http://{}/oauth2/sign_out", world.host);
    assert_eq!(
        (answer.status(), answer.header("location")),
        (303, Some(on_site.clone()))
    );
    assert!(answer.all("set-cookie").is_empty());
    // Asked, but not confirmed.
    let page = alice.get(&on_site, From::ForeignNavigation, "").await;
    assert_eq!(page.status(), 200);
    field(&page.text(), "token");
    for host in &hosts {
        assert_eq!(alice.fetch(&format!("{host}/x")).await.status(), 200);
    }
    alice.sign_out(&world).await;
    for host in &hosts {
        assert_eq!(alice.fetch(&format!("{host}/x")).await.status(), 401);
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_or_foreign_page_can_use_the_sign_out_of_a_host() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = signed_in_at(&world, "grp").await;
    let url = format!("{}/.ludgate/sign_out", world.on_host("grp"));
    for from in [From::Fetch, From::Frame, From::ForeignFetch, From::Program] {
        assert_eq!(alice.get(&url, from, "").await.status(), 403, "{from:?}");
    }
    let origin = format!("Origin: {}\r\n", world.on_host("grp"));
    let answer = alice
        .send("POST", &url, From::Form, &origin, b"token=x")
        .await;
    assert_eq!(answer.status(), 405);
    let app = format!("{}/x", world.on_host("grp"));
    assert_eq!(alice.fetch(&app).await.status(), 200, "still signed in");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_after_a_sign_out_is_a_page_of_ours() {
    let world = World::as_program("", "").await.ready().await;
    let host = world.on_host("grp");
    let encoded = host.replace(':', "%3A").replace('/', "%2F");
    for (asked, expected) in [
        ("/bye", format!("?rd={encoded}%2Fbye")),
        ("%2F%2Fevil.test", format!("?rd={encoded}%2F%2Fevil.test")),
        ("https://evil.test/", "?rd=%2F".to_owned()),
        ("evil", "?rd=%2F".to_owned()),
        ("/.ludgate/sign_out", "?rd=%2F".to_owned()),
        ("", String::new()),
    ] {
        let url = format!("{host}/.ludgate/sign_out?rd={asked}");
        let location = Origins::new(&world).open(&url).await.header("location");
        let on_site = format!("http://{}/oauth2/sign_out{expected}", world.host);
        assert_eq!(location, Some(on_site), "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_site_both_are_at_two_addresses() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let said = alice.fetch("/.ludgate/userinfo").await;
    assert_eq!(said.json(), alice.fetch("/oauth2/userinfo").await.json());
    assert_eq!(said.json()["user"], "alice");
    let page = alice.open("/.ludgate/sign_out").await;
    assert_eq!(page.status(), 200);
    assert!(page.text().contains("action=\"/oauth2/sign_out\""));
    let forged = alice
        .send("POST", "/.ludgate/sign_out", From::Form, "", b"token=x")
        .await;
    assert_eq!(forged.status(), 400);
    assert_eq!(alice.fetch("/apps/usr/").await.status(), 200);
    for from in [From::Fetch, From::Frame] {
        let answer = alice.send("GET", "/.ludgate/sign_out", from, "", b"").await;
        assert_eq!(answer.status(), 403, "{from:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_names_the_user_to_its_own_pages_only() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = signed_in_at(&world, "grp").await;
    let url = format!("{}/.ludgate/userinfo", world.on_host("grp"));
    let before = world.backend("grp").count();
    let said = alice.fetch(&url).await;
    assert_eq!(said.status(), 200);
    assert_eq!(said.header("cache-control").as_deref(), Some("no-store"));
    let said = said.json();
    assert_eq!(
        (said["user"].as_str(), said["email"].as_str()),
        (Some("alice"), Some("alice@example.com"))
    );
    for from in [From::ForeignFetch, From::SiblingFetch] {
        assert_eq!(alice.get(&url, from, "").await.status(), 401, "{from:?}");
    }
    assert_eq!(Origins::new(&world).fetch(&url).await.status(), 401);
    // A session at one host is none at another.
    let other = format!("{}/.ludgate/userinfo", world.on_host("mine"));
    assert_eq!(alice.fetch(&other).await.status(), 401);
    for (person, status) in [("alice", 200), ("bob", 403)] {
        let token = world.provider.access_token(person);
        let more = format!("Authorization: Bearer {token}\r\n");
        let mut program = Origins::new(&world);
        let answer = program.get(&url, From::Program, &more).await;
        assert_eq!(answer.status(), status, "{person}");
    }
    assert_eq!(world.backend("grp").count(), before, "the app is not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_may_not_know_its_users_cannot_look_them_up_on_its_host() {
    let world = World::with("", |settings| {
        let usr = settings
            .apps
            .iter_mut()
            .find(|app| app.id.as_str() == "usr");
        usr.expect("an app").identity_headers = false;
    })
    .await
    .ready()
    .await;
    let mut alice = signed_in_at(&world, "usr").await;
    for (label, status) in [("usr", 404), ("pub", 401), ("none", 404)] {
        let url = format!("{}/.ludgate/userinfo", world.on_host(label));
        assert_eq!(alice.fetch(&url).await.status(), status, "{label}");
    }
}
