//! People sign in at the hub, choose, follow the start of their labs, use and stop them: two at the
//! same time, in both dialects, and behind the gateway.

use std::net::SocketAddr;

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};

use super::{
    browser::{HubBrowser, assert_ready, messages},
    hub::{HubAddress, HubServer, HubSignIn},
    site::{LabChoices, LabSite},
};
use crate::support::world::{World, client, free_port};

/// What the scheduler says about a pod that it has placed.
const PLACED: &str = "Successfully assigned";

/// Starts the lab of a person who has signed in, and opens it.
pub async fn start_lab(person: &mut HubBrowser, complete: &str) {
    person.spawn().await;
    let events = person.progress().await;
    assert_ready(&events, PLACED);
    let is_complete = messages(&events).iter().any(|it| it.contains(complete));
    assert!(is_complete, "no {complete:?} in {events:?}");
    let lab = person.open_lab(person.person).await;
    assert_eq!(lab.status(), 200, "{}", lab.text());
    let text = lab.text();
    assert!(text.contains("jupyter-config-data"), "{text}");
    assert!(
        text.contains(&format!("/user/{}/", person.person)),
        "{text}"
    );
}

/// Stops the lab, and waits until nothing is left of it.
pub async fn stop_lab(person: &mut HubBrowser, site: &LabSite) {
    person.stop().await;
    site.until_gone(person.person).await;
}

/// Two people at a hub without a gateway.
async fn check_two_people(dialect: &'static str, complete: &str) {
    let address = HubAddress::direct();
    let mut hub_client = client(&address.authority);
    hub_client.redirect_uris.push(address.callback());
    let provider = DemoProvider::start(hub_client, Clock::system()).await;
    let site = LabSite::start(provider.expect("started"), LabChoices::plain(dialect)).await;
    let hub = HubServer::start(&site, address, HubSignIn::Provider).await;
    let mut alice = hub.browser("alice", hub.address.proxy);
    let mut bob = hub.browser("bob", hub.address.proxy);
    let both = async |person: &mut HubBrowser| {
        person.sign_in().await;
        start_lab(person, complete).await;
    };
    tokio::join!(both(&mut alice), both(&mut bob));

    let refused = bob.open_lab("alice").await;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    stop_lab(&mut alice, &site).await;
    let lab = bob.open_lab("bob").await;
    assert_eq!(lab.status(), 200, "{}", lab.text());
    stop_lab(&mut bob, &site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_use_their_labs_at_the_same_time_in_the_dialect_of_the_document() {
    check_two_people("sqr-066", "Operation complete for").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_use_their_labs_at_the_same_time_in_the_dialect_of_nublado() {
    check_two_people("nublado", "Lab Kubernetes pod started for").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_the_gateway_a_hub_opens_a_lab_to_its_owner_alone() {
    let gateway = free_port();
    let address = HubAddress {
        authority: format!("127.0.0.1:{gateway}"),
        base: "/apps/nb",
        proxy: SocketAddr::from(([127, 0, 0, 1], free_port())),
    };
    let (clock, manual_clock) = Clock::manual();
    let mut own_client = client(&address.authority);
    own_client.redirect_uris.push(address.callback());
    let provider = DemoProvider::start(own_client, clock.clone()).await;
    let provider = provider.expect("started");
    let app = format!(
        "[[apps]]\nid = \"nb\"\naccess = \"user\"\nupstream = \"http://{}\"\n",
        address.proxy
    );
    let world = World::behind(provider.clone(), clock, manual_clock, gateway, &app, |_| {});
    let world = world.await.ready().await;
    let site = LabSite::start(provider, LabChoices::plain("nublado")).await;
    let hub = HubServer::start(&site, address, HubSignIn::Provider).await;

    let mut alice = hub.browser("alice", world.running.address);
    alice.sign_in().await;
    start_lab(&mut alice, "Lab Kubernetes pod started for alice").await;

    let stranger = world.browser().open("/apps/nb/user/alice/lab").await;
    assert_eq!(stranger.status(), 302, "{}", stranger.text());
    let mut bob = hub.browser("bob", world.running.address);
    let refused = bob.open_lab("alice").await;
    assert_eq!(refused.status(), 403, "{}", refused.text());
    let lab = alice.open_lab("alice").await;
    assert_eq!(lab.status(), 200, "{}", lab.text());
    stop_lab(&mut alice, &site).await;
}
