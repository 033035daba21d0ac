//! A saved form that could not be sent can be sent later.

use super::saved_forms::{TYPED, WINDOW, resume, saved_form, send, too_late};
use crate::support::{backend::Backend, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_wants_it_elsewhere_is_not_sent_the_seal() {
    let (world, mut alice, sealed) = too_late().await;
    alice.sign_in("/apps/usr/", "alice").await;
    let redirect = |to: &str| {
        format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
            .into_bytes()
    };
    world.backend("grp").script(redirect("echo/?b"));
    let page = resume(&world, &mut alice, &sealed).await;
    assert!(
        page.status() == 200 && page.header("location").is_none(),
        "{}",
        page.text()
    );
    world.backend("grp").script(None);
    let body = format!("ludgate-form={}", saved_form(&page));
    let sent = send(
        &world,
        &mut alice,
        "/apps/grp/echo/?b&ludgate-resume",
        &body,
    )
    .await;
    assert_eq!(sent.status(), 200, "{}", sent.text());
    assert_eq!(world.backend("grp").last().body, TYPED.as_bytes());
    for elsewhere in [
        "http://evil.test/",
        "/apps/usr/x",
        "//evil.test/",
        "nonsense://",
    ] {
        let (world, mut alice, sealed) = too_late().await;
        alice.sign_in("/apps/usr/", "alice").await;
        world.backend("grp").script(redirect(elsewhere));
        let answer = resume(&world, &mut alice, &sealed).await;
        assert_eq!(
            (answer.status(), answer.header("location")),
            (400, None),
            "{elsewhere}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_not_reached_gets_it_later() {
    let port = crate::support::backend::refused_port().await;
    let app = format!("[[apps]]\nid = \"gone\"\naccess = \"user\"\nupstream = \"http://{port}\"\n");
    let world = World::with(&app, |_| {}).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    world.manual_clock.advance(WINDOW);
    let page = send(&world, &mut alice, "/apps/gone/x", TYPED).await;
    alice.sign_in("/apps/usr/", "alice").await;
    let again = "/apps/gone/x?ludgate-resume";
    let mut sealed = saved_form(&page);
    for _ in 0..2 {
        let page = send(&world, &mut alice, again, &format!("ludgate-form={sealed}")).await;
        assert_eq!(page.status(), 502, "{}", page.text());
        sealed = saved_form(&page);
    }
    let backend = Backend::on("gone", std::net::TcpListener::bind(port).expect("the port"));
    let sent = send(&world, &mut alice, again, &format!("ludgate-form={sealed}")).await;
    assert_eq!(
        (sent.status(), backend.last().body),
        (200, TYPED.as_bytes().to_vec())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_it_to_be_sent_later() {
    let (world, mut alice, sealed) = too_late().await;
    alice.sign_in("/apps/usr/", "alice").await;
    let internals = world.running.internals();
    let before = internals.snapshot();
    let apps: Vec<_> = before.apps().map(|app| app.spec.clone()).collect();
    internals.publish(before.followed_by(Vec::new(), Vec::new(), Default::default()));
    assert_eq!(
        resume(&world, &mut alice, &sealed).await.status(),
        404,
        "the app is gone"
    );
    let empty = internals.snapshot();
    internals.publish(empty.followed_by(apps, Vec::new(), Default::default()));
    assert_eq!(resume(&world, &mut alice, &sealed).await.text(), TYPED);
}
