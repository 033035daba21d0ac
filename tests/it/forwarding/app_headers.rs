//! Headers and credentials of an app's own table (docs/behaviour.md#headers): their values, and
//! that no spelling of them from a client reaches the app.

use std::{fs, path::Path};

use http::Request;
use ludgate::settings;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    backend::Backend,
    browser::{Browser, From},
    documents::blocks,
    http2::{Http2, whole},
    raw::Raw,
    world::World,
};

/// Every byte that a field name may hold and that is neither a letter nor a digit (RFC 9110 section
/// 5.6.2).
const SEPARATORS: &str = "!#$%&'*+-.^_`|~";
const FORGED: &str = "root-CANARY";
const DOCUMENT: &str = include_str!("../../../docs/apps.md");
const CLAIMS: &str = "claims = [\"/tenant\", \"/roles\"]\n";
const HEADERS: &str = "headers = { \"X-Tenant-Id\" = \"{claim:/tenant}\", \"X-Who\" = \"{subject} <{email}>\", \
     \"X-Roles\" = \"{claim:/roles}\", \"X-Display-Name\" = \"{display_name}\", \"X-Via-Gateway\" = \"yes\" }\n";

/// A table of an app at the address of a recording one.
fn table(id: &str, access: &str, backend: &Backend, keys: &str) -> String {
    let address = backend.address();
    format!(
        "[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://{address}\"\n{keys}\n"
    )
}

/// `own` and the public `open` have headers.
async fn with_headers() -> World {
    let (own, open) = (Backend::start("own").await, Backend::start("open").await);
    let tables = [
        table("own", "user", &own, HEADERS),
        table("open", "public", &open, HEADERS),
    ];
    let world = World::with_identity(CLAIMS, &tables.concat()).await;
    world
        .ready()
        .await
        .and_backend("own", own)
        .and_backend("open", open)
}

/// A name in every spelling, its own among them.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    SEPARATORS.chars().flat_map(move |separator| {
        let separator = separator.to_string();
        [
            name.replace('-', &separator),
            name.replacen('-', &separator, 1),
        ]
    })
}

/// One request on a connection that stays open.
async fn on(raw: &mut Raw, browser: &Browser, target: &str) {
    let (host, cookies) = (&browser.host, browser.cookie_line(target));
    let fetch = From::Fetch.headers();
    raw.send(format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\n{fetch}{cookies}\r\n"
    ))
    .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_gets_its_headers_with_values_of_the_person() {
    let world = with_headers().await;
    let provider = &world.provider;
    provider.set_claim("alice", "tenant", json!("blue"));
    provider.set_claim("alice", "roles", json!(["a,b", "\u{fc}", "c"]));
    provider.set_claim("bob", "tenant", json!("evil\r\nX-Admin: 1"));
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut raw = world.raw().await;
    for round in 0..2 {
        on(&mut raw, &alice, "/apps/own/x").await;
        let seen = world.backend("own").last();
        for (name, expected) in [
            ("x-tenant-id", "blue"),
            ("x-who", "alice <alice@example.com>"),
            ("x-roles", "a%2Cb,%C3%BC,c"),
            ("x-display-name", "Alice"),
            ("x-via-gateway", "yes"),
            ("x-forwarded-user", "alice"),
        ] {
            assert_eq!(seen.all(name), [expected], "round {round}");
        }
        on(&mut raw, &bob, "/apps/own/x").await;
        let seen = world.backend("own").last();
        assert_eq!(seen.all("x-tenant-id"), ["evil%0D%0AX-Admin: 1"]);
        assert_eq!(seen.header("x-admin"), None);
        assert_eq!(seen.all("x-who"), ["bob <bob@example.com>"]);
        assert_eq!(seen.header("x-roles"), None, "bob does not have the claim");
    }
    // A public app knows no person.
    on(&mut raw, &alice, "/apps/open/x").await;
    let seen = world.backend("open").last();
    assert_eq!(seen.all("x-via-gateway"), ["yes"]);
    for name in ["x-tenant-id", "x-who", "x-roles", "x-display-name"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    on(&mut raw, &alice, "/apps/usr/x").await;
    let seen = world.backend("usr").last();
    assert_eq!(seen.header("x-via-gateway"), None, "another app");
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_the_names_from_a_client_reaches_the_app() {
    let world = with_headers().await;
    world.provider.set_claim("alice", "tenant", json!("blue"));
    let mut alice = world.signed_in("alice").await;
    let names: Vec<String> = ["X-Tenant-Id", "X-Roles", "X-Via-Gateway"]
        .into_iter()
        .flat_map(spellings)
        .collect();
    // A head has room for a hundred fields.
    for names in names.chunks(40) {
        let fields: String = names
            .iter()
            .map(|name| format!("{name}: {FORGED}\r\n"))
            .chain(["Connection: keep-alive, X-Tenant-Id, X-Via-Gateway\r\n".to_owned()])
            .collect();
        for (app, tenants) in [("own", &["blue"][..]), ("open", &[][..])] {
            let target = format!("/apps/{app}/x");
            let answer = alice.send("GET", &target, From::Fetch, &fields, b"").await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            let seen = world.backend(app).last();
            let raw = String::from_utf8_lossy(&seen.raw).into_owned();
            assert!(!raw.contains(FORGED), "{app}: {raw}");
            assert_eq!(seen.all("x-tenant-id"), tenants, "{app}");
            assert_eq!(seen.all("x-via-gateway"), ["yes"], "{app}");
        }
    }
    // Another app has the client's own headers.
    let field = format!("X-Tenant-Id: {FORGED}\r\n");
    let answer = alice
        .send("GET", "/apps/usr/x", From::Fetch, &field, b"")
        .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(world.backend("usr").last().all("x-tenant-id"), [FORGED]);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_the_names_reaches_the_app_over_http2() {
    let backend = Backend::start("own").await;
    let keys = "headers = { \"X-Tenant-Id\" = \"blue\" }";
    let text = table("own", "public", &backend, keys);
    let world = World::with(&text, |settings| settings.listen.h2c = true).await;
    let world = world.and_backend("own", backend);
    let client = Http2::connect(world.running.address).await;
    let mut request = Request::get(format!("http://{}/apps/own/x", world.host));
    for name in spellings("x-tenant-id") {
        request = request.header(name, FORGED);
    }
    let answer = client
        .whole(request.body(whole("")).expect("a request"))
        .await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let seen = world.backend("own").last();
    let raw = String::from_utf8_lossy(&seen.raw).into_owned();
    assert!(!raw.contains(FORGED), "{raw}");
    assert_eq!(seen.all("x-tenant-id"), ["blue"]);
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_that_opens_a_websocket_has_the_headers() {
    let world = with_headers().await;
    world.provider.set_claim("alice", "tenant", json!("blue"));
    let alice = world.signed_in("alice").await;
    let _socket = world.websocket(&alice, "own").await;
    let seen = world.backend("own").last();
    assert_eq!(seen.all("x-tenant-id"), ["blue"]);
    assert_eq!(seen.all("x-via-gateway"), ["yes"]);
}

/// A file with credentials, and the table of an app that gets them.
fn locked(folder: &TempDir, backend: &Backend, password: &str) -> String {
    let file = folder.path().join("password");
    fs::write(&file, format!("ludgate:{password}\n")).expect("written");
    table(
        "locked",
        "user",
        backend,
        &format!("basic_auth_file = {file:?}"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_credentials_of_a_file_replace_those_of_the_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = Backend::start("locked").await;
    let text = locked(&folder, &backend, "s3cret-CANARY");
    let world = World::with(&text, |_| {}).await.ready().await;
    let world = world.and_backend("locked", backend);
    let mut alice = world.signed_in("alice").await;
    let first = "Basic bHVkZ2F0ZTpzM2NyZXQtQ0FOQVJZ";
    for line in [
        "",
        "Authorization: Basic cm9vdDpyb290\r\n",
        "Authorization: Bearer an-opaque-token\r\n",
    ] {
        let target = "/apps/locked/x";
        let answer = alice.send("GET", target, From::Fetch, line, b"").await;
        assert_eq!(answer.status(), 200, "{line}");
        let seen = world.backend("locked").last();
        assert_eq!(seen.all("authorization"), [first], "{line}");
        assert_eq!(answer.header("authorization"), None);
    }
    // A program is identified by its token, which the app does not see.
    let token = world.provider.access_token("bob");
    let answer = world.get_with_token("locked", &token).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let seen = world.backend("locked").last();
    assert_eq!(seen.all("authorization"), [first]);
    assert_eq!(seen.all("x-forwarded-user"), ["bob"]);
    let own = "Authorization: Basic eDp5\r\n";
    let answer = alice
        .send("GET", "/apps/usr/x", From::Fetch, own, b"")
        .await;
    assert_eq!(answer.status(), 200);
    let seen = world.backend("usr").last();
    assert_eq!(seen.all("authorization"), ["Basic eDp5"], "another app");
    // A reload reads the file again.
    let text = locked(&folder, world.backend("locked"), "an0ther");
    let read = settings::parse(&text, Path::new("."), std::iter::empty());
    world
        .running
        .replace_apps(read.unwrap_or_else(|errors| panic!("{errors}")).apps);
    assert_eq!(alice.fetch("/apps/locked/x").await.status(), 200);
    let seen = world.backend("locked").last();
    assert_eq!(seen.all("authorization"), ["Basic bHVkZ2F0ZTphbjB0aGVy"]);
    let log = world.log.text();
    assert!(
        !log.contains("CANARY") && !log.contains("bHVkZ2F0ZTp"),
        "{log}"
    );
}

#[test]
fn the_example_of_the_document_is_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("wiki-password"), "ludgate:secret\n").expect("written");
    let mut examples = blocks(DOCUMENT, "toml").into_iter();
    let example = examples.find(|block| block.contains("headers = {"));
    let provider = "[identity]\nissuer = \"https://id.example.com\"\nclient_id = \"ludgate\"\n";
    let text = example
        .expect("an example")
        .replace("[identity]\n", provider);
    let read = settings::parse(&text, folder.path(), std::iter::empty());
    let settings = read.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let app = &settings.apps[0];
    assert_eq!(app.headers.len(), 3);
    assert!(app.basic_auth.is_some() && app.pass_access_token);
}
