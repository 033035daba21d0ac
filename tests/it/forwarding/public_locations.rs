//! Redirects of an app that does not see its prefix (docs/behaviour.md#headers): they lead to the
//! app, and never to another origin.

use crate::support::{origins::Origins, world::World};

const FIELDS: [&str; 3] = ["location", "content-location", "refresh"];

/// A response that has the address in each field.
fn redirect(to: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Location: {to}\r\nRefresh: 0; url={to}\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn fields(to: &str) -> [Option<String>; 3] {
    [to.to_owned(), to.to_owned(), format!("0; url={to}")].map(Some)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_of_an_app_that_is_stripped_leads_to_the_app() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    let own = format!("http://{}", world.host);
    for (written, expected) in [
        ("/page2?a=/b", "/apps/strip/page2?a=/b".to_owned()),
        ("/", "/apps/strip/".to_owned()),
        ("/apps/strip/page2", "/apps/strip/page2".to_owned()),
        ("/apps/grp/", "/apps/strip/apps/grp/".to_owned()),
        ("page2", "page2".to_owned()),
        ("/.ludgate/sign_out", "/.ludgate/sign_out".to_owned()),
        (&format!("{own}/page2"), format!("{own}/apps/strip/page2")),
        (&format!("{own}.evil.test/"), format!("{own}.evil.test/")),
        ("//evil.test/", "//evil.test/".to_owned()),
        ("http://evil.test/x", "http://evil.test/x".to_owned()),
        ("/../x", "/../x".to_owned()),
    ] {
        world.backend("strip").script(redirect(written));
        let answer = alice.open("/apps/strip/page1").await;
        assert_eq!(answer.status(), 302);
        assert_eq!(
            FIELDS.map(|name| answer.header(name)),
            fields(&expected),
            "{written}"
        );
    }
    world.backend("strip").script(redirect("/page2?q"));
    let next = alice.open("/apps/strip/page1").await.header("location");
    world.backend("strip").script(None);
    let page = alice.open(&next.expect("a redirect")).await;
    assert_eq!(page.status(), 200);
    assert_eq!(world.backend("strip").last().target(), "/page2?q");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_of_other_apps_and_on_a_host_of_its_own_pass_unchanged() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    world.backend("grp").script(redirect("/page2"));
    let answer = alice.open("/apps/grp/page1").await;
    assert_eq!(FIELDS.map(|name| answer.header(name)), fields("/page2"));
    let mut there = Origins::new(&world);
    let page = format!("{}/page1", world.on_host("strip"));
    assert_eq!(there.follow(&page, "alice").await.1.status(), 200);
    world.backend("strip").script(redirect("/page2"));
    let answer = there.open(&page).await;
    assert_eq!(FIELDS.map(|name| answer.header(name)), fields("/page2"));
}
