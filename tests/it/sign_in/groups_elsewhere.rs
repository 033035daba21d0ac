//! Groups that a token has no room for: it says that they are elsewhere, and they are read where
//! the configuration says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{backend::Backend, message::PATIENCE, until::until_async, world::World};

const RECHECK: Duration = Duration::from_secs(5 * 60);

/// A world whose provider has too many groups for a token, and the directory that knows them.
async fn world(more: &str) -> (World, Backend) {
    let directory = Backend::start("directory").await;
    // The section is open: what stands in front belongs to it.
    let keys = format!(
        "groups_url = \"http://{}/me?$select=id\"\n{more}",
        directory.address()
    );
    let world = World::with("", |settings| {
        let text =
            format!("[identity]\nissuer = \"http://127.0.0.1:1\"\nclient_id = \"x\"\n{keys}");
        let read = ludgate::settings::parse(&text, std::path::Path::new("."), std::iter::empty());
        let read = read
            .expect("a configuration")
            .identity
            .expect("an identity section");
        settings
            .identity
            .as_mut()
            .expect("an identity section")
            .directory = read.directory;
    })
    .await
    .ready()
    .await;
    world.provider.set_mischief(Some(Box::new(|_, claims| {
        claims.as_object_mut().expect("claims").remove("groups");
        claims["_claim_names"] = json!({"groups": "src1"});
        claims["_claim_sources"] = json!({"src1": {"endpoint": "http://evil.test/steal"}});
    })));
    (world, directory)
}

fn answer(status: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_read_with_the_persons_token_and_again_at_recheck() {
    let (world, directory) = world("").await;
    directory.script(answer(
        "200 OK",
        &json!({"value": [{"id": "phusers"}, {"id": ""}, {"other": 7}, "friends"]}),
    ));
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    let said = alice.fetch("/oauth2/userinfo").await.json();
    assert_eq!(said["groups"], json!(["friends", "phusers"]));
    let asked = directory.last();
    assert_eq!(asked.target(), "/me?$select=id");
    assert!(
        asked
            .header("authorization")
            .is_some_and(|value| value.starts_with("Bearer "))
    );
    assert_eq!(
        (directory.count(), world.provider.calls("userinfo")),
        (1, 0)
    );
    directory.script(answer("200 OK", &json!([{"id": "friends"}])));
    world.manual_clock.advance(RECHECK);
    until_async("a group that was taken away takes effect", async || {
        alice.fetch("/apps/grp/x").await.status() == 403
    })
    .await;
    // A directory that is away changes nothing.
    directory.script(answer("503 Service Unavailable", &json!({})));
    world.manual_clock.advance(RECHECK);
    let asked = async {
        while directory.count() < 3 {
            alice.fetch("/apps/usr/x").await;
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("asked again");
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_field_that_is_the_group_is_configured() {
    let (world, directory) = world("groups_field = \"displayName\"\n").await;
    directory.script(answer(
        "200 OK",
        &json!({"value": [{"id": "0a", "displayName": "phusers"}]}),
    ));
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_list_refuses_the_sign_in_and_an_endless_one_is_cut() {
    let (world, directory) = world("").await;
    let next_page = format!("http://{}/me?page=2", directory.address());
    for wrong in [
        answer("403 Forbidden", &json!({"value": []})),
        answer("302 Found", &json!({"value": []})),
        answer("200 OK", &json!({"value": "phusers"})),
        answer(
            "200 OK",
            &json!({"value": [], "@odata.nextLink": "http://evil.test/more"}),
        ),
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe{[".to_vec(),
    ] {
        directory.script(wrong);
        let mut browser = world.browser();
        let start = browser.open("/apps/usr/").await;
        let page = browser.sign_in_from(&start, "alice").await;
        assert_eq!(page.status(), 503, "{}", page.text());
    }
    let before = directory.count();
    directory.script(answer(
        "200 OK",
        &json!({"value": [{"id": "phusers"}], "@odata.nextLink": next_page}),
    ));
    let mut alice = world.signed_in("alice").await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    assert_eq!(directory.count() - before, 20, "so many pages and no more");
}
