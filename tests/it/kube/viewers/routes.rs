//! Routes of viewers for installations that publish by Istio or the Gateway API.

use k8s_openapi::api::core::v1::Service;
use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use super::golden::GoldenViewer;
use crate::support::{
    changes::Changes,
    controller::{Controlled, ControllerKind, Prepared},
    kube_namespace::kind_of,
    viewer::{child, is_started, labels},
};

fn virtual_services() -> ApiResource {
    let kind = GroupVersionKind::gvk("networking.istio.io", "v1alpha3", "VirtualService");
    ApiResource::from_gvk_with_plural(&kind, "virtualservices")
}

fn http_routes() -> ApiResource {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    ApiResource::from_gvk_with_plural(&kind, "httproutes")
}

/// The controller, with these keys and the rights to make routes.
async fn route_controller(more: &str) -> Controlled {
    let prepared = Prepared::for_controller(ControllerKind::Viewers, more).await;
    prepared.namespace.grant("viewer-routes.yaml").await;
    prepared.start().await
}

/// The route of the viewer `v`.
async fn route(controlled: &Controlled, kind: &ApiResource) -> Option<DynamicObject> {
    let api = controlled.namespace.api(kind);
    api.get_opt(&child("v")).await.expect("an answer")
}

/// Checks that the route has the labels and the owner of the other objects, and this spec.
async fn check(controlled: &Controlled, kind: &ApiResource, spec: Value) {
    let route = route(controlled, kind).await.expect("a route");
    let golden = GoldenViewer::new(&controlled.namespace, "v")
        .await
        .metadata();
    assert_eq!(json!(route.metadata.labels), labels("v"));
    assert_eq!(
        json!(route.metadata.owner_references),
        golden["ownerReferences"]
    );
    assert_eq!(route.data["spec"], spec);
}

/// Removes the networking of the viewer `v`, and waits until its Service and route are gone.
async fn lose_networking(controlled: &Controlled, kind: &ApiResource) {
    controlled.start_viewer("v", json!({ "pvc": "p" })).await;
    for kind in [kind, &kind_of::<Service>()] {
        controlled.namespace.until_gone(kind, &child("v")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_service_is_made_changed_and_deleted_with_the_networking() {
    let controlled = route_controller("publish = \"virtual_service\"\n").await;
    let (kind, namespace) = (virtual_services(), controlled.namespace.name.clone());
    controlled.start_viewer("v", json!({ "pvc": "p" })).await;
    assert!(route(&controlled, &kind).await.is_none());

    let host = format!("pvcviewer-v.{namespace}.svc.cluster.local");
    let destination = json!({ "destination": { "host": host, "port": { "number": 80 } } });
    let wanted = |prefix: &str, rewrite: &str| {
        json!({
            "hosts": ["*"],
            "gateways": ["kubeflow/kubeflow-gateway"],
            "http": [{
                "match": [{ "uri": { "prefix": prefix } }],
                "rewrite": { "uri": rewrite },
                "route": [destination],
            }],
        })
    };
    let networking = json!({ "targetPort": 80, "basePrefix": "/base" });
    let spec = json!({ "pvc": "p", "networking": networking });
    controlled.start_viewer("v", spec).await;
    let prefix = format!("/base/{namespace}/v/");
    check(&controlled, &kind, wanted(&prefix, &prefix)).await;
    let status = controlled.until_viewer("v", is_started).await;
    assert_eq!(status["url"], prefix);

    let networking = json!({
        "targetPort": 80, "basePrefix": "/newbase", "timeout": "10s", "rewrite": "/newrewrite",
    });
    let spec = json!({ "pvc": "p", "networking": networking });
    controlled.start_viewer("v", spec).await;
    let mut changed = wanted(&format!("/newbase/{namespace}/v/"), "/newrewrite");
    changed["http"][0]["timeout"] = "10s".into();
    check(&controlled, &kind, changed).await;

    lose_networking(&controlled, &kind).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_route_is_made_restored_and_deleted_with_the_networking() {
    let more = "publish = \"http_route\"\npublish_gateway = \"gateways/edge\"\n";
    let controlled = route_controller(more).await;
    let (kind, namespace) = (http_routes(), controlled.namespace.name.clone());
    let networking = json!({ "targetPort": 80, "basePrefix": "/base", "rewrite": "/" });
    let spec = json!({ "pvc": "p", "networking": networking });
    controlled.start_viewer("v", spec).await;
    let path = json!({ "type": "PathPrefix", "value": format!("/base/{namespace}/v/") });
    let rewrite = json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": "/" });
    let wanted = json!({
        "parentRefs": [{ "name": "edge", "namespace": "gateways" }],
        "rules": [{
            "matches": [{ "path": path }],
            "backendRefs": [{ "name": "pvcviewer-v", "port": 80 }],
            "filters": [{ "type": "URLRewrite", "urlRewrite": { "path": rewrite } }],
        }],
    });
    check(&controlled, &kind, wanted.clone()).await;

    let api = controlled.namespace.api(&kind);
    let deleted = api.delete(&child("v"), &Default::default()).await;
    deleted.expect("deleted");
    Changes::named(api, &child("v")).until(|_| true).await;
    check(&controlled, &kind, wanted).await;

    lose_networking(&controlled, &kind).await;
}
