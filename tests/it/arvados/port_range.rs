//! Containers on the ports of one host (docs/behaviour.md#hosts), for where no wildcard name can be
//! had.

use std::time::Duration;

use ludgate::settings;
use serde_json::{Value, json};

use crate::support::{
    arvados::Container,
    browser::From,
    cluster::{Cluster, encoded},
    message::Message,
    origins::Origins,
};

/// A name beside the apps' domain, which tests have at localhost: another loopback address.
const RANGE: &str = "ports = { host = \"127.0.0.2\", range = \"20000-20009\" }\n";

async fn cluster() -> Cluster {
    Cluster::with(RANGE).await
}

fn at(port: u16, target: &str) -> String {
    format!("http://127.0.0.2:{port}{target}")
}

fn mapped(access: &str, external: u16) -> Value {
    json!({"80": {"access": access, "label": "Page", "external_port": external}})
}

async fn public_at(cluster: &Cluster, external: u16) -> Container {
    cluster
        .publishing(&[&cluster.alice], mapped("public", external))
        .await
}

/// What a browser does of its own with an answer that clears.
async fn again(visitor: &mut Origins, answer: &Message) -> Message {
    visitor
        .open(&answer.header("location").expect("a location"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_leads_to_the_container_that_the_catalogue_maps_it_to() {
    let cluster = cluster().await;
    public_at(&cluster, 20001).await;
    let private = cluster
        .publishing(&[&cluster.alice], mapped("private", 20002))
        .await;
    let mut visitor = cluster.visitor();
    assert_eq!(visitor.open(&at(20001, "/a?b=%41")).await.status(), 200);
    let seen = cluster.app.last();
    assert_eq!(
        (seen.target(), seen.header("host").as_deref()),
        ("/a?b=%41", Some("127.0.0.2:20001"))
    );
    assert_eq!(seen.header("x-forwarded-port").as_deref(), Some("20001"));
    for (who, status) in [
        (Some(&cluster.alice), 200),
        (Some(&cluster.admin), 200),
        (Some(&cluster.bob), 404),
        (None, 401),
    ] {
        assert_eq!(
            cluster.request("GET", &at(20002, "/x"), who).await.status(),
            status
        );
    }
    // Its uuid leads to the same app.
    let by_uuid = cluster.url(format!("{}-80", private.uuid), "/x");
    assert_eq!(
        cluster
            .request("GET", &by_uuid, Some(&cluster.alice))
            .await
            .status(),
        200
    );
    for (port, status) in [(20003, 410), (20009, 410), (19999, 400), (20010, 400)] {
        assert_eq!(
            cluster.request("GET", &at(port, "/x"), None).await.status(),
            status,
            "{port}"
        );
    }
    assert_eq!(
        cluster
            .request("GET", "http://127.0.0.2/x", None)
            .await
            .status(),
        400
    );
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_two_ports_do_not_mix_although_cookies_ignore_ports() {
    let cluster = cluster().await;
    cluster
        .publishing(&[&cluster.alice], mapped("private", 20001))
        .await;
    cluster
        .publishing(&[&cluster.bob], mapped("private", 20002))
        .await;
    let mut visitor = cluster.visitor();
    for (port, who) in [(20001, &cluster.alice), (20002, &cluster.bob)] {
        let with = at(port, &format!("/x?api_token={}", encoded(&who.token_v2)));
        assert_eq!(visitor.open(&with).await.status(), 303);
        assert_eq!(visitor.open(&at(port, "/x")).await.status(), 200);
        assert_eq!(
            cluster.app.last().header("x-forwarded-user").as_deref(),
            Some(&*who.uuid)
        );
        assert!(
            cluster.app.last().header("cookie").is_none(),
            "no cookie of ours, of whichever port"
        );
    }
    assert_eq!(
        visitor.open(&at(20001, "/x")).await.status(),
        200,
        "the first goes on beside the second"
    );
    let names: Vec<_> = visitor
        .at("127.0.0.2:20001")
        .jar
        .keys()
        .map(|(name, _)| name.clone())
        .collect();
    assert!(
        names.contains(&"ludgate-app-20001".into()) && names.contains(&"ludgate-app-20002".into()),
        "{names:?}"
    );
    // The page of one port is a stranger at the other.
    let answer = visitor
        .send(
            "POST",
            &at(20002, "/x"),
            From::Program,
            "Origin: http://127.0.0.2:20001\r\n",
            b"",
        )
        .await;
    assert_eq!(answer.status(), 401);
    let answer = visitor
        .send("GET", &at(20002, "/x"), From::SiblingFetch, "", b"")
        .await;
    assert_eq!(answer.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_handed_over_to_a_port_as_to_a_host() {
    let cluster = Cluster::with(&format!("accept_sign_in = true\n{}", RANGE)).await;
    cluster
        .publishing(&[&cluster.alice], mapped("private", 20001))
        .await;
    let mut visitor = cluster.visitor();
    let start = visitor.open(&at(20001, "/x")).await;
    assert_eq!(start.status(), 302);
    let to = start.header("location").expect("the site");
    assert!(
        to.contains("rd=http%3A%2F%2F127.0.0.2%3A20001%2Fx&bind="),
        "{to}"
    );
    let (end, answer) = visitor.follow(&at(20001, "/x"), "alice").await;
    assert_eq!((answer.status(), end), (200, at(20001, "/x")));
    let (end, answer) = cluster.visitor().follow(&at(20001, "/x"), "bob").await;
    assert_eq!(answer.status(), 404);
    assert!(
        end.starts_with(&format!("http://{}/oauth2/", cluster.world.host)),
        "{end}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_changes_hands_has_the_browser_forget_the_last_tenant_exactly_once() {
    let cluster = cluster().await;
    let first = public_at(&cluster, 20001).await;
    let mut visitor = cluster.visitor();
    let deep = at(20001, "/a/deep/cookies?x=1");
    let answer = visitor.open(&deep).await;
    assert_eq!(answer.status(), 200);
    assert!(
        answer.header("clear-site-data").is_none(),
        "the port had no container before"
    );
    let jar = |visitor: &mut Origins| -> Vec<String> {
        visitor
            .at("127.0.0.2:20001")
            .jar
            .keys()
            .map(|(name, path)| format!("{name} {path}"))
            .collect()
    };
    assert!(
        jar(&mut visitor).contains(&"own /".to_owned()),
        "the app sets cookies: {:?}",
        jar(&mut visitor)
    );
    visitor
        .at("127.0.0.2:20001")
        .jar
        .insert(("deep".into(), "/a/deep".into()), "1".into());
    visitor
        .at("127.0.0.2:20001")
        .jar
        .insert(("deep".into(), "/a/".into()), "1".into());
    assert!(
        visitor
            .open(&deep)
            .await
            .header("clear-site-data")
            .is_none(),
        "the same tenant"
    );

    cluster.arvados.set_state(&first.uuid, "Complete");
    cluster.world.manual_clock.advance(Duration::from_secs(61));
    assert_eq!(
        visitor.open(&deep).await.status(),
        410,
        "the port has no container now"
    );
    let second = public_at(&cluster, 20001).await;
    cluster.world.manual_clock.advance(Duration::from_secs(61));
    let before = cluster.app.count();
    // What changes something is not repeated by itself.
    for (method, from) in [
        ("POST", From::Fetch),
        ("DELETE", From::Fetch),
        ("POST", From::Navigation),
    ] {
        let answer = visitor.clone().send(method, &deep, from, "", b"").await;
        assert_eq!(
            (answer.status(), answer.header("clear-site-data")),
            (410, None),
            "{method}"
        );
    }
    let answer = visitor.open(&deep).await;
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.header("location").as_deref(), Some(&*deep));
    assert_eq!(
        answer.header("clear-site-data").as_deref(),
        Some("\"cache\", \"storage\"")
    );
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(
        cluster.app.count(),
        before,
        "O5: the new tenant has seen nothing of it"
    );
    let left = jar(&mut visitor);
    assert_eq!(
        left,
        ["ludgate-tenant-20001 /"],
        "nothing of the last tenant is left"
    );
    let answer = again(&mut visitor, &answer).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.header("clear-site-data").is_none());
    for _ in 0..3 {
        assert_eq!(
            visitor.open(&deep).await.status(),
            200,
            "one clearing a change"
        );
    }
    let _ = second;
    cluster.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_the_last_tenant_is_none_with_the_next() {
    let cluster = cluster().await;
    let first = cluster
        .publishing(&[&cluster.alice], mapped("private", 20001))
        .await;
    let mut alice = cluster.visitor();
    alice
        .open(&at(
            20001,
            &format!("/x?api_token={}", encoded(&cluster.alice.token_v2)),
        ))
        .await;
    assert_eq!(alice.open(&at(20001, "/x")).await.status(), 200);
    let session = ("ludgate-app-20001".to_owned(), "/".to_owned());
    let kept = alice.at("127.0.0.2:20001").jar[&session].clone();
    cluster.arvados.set_state(&first.uuid, "Complete");
    // Hers too: what refuses her is not the rule.
    cluster
        .publishing(&[&cluster.alice], mapped("private", 20001))
        .await;
    cluster.world.manual_clock.advance(Duration::from_secs(61));
    let cleared = alice.open(&at(20001, "/x")).await;
    assert_eq!(cleared.status(), 303);
    assert!(
        !alice.at("127.0.0.2:20001").jar.contains_key(&session),
        "it was taken away"
    );
    alice.at("127.0.0.2:20001").jar.insert(session, kept);
    assert_eq!(
        alice
            .send("GET", &at(20001, "/x"), From::Fetch, "", b"")
            .await
            .status(),
        401
    );
    assert_eq!(cluster.app.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_name_that_changes_hands_is_cleared_too_and_a_uuid_never_is() {
    let cluster = cluster().await;
    let (first, second) = (
        cluster.container(&[&cluster.alice]).await,
        cluster.container(&[&cluster.alice]).await,
    );
    cluster.arvados.add_link("name", &first.uuid, 80);
    let mut visitor = cluster.visitor();
    let (name, uuid) = (cluster.url("name", "/x"), cluster.url(&first.uuid, "/x"));
    assert_eq!(visitor.open(&name).await.status(), 200);
    let by_uuid = visitor.open(&uuid).await;
    assert_eq!(
        (by_uuid.status(), by_uuid.all("set-cookie").len()),
        (200, 0),
        "its tenant cannot change"
    );
    cluster.arvados.remove_link("name");
    cluster.arvados.add_link("name", &second.uuid, 80);
    cluster.world.manual_clock.advance(Duration::from_secs(61));
    assert_eq!(visitor.open(&name).await.status(), 303);
    assert_eq!(visitor.open(&name).await.status(), 200);
}

#[test]
fn the_range_has_a_host_of_its_own_or_it_is_refused() {
    let parse = |site: &str, ports: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "a-root-token").expect("written");
        let text = format!(
            "[site]\n{site}\n[arvados]\napi = \"https://api.test\"\nroot_token_file = \"token\"\n{ports}\n"
        );
        settings::parse(&text, folder.path(), std::iter::empty())
            .map_err(|mistakes| mistakes.to_string())
    };
    let site = "url = \"https://hub.example.com\"\napps_domain = \"apps.example.net\"";
    let ports =
        |host: &str, range: &str| format!("ports = {{ host = \"{host}\", range = \"{range}\" }}");
    let fine = parse(site, &ports("ports.example.org", "2000-2999")).expect("fine");
    assert_eq!(
        fine.site
            .ports
            .as_ref()
            .map(|range| (range.first, range.last)),
        Some((2000, 2999))
    );
    for (host, range, what) in [
        (
            "hub.example.com",
            "2000-2999",
            "is the host of site.url, or above it",
        ),
        (
            "example.com",
            "2000-2999",
            "is the host of site.url, or above it",
        ),
        (
            "example.net",
            "2000-2999",
            "is above or below site.apps_domain",
        ),
        (
            "apps.example.net",
            "2000-2999",
            "is above or below site.apps_domain",
        ),
        (
            "ports.apps.example.net",
            "2000-2999",
            "is above or below site.apps_domain",
        ),
        (
            "Ports.example.org",
            "2000-2999",
            "is no lower-case host name",
        ),
        ("ports.example.org", "2999-2000", "is no range of ports"),
        ("ports.example.org", "0-10", "is no range of ports"),
        ("ports.example.org", "2000-65536", "is no range of ports"),
        ("ports.example.org", "2000", "is no range of ports"),
    ] {
        let said = parse(site, &ports(host, range)).expect_err("refused");
        assert!(
            said.contains("arvados.ports") && said.contains(what),
            "{host} {range}: {said}"
        );
    }
    let nowhere = parse("url = \"https://hub.example.com\"", "").expect_err("refused");
    assert!(
        nowhere.contains("has containers without an address"),
        "{nowhere}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_a_token_to_a_port_that_changed_hands_clears_and_lets_in_at_once() {
    let cluster = cluster().await;
    let first = public_at(&cluster, 20001).await;
    let mut alice = cluster.visitor();
    assert_eq!(alice.open(&at(20001, "/x")).await.status(), 200);
    cluster.arvados.set_state(&first.uuid, "Complete");
    cluster
        .publishing(&[&cluster.alice], mapped("private", 20001))
        .await;
    cluster.world.manual_clock.advance(Duration::from_secs(61));
    let link = at(
        20001,
        &format!("/x?api_token={}&y", encoded(&cluster.alice.token_v2)),
    );
    let answer = alice.open(&link).await;
    assert_eq!(
        (answer.status(), answer.header("location")),
        (303, Some(at(20001, "/x?y")))
    );
    assert!(answer.header("clear-site-data").is_some());
    assert_eq!(alice.open(&at(20001, "/x?y")).await.status(), 200);
    cluster.world.check_oracles().await;
}
