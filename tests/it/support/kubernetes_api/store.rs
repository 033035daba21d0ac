//! What the scripted API keeps: objects, the one version of everything, and what happened.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{APPS, NAMESPACES, SLICES, VIEWERS};

/// Plural, namespace, name.
type Key = (&'static str, String, String);

pub struct Store {
    objects: BTreeMap<Key, Value>,
    history: Vec<Event>,
    version: u64,
    /// What happened until then is forgotten.
    compacted: u64,
    /// What is left of lists that were begun, each as of its own version.
    lists: HashMap<String, (u64, Vec<Value>)>,
    pub slice_versions: Vec<&'static str>,
}

#[derive(Clone)]
pub struct Event {
    pub version: u64,
    kind: (&'static str, String),
    pub line: Value,
}

impl Store {
    pub fn new() -> Store {
        Store {
            objects: BTreeMap::new(),
            history: Vec::new(),
            // As it is in a cluster that has lived for a while.
            version: 9_990,
            compacted: 0,
            lists: HashMap::new(),
            slice_versions: vec!["v1"],
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn put(&mut self, plural: &'static str, namespace: &str, mut object: Value) {
        self.version += 1;
        let name = object["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let before = self
            .objects
            .insert((plural, namespace.to_owned(), name), object.clone());
        let what = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.happened(plural, namespace, what, object);
    }

    pub fn delete(&mut self, plural: &'static str, namespace: &str, name: &str) {
        self.version += 1;
        let key = (plural, namespace.to_owned(), name.to_owned());
        let mut object = self
            .objects
            .remove(&key)
            .unwrap_or_else(|| panic!("no {key:?}"));
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.happened(plural, namespace, "DELETED", object);
    }

    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Value {
        let key = (plural, namespace.to_owned(), name.to_owned());
        self.objects
            .get(&key)
            .unwrap_or_else(|| panic!("no {key:?}"))
            .clone()
    }

    pub fn compact(&mut self) {
        self.compacted = self.version;
        self.history.clear();
        self.lists.clear();
    }

    /// One page of a list, or `None` when the list that it continues is forgotten.
    pub fn page(
        &mut self,
        plural: &'static str,
        namespace: &str,
        limit: usize,
        token: Option<&str>,
    ) -> Option<Value> {
        let (version, mut items) = match token {
            Some(token) => self.lists.remove(token)?,
            None => {
                let of_kind = |(key, _): &(&Key, &Value)| key.0 == plural && key.1 == namespace;
                let all = self.objects.iter().filter(of_kind);
                (
                    self.version,
                    all.map(|(_, object)| object.clone()).collect(),
                )
            }
        };
        let rest = items.split_off(limit.min(items.len()));
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if !rest.is_empty() {
            let token = format!("{version}-{plural}-{}", rest.len());
            metadata["continue"] = token.clone().into();
            metadata["remainingItemCount"] = rest.len().into();
            self.lists.insert(token, (version, rest));
        }
        let (group, kind) = match plural {
            APPS => ("primehub.io/v1alpha1", "PhApplicationList"),
            VIEWERS => ("kubeflow.org/v1alpha1", "PVCViewerList"),
            NAMESPACES => ("v1", "NamespaceList"),
            _ => ("discovery.k8s.io/v1", "EndpointSliceList"),
        };
        Some(json!({ "apiVersion": group, "kind": kind, "metadata": metadata, "items": items }))
    }

    /// What happened to objects of a kind after a version, and until when that is everything;
    /// `None` when that is no longer known.
    pub fn after(
        &self,
        plural: &'static str,
        namespace: &str,
        version: u64,
    ) -> Option<(Vec<Event>, u64)> {
        if version < self.compacted {
            return None;
        }
        let fits = |event: &&Event| {
            event.version > version && event.kind.0 == plural && event.kind.1 == namespace
        };
        Some((
            self.history.iter().filter(fits).cloned().collect(),
            self.version,
        ))
    }

    /// `/apis` and what is below it, but for objects.
    pub fn discovery(&self, path: &str) -> Option<Value> {
        let of = |group: &str, version: &str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        let resource = |plural: &str, kind: &str| json!([{ "name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list", "watch"] }]);
        let list = |group_version: &str, resources: Value| json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources });
        if path == "/apis" {
            let group = |name: &str, versions: Vec<Value>| json!({ "name": name, "preferredVersion": versions[0].clone(), "versions": versions });
            let slices = self
                .slice_versions
                .iter()
                .map(|version| of("discovery.k8s.io", version))
                .collect();
            let groups = [
                group("primehub.io", vec![of("primehub.io", "v1alpha1")]),
                group("discovery.k8s.io", slices),
            ];
            return Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }));
        }
        let (group, version) = path.strip_prefix("/apis/")?.split_once('/')?;
        match group {
            "primehub.io" if version == "v1alpha1" => Some(list(
                "primehub.io/v1alpha1",
                resource(APPS, "PhApplication"),
            )),
            "discovery.k8s.io" if self.slice_versions.contains(&version) => Some(list(
                &format!("{group}/{version}"),
                resource(SLICES, "EndpointSlice"),
            )),
            _ => None,
        }
    }

    fn happened(&mut self, plural: &'static str, namespace: &str, what: &str, object: Value) {
        let line = json!({ "type": what, "object": object });
        self.history.push(Event {
            version: self.version,
            kind: (plural, namespace.to_owned()),
            line,
        });
    }
}
