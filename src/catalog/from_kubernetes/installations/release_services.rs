//! The Services of Helm releases, and their ready pods, in all namespaces. Kubernetes gives a slice
//! the labels of its Service, so both are watched by the label of releases.
//!
//! A Service counts for a release only with the annotations that Helm gives it, and only with a
//! selector: one without pods of its own could lead anywhere.

use kube::Resource;
use serde_json::Value;

use super::super::namespace::{ObjectStore, namespaced_name};
use crate::{
    cluster::{
        endpoint_slices::{self, EndpointSlice},
        object::Object,
        watch::ObjectEvent,
    },
    installs::health::release_of,
};

/// The Services and slices that were listed so far.
pub struct ReleaseServices {
    services: ObjectStore<ReleaseService>,
    slices: ObjectStore<ReleaseSlice>,
}

/// A Service of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReleaseService {
    release: String,
    /// Its ports with their names; an unnamed port has an empty name.
    ports: Vec<(String, u16)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReleaseSlice {
    namespace: String,
    slice: EndpointSlice,
}

/// The Service of an app, as its installation and its definition name it.
#[derive(Clone, Copy, Debug)]
pub struct WantedService<'a> {
    pub namespace: &'a str,
    pub service: &'a str,
    pub port: u16,
    /// The release that it must belong to.
    pub release: &'a str,
}

impl ReleaseServices {
    /// Without any list yet.
    pub fn new() -> ReleaseServices {
        ReleaseServices {
            services: ObjectStore::keyed_by(namespaced_name),
            slices: ObjectStore::keyed_by(namespaced_name),
        }
    }

    /// Applies an event of Services. Returns whether it may change the snapshot.
    pub fn apply_service(&mut self, event: ObjectEvent) -> bool {
        self.services.apply(event, |object, _| {
            Some((namespaced_name(object), read_service(object)?))
        })
    }

    /// Applies an event of slices. Returns whether it may change the snapshot.
    pub fn apply_slice(&mut self, event: ObjectEvent) -> bool {
        self.slices.apply(event, |object, _| {
            Some((namespaced_name(object), read_slice(object)?))
        })
    }

    /// Whether both were listed at least once.
    pub fn is_known(&self) -> bool {
        self.services.is_known() && self.slices.is_known()
    }

    /// The name of the port of a Service that belongs to its release; `None`: there is no such
    /// Service, or it has no such port.
    pub fn port_name(&self, wanted: WantedService<'_>) -> Option<&str> {
        let WantedService {
            namespace,
            service,
            port,
            release,
        } = wanted;
        let found = self.services.get(&format!("{namespace}/{service}"))?;
        let mut ports = found.ports.iter();
        let (name, _) = ports.find(|(_, number)| *number == port)?;
        (found.release == release).then_some(name)
    }

    /// All slices with their namespaces.
    pub fn slices(&self) -> impl Iterator<Item = (&str, &EndpointSlice)> {
        let slices = self.slices.sorted();
        slices.map(|(_, slice)| (&*slice.namespace, &slice.slice))
    }
}

/// `None`: it may lead elsewhere than to pods of its release.
fn read_service(object: &Object) -> Option<ReleaseService> {
    let namespace = object.meta().namespace.as_deref()?;
    let (release_namespace, release) = release_of(object)?;
    if release_namespace != namespace {
        return None;
    }
    let spec = &object.spec;
    let selector = spec["selector"].as_object();
    if spec["type"] == "ExternalName" || selector.is_none_or(|selector| selector.is_empty()) {
        return None;
    }
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| {
        let number = port["port"]
            .as_u64()
            .and_then(|it| u16::try_from(it).ok())?;
        let name = port.get("name").and_then(Value::as_str);
        Some((name.unwrap_or_default().to_owned(), number))
    });
    Some(ReleaseService {
        release: release.to_owned(),
        ports: ports.collect(),
    })
}

fn read_slice(object: &Object) -> Option<ReleaseSlice> {
    let mut slice = endpoint_slices::parse(object)?;
    // An address that is no pod's could be that of anything.
    slice.pods.retain(|pod| pod.uid.is_some());
    Some(ReleaseSlice {
        namespace: object.meta().namespace.clone()?,
        slice,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RELEASE_NAME: &str = "meta.helm.sh/release-name";
    const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

    fn service(patch: Value) -> Value {
        let mut service = json!({
            "metadata": { "name": "web", "namespace": "team-apps", "annotations": {
                RELEASE_NAME: "team-dash", RELEASE_NAMESPACE: "team-apps",
            } },
            "spec": {
                "type": "ClusterIP", "selector": { "app": "web" },
                "ports": [{ "name": "metrics", "port": 9090 }, { "name": "http", "port": 3000 }],
            },
        });
        crate::cluster::merge_patch::apply(&mut service, &patch);
        service
    }

    fn port_name(service: Value, release: &str, port: u16) -> Option<String> {
        let object = Box::new(serde_json::from_value(service).expect("an object"));
        let mut services = ReleaseServices::new();
        services.apply_service(ObjectEvent::Init);
        services.apply_service(ObjectEvent::InitApply(object));
        services.apply_service(ObjectEvent::InitDone);
        let wanted = WantedService {
            namespace: "team-apps",
            service: "web",
            port,
            release,
        };
        services.port_name(wanted).map(str::to_owned)
    }

    #[test]
    fn a_service_belongs_to_the_release_that_made_it() {
        let found = port_name(service(json!({})), "team-dash", 3000);
        assert_eq!(found.as_deref(), Some("http"));
        assert_eq!(port_name(service(json!({})), "team-other", 3000), None);
        assert_eq!(port_name(service(json!({})), "team-dash", 80), None);
        for patch in [
            json!({ "metadata": { "annotations": null } }),
            json!({ "metadata": { "annotations": { RELEASE_NAMESPACE: "other" } } }),
            json!({ "metadata": { "annotations": { RELEASE_NAME: "other" } } }),
            json!({ "metadata": { "namespace": "other" } }),
            json!({ "metadata": { "name": "other" } }),
            json!({ "spec": { "type": "ExternalName", "externalName": "x.test" } }),
            json!({ "spec": { "selector": null } }),
            json!({ "spec": { "selector": { "app": null } } }),
            json!({ "spec": { "ports": null } }),
        ] {
            let found = port_name(service(patch.clone()), "team-dash", 3000);
            assert_eq!(found, None, "{patch}");
        }
    }
}
