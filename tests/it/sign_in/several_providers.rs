//! Several providers for people (docs/providers.md): they choose one, and no account, group,
//! session or answer of one provider counts as one of another.

use std::time::Duration;

use ludgate::{
    demo::provider::DemoProvider,
    model::{
        access::Access,
        app::{AppId, AppSpec},
        authentication::AuthenticationRequirement,
        clock::Clock,
    },
    settings::Settings,
};
use serde_json::json;

use crate::{
    sessions::back_channel_logout::{claims, send_logout_token, session_of},
    support::{
        browser::{Browser, From, at_built_in_provider},
        message::Message,
        redis::RedisServer,
        until::{until, until_async},
        world::{SECRET, World, client, free_port},
    },
};

const RECHECK: Duration = Duration::from_secs(5 * 60);
/// Apps beside those of every world, at the address of `usr`.
const APPS: [(&str, &str); 3] = [
    ("corp-grp", "group:corp:phusers"),
    ("corp-mine", "owner:corp:alice"),
    ("mail", "email:alice@example.com"),
];

struct Rig {
    world: World,
    corp: DemoProvider,
}

fn add_apps(settings: &mut Settings) {
    let usr = settings.apps[1].clone();
    let added = APPS.map(|(id, access)| AppSpec {
        id: AppId::new(id).expect("an id"),
        access: Access::parse(access),
        ..usr.clone()
    });
    settings.apps.extend(added);
}

/// The app `corp-grp` needs a sign-in of the last 15 minutes.
fn add_apps_with_a_limit(settings: &mut Settings) {
    add_apps(settings);
    let requirement = AuthenticationRequirement::from_parameters(Some("900"), None);
    let mut apps = settings.apps.iter_mut();
    let app = apps.find(|app| app.id.as_str() == "corp-grp");
    app.expect("added").authentication = requirement.expect("valid").map(Box::new);
}

impl Rig {
    /// A site with a second provider, at which the same names have accounts. `keys` are more keys
    /// of its table.
    async fn start(keys: &str, change: fn(&mut Settings)) -> Rig {
        let (clock, manual_clock) = Clock::manual();
        let port = free_port();
        let host = format!("127.0.0.1:{port}");
        let provider = DemoProvider::start(client(&host), clock.clone());
        let provider = provider.await.expect("a provider");
        let mut registered = client(&host);
        registered.redirect_uris = vec![format!("http://{host}/oauth2/callback/corp")];
        let corp = DemoProvider::start(registered, clock.clone());
        let corp = corp.await.expect("a second provider");
        let table = format!(
            "[[identity.providers]]\nid = \"corp\"\nname = \"Corp & Co\"\nissuer = \"{}\"\n\
             client_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n{keys}\n",
            corp.issuer()
        );
        let world = World::behind(provider, clock, manual_clock, port, &table, change);
        let world = world.await.ready().await;
        Rig { world, corp }
    }

    /// A browser whose person is signed in at a provider, and has opened `usr`.
    async fn signed_in(&self, id: &str, person: &str) -> Browser {
        let mut browser = self.world.browser();
        let landed = sign_in_at(&mut browser, "/apps/usr/", id, person).await;
        assert_eq!(landed.status(), 303, "{}", landed.text());
        assert_eq!(location(&landed), "/apps/usr/");
        assert_eq!(browser.open("/apps/usr/").await.status(), 200);
        let mut canaries = self.world.canaries.lock().expect("no panic");
        canaries.extend(browser.jar.values().cloned());
        drop(canaries);
        browser
    }
}

fn location(answer: &Message) -> String {
    let location = answer.header("location");
    location.unwrap_or_else(|| panic!("no redirect: {answer:?}"))
}

/// The link to a provider on the page where people choose.
fn link(page: &Message, id: &str) -> String {
    let text = page.text();
    let links = text.split("href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    let mut links = links.map(|link| link.replace("&#38;", "&"));
    let wanted = format!("provider={id}");
    let found = links.find(|link| link.ends_with(&wanted));
    found.unwrap_or_else(|| panic!("no {id} in {text}"))
}

/// Where a browser that opens a target is sent after it has chosen.
async fn choose(browser: &mut Browser, target: &str, id: &str) -> String {
    let start = location(&browser.open(target).await);
    let page = browser.open(&start).await;
    assert_eq!(page.status(), 200, "{page:?}");
    location(&browser.open(&link(&page, id)).await)
}

/// The answer of the callback.
async fn sign_in_at(browser: &mut Browser, target: &str, id: &str, person: &str) -> Message {
    let authorize = choose(browser, target, id).await;
    let back = at_built_in_provider(&authorize, person).await;
    browser.open(&back).await
}

async fn assert_statuses(browser: &mut Browser, wanted: [(&str, u16); 6]) {
    for (app, status) in wanted {
        let answer = browser.fetch(&format!("/apps/{app}/x")).await;
        assert_eq!(answer.status(), status, "{app}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_choose_a_provider_and_the_same_name_at_two_is_two_accounts() {
    let rig = Rig::start("", add_apps).await;
    let mut visitor = rig.world.browser();
    let page = visitor
        .open("/oauth2/start?rd=%2Fapps%2Fusr%2F%3Fa%3D1")
        .await;
    let text = page.text();
    assert!(
        text.contains("Corp &#38; Co") && text.contains("127.0.0.1"),
        "{text}"
    );
    assert!(!text.contains("<script"), "{text}");
    for id in ["default", "corp"] {
        let authorize = location(&visitor.open(&link(&page, id)).await);
        let back = at_built_in_provider(&authorize, "bob").await;
        let landed = visitor.open(&back).await;
        assert_eq!(location(&landed), "/apps/usr/?a=1", "{id}");
    }
    let mut at_corp = rig.signed_in("corp", "alice").await;
    let seen = rig.world.backend("usr").last();
    assert_eq!(
        seen.header("x-forwarded-user").as_deref(),
        Some("corp:alice")
    );
    let username = seen.header("x-forwarded-preferred-username");
    assert_eq!(username.as_deref(), Some("corp:alice"));
    let groups = seen.header("x-forwarded-groups").expect("groups");
    assert!(
        groups.split(',').all(|group| group.starts_with("corp:")),
        "{groups}"
    );
    assert_eq!(seen.header("x-forwarded-email"), None);
    let of_corp = [
        ("usr", 200),
        ("grp", 403),
        ("mine", 403),
        ("corp-grp", 200),
        ("corp-mine", 200),
        ("mail", 403),
    ];
    assert_statuses(&mut at_corp, of_corp).await;
    let mut at_default = rig.signed_in("default", "alice").await;
    let seen = rig.world.backend("usr").last();
    assert_eq!(seen.header("x-forwarded-user").as_deref(), Some("alice"));
    let of_default = [
        ("usr", 200),
        ("grp", 200),
        ("mine", 200),
        ("corp-grp", 403),
        ("corp-mine", 403),
        ("mail", 200),
    ];
    assert_statuses(&mut at_default, of_default).await;
    let token = rig.corp.access_token("alice");
    let bearer = rig.world.get_with_token("usr", &token);
    assert_ne!(
        bearer.await.status(),
        200,
        "its tokens are no bearer tokens"
    );
    rig.world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_a_provider_that_is_trusted_for_them_count() {
    let rig = Rig::start("emails = true", add_apps).await;
    let mut alice = rig.signed_in("corp", "alice").await;
    assert_eq!(alice.fetch("/apps/mail/x").await.status(), 200);
    assert_eq!(alice.fetch("/apps/mine/x").await.status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_of_the_default_provider_cannot_take_a_name_of_another() {
    let rig = Rig::start("", add_apps).await;
    let refused = [
        ("groups", json!(["corp:phusers"])),
        ("groups", json!(["/corp:phusers"])),
        ("preferred_username", json!("corp:alice")),
    ];
    for (claim, value) in refused {
        rig.world.provider.set_claim("bob", claim, value.clone());
        let mut bob = rig.world.browser();
        let answer = sign_in_at(&mut bob, "/apps/usr/", "default", "bob").await;
        assert_eq!(answer.status(), 400, "{value}: {}", answer.text());
        assert_eq!(bob.value("ludgate"), None, "{value}");
        let token = rig.world.provider.access_token("bob");
        let answer = rig.world.get_with_token("corp-grp", &token).await;
        assert_eq!(answer.status(), 401, "{value}");
        rig.world.provider.set_claim("bob", "groups", json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_whose_new_name_is_that_of_another_provider_is_signed_out() {
    let rig = Rig::start("", add_apps).await;
    let mut alice = rig.signed_in("default", "alice").await;
    let groups = json!(["corp:phusers"]);
    rig.world.provider.set_claim("alice", "groups", groups);
    rig.world.manual_clock.advance(RECHECK);
    until_async("the sign-in is revoked", async || {
        alice.fetch("/apps/usr/x").await.status() == 401
    })
    .await;
    assert_eq!(alice.fetch("/apps/corp-grp/x").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_one_provider_is_refused_at_the_address_of_another() {
    let rig = Rig::start("", add_apps).await;
    for (id, own, other) in [
        ("corp", "/oauth2/callback/corp?", "/oauth2/callback?"),
        ("default", "/oauth2/callback?", "/oauth2/callback/corp?"),
    ] {
        let mut alice = rig.world.browser();
        let authorize = choose(&mut alice, "/apps/usr/", id).await;
        let back = at_built_in_provider(&authorize, "alice").await;
        assert!(back.starts_with(own), "{back}");
        let calls = || rig.world.provider.calls("token") + rig.corp.calls("token");
        let before = calls();
        let refused = alice.open(&back.replace(own, other)).await;
        assert_eq!(refused.status(), 400, "{id}: {}", refused.text());
        let foreign = if id == "corp" {
            rig.world.provider.issuer()
        } else {
            rig.corp.issuer()
        };
        let with_issuer = format!("{back}&iss={foreign}");
        assert_eq!(alice.open(&with_issuer).await.status(), 400, "{id}");
        let unknown = back.replace(own, "/oauth2/callback/none?");
        assert_eq!(alice.open(&unknown).await.status(), 404, "{id}");
        assert_eq!(calls(), before, "{id}: the code was sent to no provider");
        assert_eq!(alice.value("ludgate"), None, "{id}");
        assert_eq!(location(&alice.open(&back).await), "/apps/usr/", "{id}");
    }
    let mut visitor = rig.world.browser();
    for wrong in ["none", "", "corp&provider=corp"] {
        let target = format!("/oauth2/start?go=1&provider={wrong}");
        let answer = visitor
            .once("GET", &target, From::Navigation, "", b"")
            .await;
        assert_eq!(answer.status(), 400, "{wrong:?}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_another_site_changes_no_session() {
    let rig = Rig::start("", add_apps).await;
    let mut alice = rig.signed_in("default", "alice").await;
    let foreign = From::ForeignNavigation;
    for target in [
        "/oauth2/start?provider=corp&rd=%2Fapps%2Fusr%2F",
        "/oauth2/start?rd=%2Fapps%2Fusr%2F&go=1&%70rovider=corp",
    ] {
        let page = alice.once("GET", target, foreign, "", b"").await;
        assert_eq!(page.status(), 200, "{page:?}");
        let to_corp = link(&page, "corp");
        assert_eq!(to_corp.matches("rovider=").count(), 1, "{to_corp}");
        let authorize = location(&alice.open(&to_corp).await);
        assert!(authorize.starts_with(rig.corp.issuer()), "{authorize}");
    }
    // Without a session there is none to lose, and the own provider may be named.
    let issuers = [rig.world.provider.issuer(), rig.corp.issuer()];
    let mut visitor = rig.world.browser();
    for (browser, id, issuer) in [
        (&mut alice, "default", issuers[0]),
        (&mut visitor, "corp", issuers[1]),
    ] {
        let target = format!("/oauth2/start?provider={id}&go=1");
        let begun = browser.once("GET", &target, foreign, "", b"").await;
        let authorize = location(&begun);
        assert!(authorize.starts_with(issuer), "{authorize}");
    }
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_further_providers_their_callbacks_do_not_exist() {
    let changes: [fn(&mut Settings); 2] = [|_| {}, |settings| settings.identity = None];
    for change in changes {
        let world = World::with("", change).await;
        let target = "/oauth2/callback/corp?code=a&state=b";
        assert_eq!(world.browser().open(target).await.status(), 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_goes_on_to_the_provider_of_the_person() {
    let rig = Rig::start("", add_apps).await;
    let (default, corp) = (rig.world.provider.issuer(), rig.corp.issuer());
    for (id, own, other) in [("corp", corp, default), ("default", default, corp)] {
        let mut alice = rig.signed_in(id, "alice").await;
        let page = alice.sign_out().await.text();
        assert!(page.contains(&format!("{own}/end_session")), "{page}");
        assert!(!page.contains(other), "{page}");
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 401, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_of_one_provider_ends_no_session_of_another() {
    let rig = Rig::start("", add_apps).await;
    let world = &rig.world;
    let mut at_corp = rig.signed_in("corp", "alice").await;
    let mut at_default = rig.signed_in("default", "alice").await;
    let sign = |provider: &DemoProvider, subject: Option<&str>, session: Option<&str>, id: &str| {
        let mut claims = claims(world, subject, session, id);
        claims["iss"] = provider.issuer().into();
        let header = json!({"alg": "ES256", "typ": "logout+jwt", "kid": provider.key_id()});
        provider.sign(&header, &claims)
    };
    let of_corp = session_of(world, &at_corp);
    for token in [
        sign(&world.provider, Some("corp:alice"), None, "1"),
        sign(&world.provider, None, Some(&of_corp), "2"),
        sign(&rig.corp, None, Some(&session_of(world, &at_default)), "3"),
    ] {
        assert_eq!(send_logout_token(world, &token).await.status(), 200);
    }
    // Signed by one provider in the name of another.
    let mut forged = claims(world, Some("alice"), None, "4");
    forged["iss"] = world.provider.issuer().into();
    let header = json!({"alg": "ES256", "typ": "logout+jwt", "kid": rig.corp.key_id()});
    let forged = rig.corp.sign(&header, &forged);
    assert_eq!(send_logout_token(world, &forged).await.status(), 400);
    assert_eq!(at_corp.fetch("/apps/usr/x").await.status(), 200);
    assert_eq!(at_default.fetch("/apps/usr/x").await.status(), 200);
    // The same `jti` at two providers is two tokens.
    let token = sign(&rig.corp, Some("alice"), None, "1");
    assert_eq!(send_logout_token(world, &token).await.status(), 200);
    assert_eq!(at_corp.fetch("/apps/usr/x").await.status(), 401);
    assert_eq!(at_default.fetch("/apps/usr/x").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_checked_again_at_their_own_provider() {
    let rig = Rig::start("", add_apps).await;
    let mut at_corp = rig.signed_in("corp", "alice").await;
    let mut at_default = rig.signed_in("default", "alice").await;
    rig.corp.set_claim("alice", "groups", json!(["friends"]));
    rig.world.manual_clock.advance(RECHECK);
    until_async("the group is gone", async || {
        at_corp.fetch("/apps/corp-grp/x").await.status() == 403
    })
    .await;
    assert_eq!(at_corp.fetch("/apps/corp-mine/x").await.status(), 200);
    assert_eq!(rig.world.provider.calls("refresh"), 0);
    assert_eq!(at_default.fetch("/apps/grp/x").await.status(), 200);
    until("the other one is checked", || {
        rig.world.provider.calls("refresh") == 1
    })
    .await;
    assert_eq!(rig.corp.calls("refresh"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_must_sign_in_again_stays_with_their_provider() {
    let rig = Rig::start("", add_apps_with_a_limit).await;
    let mut alice = rig.signed_in("corp", "alice").await;
    assert_eq!(alice.open("/apps/corp-grp/x").await.status(), 200);
    rig.world.manual_clock.advance(Duration::from_secs(901));
    let start = alice.open("/apps/corp-grp/x").await;
    let authorize = location(&alice.open(&location(&start)).await);
    assert!(authorize.starts_with(rig.corp.issuer()), "{authorize}");
    assert!(authorize.contains("max_age=900"), "{authorize}");
    let landed = alice.sign_in_from(&start, "alice").await;
    assert_eq!(location(&landed), "/apps/corp-grp/x");
    assert_eq!(alice.open("/apps/corp-grp/x").await.status(), 200);
    // A person who wants another account may want another provider.
    let page = alice.open("/oauth2/start?rd=%2F&prompt=login").await;
    let authorize = location(&alice.open(&link(&page, "default")).await);
    assert!(
        authorize.starts_with(rig.world.provider.issuer()),
        "{authorize}"
    );
    assert!(authorize.contains("prompt=login"), "{authorize}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_know_the_provider_of_a_session_and_end_one_of_a_removed_provider() {
    let redis = RedisServer::start().await;
    let rig = Rig::start(&redis.section(), add_apps).await;
    let same = rig.world.replica(add_apps).await;
    let without = |settings: &mut Settings| {
        add_apps(settings);
        let identity = settings.identity.as_mut();
        identity.expect("the default one").providers.clear();
    };
    let without = rig.world.replica(without).await;
    for world in [&rig.world, &same, &without] {
        world.until_counted("ludgate_session_store_up 1").await;
    }
    let mut alice = rig.signed_in("corp", "alice").await;
    rig.world.manual_clock.advance(RECHECK);
    alice.turn_to(same.running.address);
    until_async("another replica checks the person", async || {
        let answer = alice.fetch("/apps/corp-grp/x").await;
        answer.status() == 200 && rig.corp.calls("refresh") == 1
    })
    .await;
    rig.world.manual_clock.advance(RECHECK);
    alice.turn_to(without.running.address);
    until_async("the session is revoked", async || {
        alice.fetch("/apps/corp-grp/x").await.status() == 401
    })
    .await;
    assert_eq!(rig.corp.calls("refresh"), 1);
    assert_eq!(
        rig.world.provider.calls("refresh"),
        0,
        "no token of another"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_sent_to_the_provider_that_has_the_id_of_another_now() {
    let redis = RedisServer::start().await;
    let rig = Rig::start(&redis.section(), add_apps).await;
    let swapped = |settings: &mut Settings| {
        add_apps(settings);
        let identity = settings.identity.as_mut().expect("the default one");
        std::mem::swap(&mut identity.issuer, &mut identity.providers[0].issuer);
    };
    let swapped = rig.world.replica(swapped).await;
    for world in [&rig.world, &swapped] {
        world.until_counted("ludgate_session_store_up 1").await;
    }
    for id in ["corp", "default"] {
        let mut alice = rig.signed_in(id, "alice").await;
        let default: &DemoProvider = &rig.world.provider;
        let providers = [&rig.corp, default];
        let calls = || providers.map(|it| it.calls("refresh") + it.calls("revoke"));
        let before = calls();
        rig.world.manual_clock.advance(RECHECK);
        alice.turn_to(swapped.running.address);
        until_async("the session is revoked", async || {
            alice.fetch("/apps/usr/x").await.status() == 401
        })
        .await;
        assert_eq!(calls(), before, "{id}");
    }
}
