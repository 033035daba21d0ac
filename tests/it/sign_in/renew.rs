//! Nothing typed is lost: what stands behind `#` survives a sign-in, and a page renews its session
//! without being left.

use crate::support::{
    browser::From, chromium::Chromium, origins::Origins, secure::Secure, world::World,
};

fn hash(script: &str) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, script.as_bytes());
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, hash)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_page_runs_its_one_script_and_only_in_browsers_that_can() {
    let world = World::new().await.ready().await;
    let target = "/oauth2/start?rd=%2Fapps%2Fgrp%2Fx";
    let page = world
        .browser()
        .once("GET", target, From::Navigation, "", b"")
        .await;
    assert_eq!(
        (page.status(), page.header("cache-control").as_deref()),
        (200, Some("no-store"))
    );
    let text = page.text();
    let script = text
        .split("<script>")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next())
        .expect("a script");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains(&format!("script-src 'sha256-{}'", hash(script))),
        "{policy}\n{script}"
    );
    assert!(
        policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(text.contains("<noscript><meta http-equiv=\"refresh\" content=\"0;url=/oauth2/start?rd=%2Fapps%2Fgrp%2Fx&#38;go=1\">"), "{text}");
    assert!(page.all("set-cookie").is_empty(), "nothing is begun yet");
    for (from, target) in [
        (From::Program, target),
        (From::Navigation, "/oauth2/start?rd=%2Fapps%2Fgrp%2Fx&go=1"),
    ] {
        let answer = world.browser().once("GET", target, from, "", b"").await;
        assert_eq!(answer.status(), 302, "{from:?}");
        assert!(
            answer
                .header("location")
                .expect("the provider")
                .starts_with(world.provider.issuer())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_comes_back_and_leads_nowhere_else() {
    let world = World::new().await.ready().await;
    for (rd, landed) in [
        ("/apps/grp/x?y=1#/cell/3?z", "/apps/grp/x?y=1#/cell/3?z"),
        ("/apps/grp/x#", "/apps/grp/x#"),
        ("/apps/grp/x#a b", "/"),
        ("//evil.test#x", "/"),
        ("https://evil.test/#x", "/"),
    ] {
        let mut alice = world.browser();
        let rd = percent_encoding::utf8_percent_encode(rd, percent_encoding::NON_ALPHANUMERIC);
        let start = alice.open(&format!("/oauth2/start?rd={rd}")).await;
        let done = alice.sign_in_from(&start, "alice").await;
        assert_eq!(
            (done.status(), done.header("location").as_deref()),
            (303, Some(landed)),
            "{rd}"
        );
    }
    // On an app's own host too.
    let mut alice = Origins::new(&world);
    let (url, page) = alice
        .follow(&format!("{}/x?y#part", world.on_host("grp")), "alice")
        .await;
    assert_eq!(page.status(), 200, "{url}");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_renewal_is_for_who_has_a_session_there() {
    let world = World::new().await.ready().await;
    let mut anonymous = world.browser();
    assert_eq!(anonymous.fetch("/.ludgate/renewed").await.status(), 401);
    let start = anonymous.open("/.ludgate/renewed").await;
    assert_eq!(
        start.header("location").as_deref(),
        Some("/oauth2/start?rd=%2F.ludgate%2Frenewed")
    );
    let done = anonymous.sign_in_from(&start, "alice").await;
    assert_eq!(
        done.header("location").as_deref(),
        Some("/.ludgate/renewed")
    );
    let page = anonymous.open("/.ludgate/renewed").await;
    let text = page.text();
    let script = text
        .split("<script>")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next())
        .expect("a script");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains(&hash(script)) && page.header("cross-origin-opener-policy").is_none(),
        "{policy}"
    );
    assert!(
        script.contains("location.origin") && !script.contains("'*'"),
        "to this origin only: {script}"
    );
    let file = world.browser().fetch("/.ludgate/renew.js").await;
    assert!(file.status() == 200 && file.text().contains("export function renew"));
    assert_eq!(
        file.header("content-type").as_deref(),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(
        world.browser().fetch("/.ludgate/other.js").await.status(),
        404
    );
    // On a host of an app: by hand-over, for those who may open the app.
    for (person, status) in [("alice", 200), ("bob", 403)] {
        let mut one = Origins::new(&world);
        let (url, page) = one
            .follow(
                &format!("{}/.ludgate/renewed", world.on_host("grp")),
                person,
            )
            .await;
        assert_eq!(page.status(), status, "{person}: {url}");
        assert_eq!(
            page.text().contains("signed in again"),
            status == 200,
            "{person}"
        );
    }
    // A public app needs no session. The window ends there too, and not in a circle.
    let mut one = Origins::new(&world);
    let window = format!("{}/.ludgate/renewed", world.on_host("pub"));
    let (url, page) = one.follow(&window, "alice").await;
    assert_eq!((page.status(), url), (200, window));
    for app in ["grp", "pub"] {
        assert_eq!(
            world.backend(app).count(),
            0,
            "no app is asked for any of it"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_browser_a_fragment_survives_and_a_window_renews_the_session_of_a_page() {
    let secure = Secure::start().await;
    let browser = Chromium::believing("MAP *.test 127.0.0.1", Some(&secure.key)).await;
    let click_alice = async || {
        browser
            .wait_for_url(|url| url.starts_with(secure.provider.issuer()))
            .await;
        browser.click("a[href*=\"login_as=alice\"]").await;
    };
    for here in [
        secure.site("/apps/grp/x?y#/deep/link"),
        secure.host("grp", "/x#part"),
    ] {
        browser.open(&here).await;
        browser
            .wait_for_url(|url| url == here || url.starts_with(secure.provider.issuer()))
            .await;
        if browser.url().await != here {
            click_alice().await;
        }
        browser.wait_for_url(|url| url == here).await;
    }
    for here in [secure.site("/apps/grp/x"), secure.host("grp", "/x")] {
        browser.open(&here).await;
        browser
            .wait_for_url(|url| url == here || url.starts_with(secure.provider.issuer()))
            .await;
        if browser.url().await != here {
            click_alice().await;
            browser.wait_for_url(|url| url == here).await;
        }
        secure
            .manual_clock
            .advance(std::time::Duration::from_secs(31 * 60));
        let status = "return fetch('x').then(answer => answer.status)";
        assert_eq!(
            browser.run_async(status).await,
            401,
            "{here}: the session is over"
        );
        browser
            .run("window.renewed = import('/.ludgate/renew.js').then(script => script.renew()).then(() => 'yes', String)")
            .await;
        browser.other_window().await;
        click_alice().await;
        browser.only_window().await;
        assert_eq!(
            browser.run_async("return window.renewed").await,
            "yes",
            "{here}"
        );
        assert_eq!(
            browser.run_async(status).await,
            200,
            "{here}: with the page never left"
        );
        assert_eq!(browser.url().await, here);
    }
    browser.close().await;
}
