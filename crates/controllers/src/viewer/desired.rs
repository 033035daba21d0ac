//! The objects of a viewer: a NetworkPolicy and a Deployment, and with networking a Service and
//! perhaps a route. Their fields are those that Kubeflow's controller writes.
//!
//! Invariant: only the gateway reaches the pod, which has no authentication of its own.

use serde_json::{Value, json};

use super::{
    parsed::{Networking, SERVICE_PORT, Viewer},
    placement::Placement,
    pod, reserved_name,
    route::route,
    settings::ViewerSettings,
    stop_reason::StopReason,
};
use crate::network_policy::{ingress, proxy_peers};

/// Annotation of the Deployment with the uid of the claim. A viewer whose claim is absent is
/// deleted only if the claim has existed.
pub const CLAIM_UID_ANNOTATION: &str = "ludgate/claim-uid";

/// The objects of a viewer. All have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewerObjects {
    /// Who may send requests to the pod.
    pub policy: Value,
    /// The Service, if the viewer has networking.
    pub service: Option<Value>,
    /// Istio's or the Gateway API's route, if viewers are published by one.
    pub route: Option<Value>,
    /// The pod; no replica if the viewer is stopped.
    pub deployment: Value,
}

/// A viewer and all that its objects are made of.
#[derive(Clone, Copy)]
pub struct ViewerContext<'a> {
    /// The viewer.
    pub viewer: &'a Viewer,
    /// What holds for all viewers.
    pub settings: &'a ViewerSettings,
    /// Where the pod may run.
    pub placement: &'a Placement,
    /// Why it has no pod; `None`: it has one.
    pub stop: Option<&'a StopReason>,
    /// The uid of its claim; `None`: there is no such claim.
    pub claim_uid: Option<&'a str>,
}

/// The objects of a viewer.
///
/// # Errors
/// The viewer brings a pod that is not allowed, or there is no default one. Then nothing is made.
pub fn objects(context: ViewerContext<'_>) -> Result<ViewerObjects, StopReason> {
    let ViewerContext {
        viewer,
        settings,
        placement,
        stop,
        claim_uid,
    } = context;
    reserved_name::check(viewer, settings).map_err(StopReason::Invalid)?;
    let pod = pod::spec(viewer, settings, placement)?;
    let replicas = if stop.is_some() { 0 } else { 1 };
    let service = viewer.networking.as_ref();
    let service = service.map(|networking| service_object(viewer, networking));
    let route = route(viewer, &settings.publication).map(|mut route| {
        route["metadata"] = metadata(viewer);
        route
    });
    Ok(ViewerObjects {
        policy: policy(viewer, settings),
        service,
        route,
        deployment: deployment(viewer, pod, replicas, claim_uid),
    })
}

fn metadata(viewer: &Viewer) -> Value {
    json!({
        "name": viewer.child_name(),
        "namespace": viewer.namespace,
        "labels": viewer.labels(),
    })
}

/// The old pod is gone before the new one starts: both could not mount a volume of one node.
fn deployment(viewer: &Viewer, pod: Value, replicas: u8, claim_uid: Option<&str>) -> Value {
    let mut metadata = metadata(viewer);
    if let Some(uid) = claim_uid {
        metadata["annotations"] = json!({ CLAIM_UID_ANNOTATION: uid });
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": viewer.labels() },
            "strategy": { "type": "Recreate" },
            "template": { "metadata": { "labels": viewer.labels() }, "spec": pod },
        },
    })
}

/// Server-side apply needs the protocol, which is part of a port's key.
fn service_object(viewer: &Viewer, networking: &Networking) -> Value {
    let port = json!({
        "name": "http",
        "port": SERVICE_PORT,
        "targetPort": networking.target_port,
        "protocol": "TCP",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(viewer),
        "spec": { "type": "ClusterIP", "selector": viewer.labels(), "ports": [port] },
    })
}

/// Without networking no request is let in.
fn policy(viewer: &Viewer, settings: &ViewerSettings) -> Value {
    let rules = match &viewer.networking {
        Some(networking) => {
            let port = json!({ "protocol": "TCP", "port": networking.target_port });
            let peers = proxy_peers(&settings.proxies, &settings.proxy_namespaces);
            ingress(&peers, &[port])
        }
        None => json!([]),
    };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(viewer),
        "spec": {
            "podSelector": { "matchLabels": viewer.labels() },
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::{
        samples,
        settings::{DefaultPod, Publication},
    };

    fn made(spec: Value, settings: &ViewerSettings) -> ViewerObjects {
        let viewer = samples::viewer(spec);
        let context = ViewerContext {
            viewer: &viewer,
            settings,
            placement: &Placement::Anywhere,
            stop: None,
            claim_uid: None,
        };
        objects(context).expect("made")
    }

    fn labels() -> Value {
        json!({
            "app.kubernetes.io/name": "v",
            "app.kubernetes.io/instance": "pvcviewer-v",
            "app.kubernetes.io/part-of": "pvc-viewer",
        })
    }

    fn golden_metadata() -> Value {
        json!({ "name": "pvcviewer-v", "namespace": "team", "labels": labels() })
    }

    fn golden_deployment(pod: Value) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": golden_metadata(),
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels() },
                "strategy": { "type": "Recreate" },
                "template": { "metadata": { "labels": labels() }, "spec": pod },
            },
        })
    }

    fn golden_service(target: Value) -> Value {
        let port = json!({ "name": "http", "port": 80, "targetPort": target, "protocol": "TCP" });
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": golden_metadata(),
            "spec": { "type": "ClusterIP", "selector": labels(), "ports": [port] },
        })
    }

    fn golden_policy(rules: Value) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": golden_metadata(),
            "spec": {
                "podSelector": { "matchLabels": labels() },
                "policyTypes": ["Ingress"],
                "ingress": rules,
            },
        })
    }

    fn claim_volume(name: &str, claim: &str) -> Value {
        json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } })
    }

    fn golden_default_pod(base_url: &str, claim: &str) -> Value {
        json!({
            "containers": [{
                "name": "pvcviewer",
                "image": "filebrowser/filebrowser:v2.32.0",
                "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                "env": [
                    { "name": "FB_ADDRESS", "value": "0.0.0.0" },
                    { "name": "FB_PORT", "value": "8080" },
                    { "name": "FB_DATABASE", "value": "/tmp/filebrowser.db" },
                    { "name": "FB_NOAUTH", "value": "true" },
                    { "name": "FB_BASEURL", "value": base_url },
                ],
                "workingDir": "/data",
                "volumeMounts": [{ "name": "viewer-volume", "mountPath": "/data" }],
            }],
            "volumes": [claim_volume("viewer-volume", claim)],
        })
    }

    #[test]
    fn a_minimal_viewer_has_the_default_pod_which_nothing_reaches() {
        let wanted = ViewerObjects {
            policy: golden_policy(json!([])),
            service: None,
            route: None,
            deployment: golden_deployment(golden_default_pod("/team/v/", "test-pvc")),
        };
        assert_eq!(
            made(json!({ "pvc": "test-pvc" }), &samples::settings()),
            wanted
        );
    }

    #[test]
    fn a_default_pod_from_a_file_gets_the_volume() {
        let mount = json!({ "name": "viewer-volume", "mountPath": "/data" });
        let container = json!({ "name": "test", "image": "busybox", "volumeMounts": [mount] });
        let mut pod = json!({
            "securityContext": { "runAsUser": 1234 }, "containers": [container],
        });
        let settings = ViewerSettings {
            default_pod: DefaultPod::File(pod.clone()),
            ..samples::settings()
        };
        pod["volumes"] = json!([claim_volume("viewer-volume", "p")]);
        let objects = made(json!({ "pvc": "p" }), &settings);
        assert_eq!(objects.deployment, golden_deployment(pod));
    }

    #[test]
    fn networking_makes_a_service_and_lets_the_gateway_in() {
        let peer = json!({ "matchLabels": { "app.kubernetes.io/name": "ludgate" } });
        for (networking, target, base_url) in [
            (json!({ "targetPort": 1234 }), json!(1234), "/team/v/"),
            (
                json!({ "targetPort": 80, "basePrefix": "/base" }),
                json!(80),
                "/base/team/v/",
            ),
            (
                json!({ "basePrefix": "/newbase", "timeout": "10s", "rewrite": "/newrewrite" }),
                json!(80),
                "/newbase/team/v/",
            ),
            (json!({ "targetPort": "http" }), json!("http"), "/team/v/"),
        ] {
            let spec = json!({ "pvc": "data", "networking": networking });
            let port = json!({ "protocol": "TCP", "port": target });
            let rule = json!({ "from": [{ "podSelector": peer }], "ports": [port] });
            let wanted = ViewerObjects {
                policy: golden_policy(json!([rule])),
                service: Some(golden_service(target)),
                route: None,
                deployment: golden_deployment(golden_default_pod(base_url, "data")),
            };
            assert_eq!(made(spec, &samples::settings()), wanted);
        }
    }

    #[test]
    fn the_pod_of_kubeflows_volumes_web_app_is_taken_as_it_is() {
        let pod = json!({
            "serviceAccountName": "default-editor",
            "containers": [{
                "name": "main",
                "image": "filebrowser/filebrowser:v2.23.0",
                "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                "securityContext": { "capabilities": { "drop": ["ALL"] } },
                "readinessProbe": {
                    "tcpSocket": { "port": 8080 }, "initialDelaySeconds": 2, "periodSeconds": 10,
                },
                "volumeMounts": [{ "name": "viewer-volume", "mountPath": "/srv" }],
            }],
            "volumes": [claim_volume("viewer-volume", "data")],
        });
        let networking = json!({
            "targetPort": 8080, "basePrefix": "/pvcviewers", "rewrite": "/", "timeout": "30s",
        });
        let spec = json!({
            "pvc": "data", "podSpec": pod, "rwoScheduling": true, "networking": networking,
        });
        let mut settings = samples::settings();
        settings.service_accounts.insert("default-editor".into());
        let objects = made(spec, &settings);
        assert_eq!(objects.deployment, golden_deployment(pod));
        assert_eq!(objects.service, Some(golden_service(json!(8080))));
    }

    #[test]
    fn a_stopped_viewer_keeps_its_objects_without_a_replica() {
        let viewer = samples::viewer(json!({ "pvc": "data", "networking": { "targetPort": 1 } }));
        let settings = ViewerSettings {
            publication: Publication::VirtualService {
                gateway: "kubeflow/kubeflow-gateway".into(),
            },
            ..samples::settings()
        };
        let reason = StopReason::Yielded(Vec::new());
        let made = |stop| {
            let context = ViewerContext {
                viewer: &viewer,
                settings: &settings,
                placement: &Placement::Anywhere,
                stop,
                claim_uid: None,
            };
            objects(context).expect("made")
        };
        let mut wanted = made(None);
        assert_eq!(wanted, made(None), "the same viewer has the same objects");
        wanted.deployment["spec"]["replicas"] = json!(0);
        assert_eq!(made(Some(&reason)), wanted);
        let route = wanted.route.expect("a route");
        assert_eq!(route["metadata"], golden_metadata());
    }
}
