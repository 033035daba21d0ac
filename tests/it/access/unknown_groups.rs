//! A provider whose ID tokens have groups at sign-in only (OpenID Connect Core section 12.2 permits
//! a refresh without an ID token): later the groups are unknown, which is not the same as none.

use std::time::Duration;

use serde_json::json;

use super::rule_apps::add_apps;
use crate::support::{diagnostics::Diagnostics, until::until_async, world::World};

const RECHECK: Duration = Duration::from_secs(5 * 60);

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_says_nothing_of_groups_takes_none_away() {
    let diagnostics = Diagnostics::all();
    let world = World::with("", add_apps).await.ready().await;
    world.provider.give_groups_at_sign_in_only();
    let mut alice = world.signed_in("alice").await;
    world.manual_clock.advance(RECHECK);
    // The request starts the check.
    assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
    diagnostics
        .until_line(&["the answer says nothing of groups"])
        .await;
    assert_eq!(world.provider.calls("userinfo"), 1);
    for (app, wanted) in [("grp", 200), ("not-group", 403)] {
        let answer = alice.fetch(&format!("/apps/{app}/x")).await;
        assert_eq!(answer.status(), wanted, "{app}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_groups_is_renewed_by_such_a_refresh() {
    let world = World::with("", add_apps).await.ready().await;
    world.provider.give_groups_at_sign_in_only();
    world.provider.set_claim("alice", "groups", json!([]));
    let mut alice = world.signed_in("alice").await;
    let address = "new@example.com";
    world.provider.set_claim("alice", "email", json!(address));
    world.manual_clock.advance(RECHECK);
    until_async("the new address is known", async || {
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200);
        let seen = world.backend("usr").last();
        seen.header("x-forwarded-email").as_deref() == Some(address)
    })
    .await;
    assert_eq!(alice.fetch("/apps/not-group/x").await.status(), 200);
}
