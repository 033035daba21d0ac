//! A provider that delivers name and e-mail address at userinfo, as the code flow has it (OpenID
//! Connect Core section 5.4): apps get them all the same, at sign-in and when the person is asked
//! about again.

use std::time::Duration;

use serde_json::json;

use crate::support::{message::PATIENCE, world::World};

const RECHECK: Duration = Duration::from_secs(5 * 60);

/// A provider whose ID tokens hold these claims of a person, and no others.
fn keep_in_id_token(world: &World, kept: &'static [&'static str]) {
    world.provider.set_mischief(Some(Box::new(move |_, claims| {
        let claims = claims.as_object_mut().expect("claims");
        for name in [
            "name",
            "preferred_username",
            "email",
            "email_verified",
            "groups",
        ] {
            if !kept.contains(&name) {
                claims.remove(name);
            }
        }
    })));
}

fn identity(world: &World) -> [Option<String>; 3] {
    let seen = world.backend("usr").last();
    [
        "x-forwarded-email",
        "x-forwarded-preferred-username",
        "x-forwarded-groups",
    ]
    .map(|name| seen.header(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn name_user_name_and_email_come_from_userinfo_when_the_id_token_lacks_them() {
    for kept in [
        &[][..],
        &["groups"],
        &["groups", "preferred_username", "name"],
    ] {
        let world = World::new().await.ready().await;
        keep_in_id_token(&world, kept);
        let mut alice = world.signed_in("alice").await;
        let expected = [
            Some("alice@example.com"),
            Some("alice"),
            Some("phusers,friends"),
        ]
        .map(|text| text.map(str::to_owned));
        assert_eq!(identity(&world), expected, "{kept:?}");
        let said = alice.fetch("/oauth2/userinfo").await.json();
        assert_eq!(
            (said["email"].as_str(), said["preferredUsername"].as_str()),
            (Some("alice@example.com"), Some("alice"))
        );
        assert_eq!(world.provider.calls("userinfo"), 1, "once");
        assert!(alice.open("/apps/").await.text().contains("Alice"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_for_when_the_id_token_says_all() {
    let world = World::new().await.ready().await;
    world.signed_in("alice").await;
    assert_eq!(world.provider.calls("userinfo"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recheck_reads_them_again_and_what_the_provider_never_had_is_not_asked_for_again() {
    let world = World::new().await.ready().await;
    keep_in_id_token(&world, &["groups"]);
    let mut alice = world.signed_in("alice").await;
    world
        .provider
        .set_claim("alice", "email", json!("new@example.com"));
    world.manual_clock.advance(RECHECK);
    let known = async {
        while identity(&world)[0].as_deref() != Some("new@example.com") {
            assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
        }
    };
    tokio::time::timeout(PATIENCE, known)
        .await
        .expect("the new address is known");
    let mut asked = world.provider.calls("userinfo");
    assert_eq!(asked, 2);
    for name in ["email", "name", "preferred_username"] {
        world.provider.set_claim("bob", name, json!(null));
    }
    let mut bob = world.signed_in("bob").await;
    assert_eq!(world.provider.calls("userinfo"), asked + 1);
    asked += 1;
    let refreshed = world.provider.calls("refresh");
    world.manual_clock.advance(RECHECK);
    let again = async {
        while world.provider.calls("refresh") == refreshed {
            assert_eq!(bob.fetch("/apps/usr/x").await.status(), 200);
        }
    };
    tokio::time::timeout(PATIENCE, again)
        .await
        .expect("asked about again");
    assert_eq!(
        world.provider.calls("userinfo"),
        asked,
        "nothing was there the first time"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_address_is_not_used_wherever_it_comes_from() {
    let world = World::new().await.ready().await;
    keep_in_id_token(&world, &["groups"]);
    world
        .provider
        .set_claim("alice", "email_verified", json!(false));
    world.signed_in("alice").await;
    assert_eq!(identity(&world)[0], None);
}
