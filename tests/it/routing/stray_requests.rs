//! Requests that pages of an app send outside of it (docs/behaviour.md#paths): the answer and the
//! log name the app.

use crate::support::{browser::From, diagnostics::Diagnostics, message::Message, world::World};

/// A request of a page at this address.
async fn from_page(world: &World, target: &str, from: From, referer: &str) -> Message {
    let more = format!("Referer: {referer}\r\n");
    world.browser().send("GET", target, from, &more, b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_outside_of_the_app_is_404_that_names_it_and_is_logged_once_a_minute() {
    let diagnostics = Diagnostics::all();
    let world = World::new().await;
    let own = format!("http://{}", world.host);
    for path in ["/static/first.js", "/static/second.js", "/fonts/third.woff"] {
        let page = format!("{own}/apps/usr/page?secret=1");
        let answer = from_page(&world, path, From::Fetch, &page).await;
        let problem = answer.json();
        assert_eq!(
            (answer.status(), problem["reason"].as_str()),
            (404, Some("outside_app"))
        );
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(
            detail.contains("/apps/usr/") && detail.contains("docs/apps.md"),
            "{detail}"
        );
        let line = world.log.line_with(path).await;
        assert_eq!(
            (line["app"].as_str(), line["reason"].as_str()),
            (Some("usr"), Some("outside_app"))
        );
    }
    let other = format!("{own}/apps/strip/");
    from_page(&world, "/x", From::Fetch, &other).await;
    let reported = "requested an address outside of the app";
    diagnostics.until_line(&[reported, "app=strip"]).await;
    let lines = diagnostics.lines_with(&[reported, "app=usr"]);
    assert!(
        lines.len() == 1 && lines[0].contains("/static/first.js") && !lines[0].contains("secret"),
        "{lines:?}"
    );
    assert_eq!(world.reached(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_follows_such_a_link_sees_which_app_it_came_from() {
    let world = World::as_program("", "").await;
    let page = format!("http://{}/apps/mine/", world.host);
    let answer = from_page(&world, "/page2", From::Form, &page).await;
    assert_eq!(answer.status(), 404);
    assert!(answer.text().contains("/apps/mine/"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_page_of_an_app_requested_is_not_found_as_before() {
    let world = World::as_program("", "").await;
    let own = format!("http://{}", world.host);
    for referer in [
        format!("{own}/"),
        format!("{own}/apps/"),
        format!("{own}/apps/none/"),
        format!("{own}.evil.test/apps/usr/"),
        "http://evil.test/apps/usr/".to_owned(),
        format!("{}/", world.on_host("usr")),
    ] {
        let answer = from_page(&world, "/static/app.js", From::Fetch, &referer).await;
        let reason = answer.json()["reason"].as_str().map(str::to_owned);
        assert_eq!(
            (answer.status(), reason.as_deref()),
            (404, Some("not_found")),
            "{referer}"
        );
    }
    let page = format!("{own}/apps/usr/");
    let answer = from_page(&world, "/apps/none/", From::Fetch, &page).await;
    assert_eq!(answer.json()["reason"], "unknown_app");
}
