//! Signing out: asked on a page no app can read, complete, and impossible to forge.

use crate::support::{
    browser::{From, field},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_every_session_of_the_browser() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    alice.open("/apps/grp/").await;
    let before = alice.clone();
    let page = alice.open("/oauth2/sign_out").await;
    assert_eq!(page.status(), 200);
    assert_eq!(
        page.header("cross-origin-opener-policy").as_deref(),
        Some("same-origin")
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
        "{policy}"
    );
    assert_eq!(
        page.header("referrer-policy").as_deref(),
        Some("same-origin"),
        "or the form's Origin would be null"
    );
    let text = page.text();
    let style = text
        .split("<style>")
        .nth(1)
        .and_then(|rest| rest.split("</style>").next())
        .expect("a style");
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, style.as_bytes());
    let hash = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, hash);
    assert!(
        policy.contains(&format!("'sha256-{hash}'")),
        "the page's own style is allowed: {policy}"
    );
    let done = alice.sign_out_with(&field(&page.text(), "token")).await;
    assert_eq!(done.status(), 200, "{}", done.text());
    assert_eq!(done.header("clear-site-data").as_deref(), Some("\"cache\""));
    assert!(
        alice.jar.is_empty(),
        "no cookie of ours is left: {:?}",
        alice.jar
    );
    for target in ["/apps/usr/x", "/apps/grp/x", "/oauth2/userinfo"] {
        assert_eq!(
            before.clone().fetch(target).await.status(),
            401,
            "{target} with every cookie of before"
        );
    }
    assert_eq!(world.reached(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_site_cannot_sign_a_person_out() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let mut bob = world.signed_in("bob").await;
    let of_bob = field(&bob.open("/oauth2/sign_out").await.text(), "token");
    let of_alice = field(&alice.open("/oauth2/sign_out").await.text(), "token");
    let foreign = "Origin: http://evil.test\r\nSec-Fetch-Site: cross-site\r\n";
    for (more, form) in [
        ("", String::new()),
        ("", "token=".into()),
        ("", format!("token={of_bob}")),
        ("", format!("token={of_alice}&token={of_alice}")),
        (foreign, format!("token={of_alice}")),
        ("Origin: null\r\n", format!("token={of_alice}")),
    ] {
        let _ = alice
            .send(
                "POST",
                "/oauth2/sign_out",
                From::Program,
                more,
                form.as_bytes(),
            )
            .await;
        assert_eq!(
            alice.fetch("/apps/usr/").await.status(),
            200,
            "{more:?} {form:?}"
        );
    }
    for from in [From::Fetch, From::Frame, From::Program] {
        let page = alice.send("GET", "/oauth2/sign_out", from, "", b"").await;
        assert_eq!(
            page.status(),
            403,
            "{from:?}: the token is shown to document navigations only"
        );
        assert!(!page.text().contains(&of_alice));
    }
}
