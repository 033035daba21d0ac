//! The route of a viewer for installations that publish by Istio or the Gateway API. Ludgate's own
//! gateway needs none: it reads the PVCViewers.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    parsed::{Networking, SERVICE_PORT, Viewer},
    settings::Publication,
};

/// The route, without metadata, if one is wanted.
pub fn route(viewer: &Viewer, publication: &Publication) -> Option<Value> {
    let networking = viewer.networking.as_ref()?;
    match publication {
        Publication::Ludgate => None,
        Publication::VirtualService { gateway } => {
            Some(virtual_service(viewer, networking, gateway))
        }
        Publication::HttpRoute { gateway, namespace } => {
            let parent = json!({ "name": gateway, "namespace": namespace });
            Some(http_route(viewer, networking, &parent))
        }
    }
}

/// Kubeflow's VirtualService.
fn virtual_service(viewer: &Viewer, networking: &Networking, gateway: &str) -> Value {
    let host = format!(
        "{}.{}.svc.cluster.local",
        viewer.child_name(),
        viewer.namespace
    );
    let mut rule = json!({
        "match": [{ "uri": { "prefix": networking.prefix } }],
        "rewrite": { "uri": networking.rewrite },
        "route": [{ "destination": { "host": host, "port": { "number": SERVICE_PORT } } }],
    });
    if let Some(timeout) = networking.timeout {
        rule["timeout"] = istio_duration(timeout).into();
    }
    json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "VirtualService",
        "spec": { "hosts": ["*"], "gateways": [gateway], "http": [rule] },
    })
}

fn http_route(viewer: &Viewer, networking: &Networking, parent: &Value) -> Value {
    let path = json!({ "type": "PathPrefix", "value": networking.prefix });
    let mut rule = json!({
        "matches": [{ "path": path }],
        "backendRefs": [{ "name": viewer.child_name(), "port": SERVICE_PORT }],
    });
    if networking.rewrite != networking.prefix {
        let path =
            json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": networking.rewrite });
        rule["filters"] = json!([{ "type": "URLRewrite", "urlRewrite": { "path": path } }]);
    }
    if let Some(timeout) = networking.timeout {
        rule["timeouts"] = json!({ "request": gateway_duration(timeout) });
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "spec": { "parentRefs": [parent], "rules": [rule] },
    })
}

/// In Protobuf's JSON form: seconds, with a fraction.
fn istio_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        millis => format!("{}.{millis:03}s", duration.as_secs()),
    }
}

/// In the Gateway API's form (GEP-2257), which has no fractions, and five digits in each unit.
fn gateway_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (duration.subsec_millis().into(), "ms"),
    ];
    let parts = units.iter().filter(|(number, _)| *number > 0);
    let text: String = parts
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    match text.is_empty() {
        true => "0s".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::samples;

    fn made(networking: Value, publication: &Publication) -> Option<Value> {
        let viewer = samples::viewer(json!({ "pvc": "data", "networking": networking }));
        route(&viewer, publication)
    }

    #[test]
    fn a_virtual_service_is_kubeflows() {
        let istio = Publication::VirtualService {
            gateway: "kubeflow/kubeflow-gateway".into(),
        };
        let changed =
            json!({ "basePrefix": "/newbase", "timeout": "10s", "rewrite": "/newrewrite" });
        let host = "pvcviewer-v.team.svc.cluster.local";
        let route = json!([{ "destination": { "host": host, "port": { "number": 80 } } }]);
        let wanted = |rule: Value| {
            json!({
                "apiVersion": "networking.istio.io/v1alpha3",
                "kind": "VirtualService",
                "spec": {
                    "hosts": ["*"], "gateways": ["kubeflow/kubeflow-gateway"], "http": [rule],
                },
            })
        };
        for (networking, rule) in [
            (
                json!({ "targetPort": 80, "basePrefix": "/base" }),
                json!({
                    "match": [{ "uri": { "prefix": "/base/team/v/" } }],
                    "rewrite": { "uri": "/base/team/v/" },
                    "route": route,
                }),
            ),
            (
                changed,
                json!({
                    "match": [{ "uri": { "prefix": "/newbase/team/v/" } }],
                    "rewrite": { "uri": "/newrewrite" },
                    "route": route,
                    "timeout": "10s",
                }),
            ),
        ] {
            assert_eq!(made(networking, &istio), Some(wanted(rule)));
        }
        assert_eq!(made(json!({}), &istio), None);
        assert_eq!(
            made(json!({ "targetPort": 80 }), &Publication::Ludgate),
            None
        );
    }

    #[test]
    fn an_http_route_rewrites_only_if_the_path_changes() {
        let gateway = Publication::HttpRoute {
            gateway: "edge".into(),
            namespace: "gateways".into(),
        };
        let backend = json!([{ "name": "pvcviewer-v", "port": 80 }]);
        let path = json!([{ "path": { "type": "PathPrefix", "value": "/b/team/v/" } }]);
        let rewrite = json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": "/" });
        for (networking, rule) in [
            (
                json!({ "basePrefix": "/b" }),
                json!({ "matches": path, "backendRefs": backend }),
            ),
            (
                json!({ "basePrefix": "/b", "rewrite": "/", "timeout": "1h1.5s" }),
                json!({
                    "matches": path,
                    "backendRefs": backend,
                    "filters": [{ "type": "URLRewrite", "urlRewrite": { "path": rewrite } }],
                    "timeouts": { "request": "1h1s500ms" },
                }),
            ),
        ] {
            let route = made(networking, &gateway).expect("a route");
            let parents = json!([{ "name": "edge", "namespace": "gateways" }]);
            assert_eq!(
                route["spec"],
                json!({ "parentRefs": parents, "rules": [rule] })
            );
        }
    }

    #[test]
    fn durations_have_the_form_of_their_api() {
        for (millis, istio, gateway) in [
            (0, "0s", "0s"),
            (30_000, "30s", "30s"),
            (90_500, "90.500s", "1m30s500ms"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(istio_duration(duration), istio);
            assert_eq!(gateway_duration(duration), gateway);
        }
    }
}
