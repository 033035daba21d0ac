//! Labs as apps of their owners, from the EndpointSlices of their Services in all namespaces.
//! Kubernetes gives a slice the labels of its Service.
//!
//! A lab is published as long as it has a ready pod. Before and after that, its path is the hub's,
//! which knows why there is no lab.
//!
//! Invariant: the name of the namespace says whose lab it is, so only who may make namespaces of
//! the prefix can publish a lab. Labels of objects in other namespaces publish nothing.

use std::{collections::BTreeMap, time::Duration};

use kube::{Resource, ResourceExt};

use super::{
    namespace::{ObjectStore, namespaced_name},
    ready_pods::ReadyPods,
};
use crate::{
    catalog::snapshot::Problem,
    cluster::{
        endpoint_slices::{self, EndpointSlice},
        object::Object,
        watch::{ObjectEvent, WatchTarget},
    },
    labs::{
        metadata::{CATEGORY_LABEL, USER_LABEL},
        names::LAB_PORT,
    },
    model::{
        access::{Access, PersonName, UsernameClaim},
        app::{AppId, AppSpec, Upstream, UpstreamScheme},
    },
};

/// The category of the objects of a lab.
const CATEGORY: &str = "lab";

/// How labs are found, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSource {
    /// The namespace of a lab is this prefix, a hyphen, and the username of its owner.
    pub namespace_prefix: String,
    /// The claim that is the username.
    pub username: UsernameClaim,
    /// Whether labs get a signed token that names the person.
    pub assertion: bool,
}

impl LabSource {
    /// Whose lab a namespace is for.
    fn username<'n>(&self, namespace: &'n str) -> Option<&'n str> {
        namespace
            .strip_prefix(&*self.namespace_prefix)?
            .strip_prefix('-')
    }
}

/// The labs of a cluster, as far as they are listed.
pub struct WatchedLabs {
    source: LabSource,
    slices: ObjectStore<LabSlice>,
}

/// A slice of a lab's Service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabSlice {
    namespace: String,
    id: AppId,
    username: String,
    slice: EndpointSlice,
}

impl WatchedLabs {
    /// Without any list yet.
    pub fn new(source: LabSource) -> WatchedLabs {
        WatchedLabs {
            source,
            slices: ObjectStore::keyed_by(namespaced_name),
        }
    }

    /// What is watched, in all namespaces.
    pub fn target() -> WatchTarget {
        WatchTarget::LabeledSlices(format!("{CATEGORY_LABEL}={CATEGORY}"))
    }

    /// Applies an event. Returns whether it may change the snapshot.
    pub fn apply(&mut self, event: ObjectEvent) -> bool {
        let source = &self.source;
        self.slices.apply(event, |object, _| {
            Some((namespaced_name(object), read(object, source)?))
        })
    }

    /// Whether they were listed at least once.
    pub fn is_known(&self) -> bool {
        self.slices.is_known()
    }

    /// The slices of all labs, with their namespaces.
    pub fn slices(&self) -> impl Iterator<Item = (&str, &EndpointSlice)> {
        let slices = self.slices.sorted();
        slices.map(|(_, lab)| (&*lab.namespace, &lab.slice))
    }

    /// The labs that have a ready pod; problems are added to the list. `timeout` is the deadline
    /// for response headers.
    pub fn specs(
        &self,
        pods: &ReadyPods<'_>,
        timeout: Duration,
        problems: &mut Vec<Problem>,
    ) -> Vec<AppSpec> {
        // A lab has one Service, perhaps with slices of two address families.
        let mut labs: BTreeMap<&AppId, &LabSlice> = BTreeMap::new();
        for (_, lab) in self.slices.sorted() {
            labs.entry(&lab.id).or_insert(lab);
        }
        let specs = labs.into_values().filter_map(|lab| {
            let service = &*lab.slice.service;
            let ready = pods.ready_addresses(&lab.namespace, service, port_of);
            if ready.contested {
                problems.push(Problem {
                    id: lab.id.to_string(),
                    object: format!("Service {}/{service}", lab.namespace),
                    what: "its pod's address is also that of another app's pod: not used".into(),
                    kept: false,
                });
            }
            let upstream = Upstream {
                scheme: UpstreamScheme::Pods(ready.addresses.into()),
                host: format!("{service}.{}.svc", lab.namespace).into(),
                port: LAB_PORT,
            };
            has_pods(&upstream).then(|| self.spec(lab, upstream, timeout))
        });
        specs.collect()
    }

    fn spec(&self, lab: &LabSlice, upstream: Upstream, timeout: Duration) -> AppSpec {
        let access = Access::Person(PersonName {
            claim: self.source.username,
            name: lab.username.as_str().into(),
        });
        AppSpec {
            name: Some(format!("Lab of {}", lab.username)),
            assertion: self.source.assertion,
            ..AppSpec::new(lab.id.clone(), upstream, access, timeout)
        }
    }
}

/// `None`: it is no slice of a lab of this source.
fn read(object: &Object, source: &LabSource) -> Option<LabSlice> {
    let namespace = object.meta().namespace.as_deref()?;
    let username = source.username(namespace)?;
    let labels = object.labels();
    let is_label = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
    // The user too: with the prefixes `nublado` and `nublado-dev`, the namespace
    // `nublado-dev-rachel` is for rachel's lab of the other installation, not for dev-rachel's.
    if !is_label(CATEGORY_LABEL, CATEGORY) || !is_label(USER_LABEL, username) {
        return None;
    }
    let mut slice = endpoint_slices::parse(object)?;
    // An address that is no pod's could be that of another person's lab.
    slice.pods.retain(|pod| pod.uid.is_some());
    Some(LabSlice {
        namespace: namespace.to_owned(),
        id: AppId::for_lab(username)?,
        username: username.to_owned(),
        slice,
    })
}

fn port_of(ports: &[(String, u16)]) -> Option<u16> {
    let mut ports = ports.iter().map(|(_, port)| *port);
    ports.find(|port| *port == LAB_PORT)
}

fn has_pods(upstream: &Upstream) -> bool {
    match &upstream.scheme {
        UpstreamScheme::Pods(pods) => !pods.is_empty(),
        UpstreamScheme::Http
        | UpstreamScheme::Https
        | UpstreamScheme::Unix(_)
        | UpstreamScheme::Attested(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde_json::{Value, json};

    use super::*;

    fn watched(slices: &[Value]) -> WatchedLabs {
        let mut labs = WatchedLabs::new(LabSource {
            namespace_prefix: "userlabs".to_owned(),
            username: UsernameClaim::PreferredUsername,
            assertion: true,
        });
        assert!(!labs.is_known());
        labs.apply(ObjectEvent::Init);
        for slice in slices {
            labs.apply(ObjectEvent::InitApply(object(slice)));
        }
        labs.apply(ObjectEvent::InitDone);
        assert!(labs.is_known());
        labs
    }

    fn object(slice: &Value) -> Box<Object> {
        Box::new(serde_json::from_value(slice.clone()).expect("an object"))
    }

    /// A slice as the cluster makes it for the Service of a lab.
    fn slice(namespace: &str, user: &str, pods: Value) -> Value {
        json!({
            "metadata": { "name": "lab-1", "namespace": namespace, "labels": {
                "kubernetes.io/service-name": "lab",
                "nublado.lsst.io/category": "lab",
                "nublado.lsst.io/user": user,
            } },
            "addressType": "IPv4",
            "endpoints": pods,
            "ports": [{ "name": "", "port": 8888, "protocol": "TCP" }],
        })
    }

    fn pod(address: &str, uid: &str) -> Value {
        json!([{ "addresses": [address], "targetRef": { "kind": "Pod", "uid": uid } }])
    }

    /// What is published, and the problems.
    fn published(labs: &WatchedLabs) -> (Vec<AppSpec>, Vec<Problem>) {
        let pods = ReadyPods::new(labs.slices());
        let mut problems = Vec::new();
        let specs = labs.specs(&pods, Duration::from_secs(9), &mut problems);
        (specs, problems)
    }

    fn ids(labs: &WatchedLabs) -> Vec<String> {
        let (specs, _) = published(labs);
        specs.iter().map(|spec| spec.id.to_string()).collect()
    }

    #[test]
    fn a_lab_with_a_ready_pod_is_the_app_of_the_person_whom_its_namespace_names() {
        let labs = watched(&[slice("userlabs-rachel", "rachel", pod("10.0.0.7", "a"))]);
        let (specs, problems) = published(&labs);
        assert_eq!((specs.len(), problems.len()), (1, 0));
        let spec = &specs[0];
        assert_eq!(spec.id.lab_username(), Some("rachel"));
        assert_eq!(spec.access.to_string(), "person:preferred_username=rachel");
        assert_eq!(&*spec.upstream.host, "lab.userlabs-rachel.svc");
        assert_eq!(spec.path_rewrite.prefix(), None, "the lab knows its path");
        assert!(spec.assertion, "as its source says");
        let UpstreamScheme::Pods(pods) = &spec.upstream.scheme else {
            panic!("{:?}", spec.upstream);
        };
        assert_eq!(pods.to_vec(), [SocketAddr::from(([10, 0, 0, 7], 8888))]);
    }

    #[test]
    fn a_lab_is_published_from_its_first_ready_pod_to_its_last() {
        let at = |pods: Value| slice("userlabs-rachel", "rachel", pods);
        let not_ready = json!([{ "addresses": ["10.0.0.7"], "conditions": { "ready": false } }]);
        let mut labs = watched(&[at(not_ready.clone())]);
        assert_eq!(ids(&labs), [""; 0]);
        let ready = at(pod("10.0.0.7", "a"));
        assert!(labs.apply(ObjectEvent::Apply(object(&ready))));
        assert_eq!(ids(&labs), ["lab:rachel"]);
        assert!(labs.apply(ObjectEvent::Apply(object(&at(json!([]))))));
        assert_eq!(ids(&labs), [""; 0], "its pod has ended");
        labs.apply(ObjectEvent::Apply(object(&ready)));
        assert!(labs.apply(ObjectEvent::Delete(object(&ready))));
        assert_eq!(ids(&labs), [""; 0], "its Service is gone");
    }

    #[test]
    fn slices_of_one_name_in_two_namespaces_are_two_labs() {
        let mut labs = watched(&[
            slice("userlabs-rachel", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs-bob", "bob", pod("10.0.0.8", "b")),
        ]);
        assert_eq!(ids(&labs), ["lab:bob", "lab:rachel"]);
        let gone = slice("userlabs-bob", "bob", json!([]));
        labs.apply(ObjectEvent::Delete(object(&gone)));
        assert_eq!(ids(&labs), ["lab:rachel"]);
    }

    #[test]
    fn slices_that_are_no_labs_publish_nothing() {
        let mut other_category = slice("userlabs-rachel", "rachel", pod("10.0.0.7", "a"));
        other_category["metadata"]["labels"]["nublado.lsst.io/category"] = "fileserver".into();
        let mut other_port = slice("userlabs-rachel", "rachel", pod("10.0.0.7", "a"));
        other_port["ports"][0]["port"] = 22.into();
        for foreign in [
            slice("team", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs-bob", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs-dev-rachel", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs-", "", pod("10.0.0.7", "a")),
            slice("userlabs-17", "17", pod("10.0.0.7", "a")),
            slice("xuserlabs-rachel", "rachel", pod("10.0.0.7", "a")),
            // An address that is no pod's.
            slice(
                "userlabs-rachel",
                "rachel",
                json!([{ "addresses": ["10.0.0.7"] }]),
            ),
            other_category,
            other_port,
        ] {
            assert_eq!(
                ids(&watched(std::slice::from_ref(&foreign))),
                [""; 0],
                "{foreign}"
            );
        }
    }

    #[test]
    fn an_address_that_two_labs_have_leads_to_neither() {
        let labs = watched(&[
            slice("userlabs-rachel", "rachel", pod("10.0.0.7", "a")),
            slice("userlabs-bob", "bob", pod("10.0.0.7", "b")),
        ]);
        let (specs, problems) = published(&labs);
        assert!(specs.is_empty(), "{specs:?}");
        let objects: Vec<&str> = problems.iter().map(|problem| &*problem.object).collect();
        assert_eq!(
            objects,
            ["Service userlabs-bob/lab", "Service userlabs-rachel/lab"]
        );
    }
}
