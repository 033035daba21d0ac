//! What belongs to a group: its instance types, and its apps when the group is removed.

use std::sync::Arc;

use serde_json::json;

use super::{CREATE, GET, UPDATE, ids, mutation, named, namespace, new_app};
use crate::support::api::Api;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_to_an_instance_type_of_another_group_changes_nothing() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    api.data("bob", CREATE, new_app("theirs", "friends")).await;
    let before = namespace.object("theirs").await;
    // Alice may use gpu-1, but not in this group; carol is an administrator.
    for person in ["bob", "alice", "carol"] {
        for instance_type in ["gpu-1", "nope", ""] {
            let data =
                json!({ "instanceType": instance_type, "displayName": "Changed", "env": [] });
            let change = json!({ "where": { "id": "theirs" }, "data": data });
            let (code, said) = api.error(person, UPDATE, change).await;
            assert_eq!(code, "REQUEST_BODY_INVALID", "{person}: {said}");
            let wanted = format!(
                "instanceType: the group friends has no instance type {instance_type:?}; it has: cpu-1"
            );
            assert_eq!(said, wanted, "{person}");
        }
    }
    assert_eq!(namespace.object("theirs").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_of_a_removed_group_stay_until_they_are_deleted() {
    let namespace = namespace().await;
    let api = Api::start(&namespace).await;
    api.data("alice", CREATE, new_app("lab", "phusers")).await;
    let before = namespace.object("lab").await;
    // As a reload of the configuration does.
    api.running.platform.send_modify(|platform| {
        Arc::make_mut(platform).groups.remove("phusers");
    });
    assert_eq!(ids(&api, "carol", json!({})).await, ["lab"]);
    let of_group = json!({ "groupName_in": ["phusers"] });
    assert_eq!(ids(&api, "carol", of_group.clone()).await, ["lab"]);
    let seen = api.data("carol", GET, named("lab")).await;
    assert_eq!(seen["phApplication"]["groupName"], "phusers");
    // The provider still says that alice is in the group.
    assert_eq!(ids(&api, "alice", json!({})).await, ["lab"]);
    assert!(ids(&api, "bob", of_group).await.is_empty());
    let groups = "{ me { effectiveGroups { name } } }";
    let groups = api.data("alice", groups, json!({})).await["me"].clone();
    let left = json!([{ "name": "friends" }]);
    assert_eq!(groups["effectiveGroups"], left);
    for person in ["alice", "carol"] {
        let (code, said) = api.error(person, CREATE, new_app("new", "phusers")).await;
        assert_eq!(code, "REQUEST_BODY_INVALID");
        let wanted = "groupName: the platform has no group \"phusers\"";
        assert_eq!(said, wanted);
    }
    assert_eq!(namespace.object("lab").await, before);

    let stopped = api.data("carol", &mutation("stop"), named("lab")).await;
    assert_eq!(stopped["stopPhApplication"]["stop"], true);
    let deleted = api.data("carol", &mutation("delete"), named("lab")).await;
    assert_eq!(deleted["deletePhApplication"]["id"], "lab");
    assert!(ids(&api, "carol", json!({})).await.is_empty());
}
