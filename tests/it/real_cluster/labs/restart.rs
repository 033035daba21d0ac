//! The controller is killed while a lab starts.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ludgate::{demo::provider::DemoProvider, model::clock::Clock};

use super::{
    browser::assert_ready,
    hub::{HubAddress, HubServer, HubSignIn},
    site::{LabChoices, LabSite, offer_volume},
};
use crate::support::{changes::Changes, world::client};

/// Whether the scheduler has found no node for a pod.
fn is_unschedulable(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "PodScheduled" && it.status == "False")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_when_the_controller_was_killed_while_the_pod_was_pending() {
    let address = HubAddress::direct();
    let mut hub_client = client(&address.authority);
    hub_client.redirect_uris.push(address.callback());
    let provider = DemoProvider::start(hub_client, Clock::system()).await;
    let choices = LabChoices {
        has_scratch: true,
        ..LabChoices::plain("sqr-066")
    };
    let mut site = LabSite::start(provider.expect("started"), choices).await;
    let hub = HubServer::start(&site, address, HubSignIn::Provider).await;
    let mut alice = hub.browser("alice", hub.address.proxy);
    alice.sign_in().await;
    alice.spawn().await;

    let name = site.object("alice");
    let mut pods = Changes::named(site.pods("alice"), &name);
    let meanwhile = async {
        // It waits for its volume.
        let pending = pods.until(is_unschedulable).await;
        site.labs.kill();
        site.labs.start().await;
        offer_volume(&site, "alice", &format!("{name}-pvc-scratch")).await;
        pending
    };
    let (events, pending) = tokio::join!(alice.progress(), meanwhile);
    assert_ready(&events, "Operation complete for alice");
    assert!(events.iter().all(|event| event["failed"].is_null()));
    let lab = alice.open_lab("alice").await;
    assert_eq!(lab.status(), 200, "{}", lab.text());
    let running = site.pods("alice").get(&name).await.expect("a pod");
    assert_eq!(running.uid(), pending.uid(), "the pod was made again");
    alice.stop().await;
    site.until_gone("alice").await;
}
