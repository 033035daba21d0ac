//! Health checks: what they send, when a failing upstream gets requests, and what operators see.

use super::several_upstreams::{app, listed, name_of, parsed};
use crate::support::{
    backend::Backend,
    diagnostics::Diagnostics,
    http2_app::Http2App,
    message::Message,
    tls_app::Authority,
    unix_app::Sockets,
    until::{until, until_async},
    world::{World, with_operators},
};

const CHECKED: &str = "health = { path = \"/healthz?deep\", interval = \"100ms\" }";
const BROKEN: &[u8] = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";

/// Waits until an upstream of the app has this health.
async fn until_health(world: &World, id: &str, index: usize, wanted: &str) {
    until_async(&format!("{id}, upstream {index}: {wanted}"), async || {
        listed(world, id).await[index]["health"] == wanted
    })
    .await;
}

/// The requests of a backend that were no checks.
fn requests_at(backend: &Backend) -> usize {
    let seen = backend.seen().into_iter();
    seen.filter(|request| request.target() != "/healthz?deep")
        .count()
}

async fn answer(world: &World) -> Message {
    let request = "GET /apps/many/x HTTP/1.1\r\nHost: HOST\r\n\r\n";
    world.exchange(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_fails_gets_no_requests_until_it_passes_again() {
    let diagnostics = Diagnostics::all();
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    let table = app("many", &[one.address(), two.address()], CHECKED);
    let text = format!("[metrics]\nper_app = true\n{table}");
    let world = World::with(&text, with_operators).await;
    until_health(&world, "many", 0, "passing").await;
    two.script(BROKEN.to_vec());
    until_health(&world, "many", 1, "failing").await;
    for _ in 0..8 {
        assert_eq!(name_of(&answer(&world).await), "one");
    }
    assert_eq!(requests_at(&two), 0);
    let check = two.last();
    let address = two.address().to_string();
    assert!(check.start.starts_with("GET /healthz?deep "), "{check:?}");
    assert_eq!(check.all("host"), [address.as_str()]);
    for name in [
        "cookie",
        "authorization",
        "x-forwarded-user",
        "x-forwarded-for",
    ] {
        assert_eq!(check.header(name), None, "{name}");
    }
    let fails = ["an upstream fails its health check", address.as_str()];
    let line = diagnostics.until_line(&fails).await;
    assert!(
        line.contains("WARN") && line.contains("status 500"),
        "{line}"
    );
    let verbose = world.admin("/readyz?verbose", "").await;
    assert_eq!(verbose.status(), 200);
    let verbose = verbose.text();
    assert!(
        verbose.contains("health checks: degraded: 1 of 2 upstreams fail"),
        "{verbose}"
    );
    let gauge = "ludgate_upstreams{app=\"many\",health=\"failing\"} 1";
    world.until_counted(gauge).await;
    let problem = listed(&world, "many").await[1]["problem"].clone();
    assert!(
        problem
            .as_str()
            .is_some_and(|text| text.contains("status 500"))
    );

    // If all fail, the check may be wrong.
    one.script(BROKEN.to_vec());
    until_health(&world, "many", 0, "failing").await;
    assert_eq!(answer(&world).await.status(), 500, "the app's own answer");

    two.script(None);
    until_health(&world, "many", 1, "passing").await;
    for _ in 0..4 {
        assert_eq!(name_of(&answer(&world).await), "two");
    }
    let passes = ["passes its health check again", address.as_str()];
    diagnostics.until_line(&passes).await;
    assert_eq!(diagnostics.lines_with(&fails).len(), 1, "once per change");
    assert_eq!(diagnostics.lines_with(&passes).len(), 1, "once per change");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_upstream_is_checked_and_served_all_the_same() {
    let one = Backend::start("one").await;
    one.script(BROKEN.to_vec());
    let table = app("many", &[one.address()], CHECKED);
    let world = World::with(&table, with_operators).await;
    until_health(&world, "many", 0, "failing").await;
    assert_eq!(answer(&world).await.status(), 500);
    let metrics = world.admin("/metrics", "").await.text();
    assert!(
        !metrics.contains("\"many\""),
        "no app in a label unless wanted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_uses_the_protocol_and_the_tls_settings_of_its_app() {
    let (sockets, authority, foreign) = (Sockets::new(), Authority::new(), Authority::new());
    let _unix = sockets.app("unix");
    let two = Http2App::start().await;
    let tls = authority.sign(&["127.0.0.1"]).app("tls").await;
    let strange = foreign.sign(&["127.0.0.1"]).app("strange").await;
    std::fs::write(sockets.path("ca.crt"), authority.pem()).expect("written");
    let ca = format!("ca = \"{}\"\n", sockets.path("ca.crt").display());
    let table = |id: &str, upstream: &str, more: &str| {
        format!(
            "[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n{more}{CHECKED}\n"
        )
    };
    let tables = [
        table("unix", &sockets.upstream("unix"), ""),
        table(
            "two",
            &format!("http://{}", two.address()),
            "protocol = \"h2\"\n",
        ),
        table("tls", &format!("https://{}", tls.address()), &ca),
        table("strange", &format!("https://{}", strange.address()), &ca),
    ];
    let world = World::with(&tables.concat(), with_operators).await;
    for id in ["unix", "two", "tls"] {
        until_health(&world, id, 0, "passing").await;
    }
    until_health(&world, "strange", 0, "failing").await;
    let problem = listed(&world, "strange").await[0]["problem"].clone();
    let problem = problem.as_str().expect("a problem");
    assert!(problem.contains("certificate"), "{problem}");
    assert_eq!(strange.backend.count(), 0, "nothing was sent");
    let (head, ..) = two.seen().pop().expect("a check");
    assert_eq!(head.uri.path(), "/healthz");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checks_of_a_changed_app_end_with_it() {
    let (old, new) = (Backend::start("old").await, Backend::start("new").await);
    let table = app("many", &[old.address()], CHECKED);
    let world = World::with(&table, with_operators).await;
    until_health(&world, "many", 0, "passing").await;
    world
        .running
        .replace_apps(parsed(&app("many", &[new.address()], CHECKED)));
    until("the new upstream is checked", || new.count() > 0).await;
    let before = old.count();
    until("several more checks", || new.count() > 5).await;
    assert!(
        old.count() <= before + 1,
        "at most one that was under way: {before}, {}",
        old.count()
    );
    let verbose = world.admin("/readyz?verbose", "").await.text();
    assert!(
        verbose.contains("health checks: no upstream of 1 fails"),
        "{verbose}"
    );
    world.running.replace_apps(Vec::new());
    until_async("no checks are left", async || {
        let verbose = world.admin("/readyz?verbose", "").await.text();
        !verbose.contains("health checks")
    })
    .await;
}
