//! Datasets in the pods of apps: volumes and variables. A dataset is a `Dataset` object of the
//! cluster; `dataset_grant` says which apps get it.
//!
//! PrimeHub links datasets to `/datasets` by a shell in the app's container. Here they are mounted
//! there, so an image needs no shell, and the template's `lifecycle` stays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{dataset_grant::DatasetAccess, group_names::short_hash};

/// Longest name of a volume in a pod (a DNS label), in bytes.
const MAX_VOLUME: usize = 63;
/// The node's folder in which PrimeHub keeps clones of git repositories.
const GIT_ROOT: &str = concat!("/home", "/dataset");

/// Where the data of a dataset is.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DatasetSource {
    /// A PersistentVolumeClaim.
    Claim(String),
    /// A path of the node.
    HostPath(String),
    /// A path of the node where PrimeHub keeps a clone of a git repository. Only PrimeHub writes to
    /// it.
    Git(String),
    /// A file system of the network.
    Nfs {
        /// Its server.
        server: String,
        /// Its path there.
        path: String,
    },
    /// Variables, by their keys.
    Variables(BTreeMap<String, String>),
}

impl DatasetSource {
    /// Reads the spec of a `Dataset`.
    ///
    /// # Errors
    /// The reason, for the app's status.
    pub fn from_spec(name: &str, spec: &Value) -> Result<DatasetSource, String> {
        let read = match spec["type"].as_str() {
            Some("pv") => volume_source(spec),
            Some("hostPath") => absolute_path(spec, "/hostPath/path").map(DatasetSource::HostPath),
            Some("nfs") => nfs_source(spec),
            Some("git") => git_source(name, spec),
            Some("env") => variables(&spec["variables"]).map(DatasetSource::Variables),
            Some(_) | None => Err("type must be pv, hostPath, nfs, git or env".to_owned()),
        };
        read.map_err(|what| format!("dataset {name}: {what}"))
    }
}

/// A dataset as the pods of an app have it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct PinnedDataset {
    /// The name of the `Dataset`.
    pub name: String,
    /// What the app may do with it.
    pub access: DatasetAccess,
    /// Where the data is.
    pub source: DatasetSource,
}

impl PinnedDataset {
    /// The volume; `None`: it has only variables.
    pub fn volume(&self) -> Option<Value> {
        let mut volume = match &self.source {
            DatasetSource::Claim(claim) => {
                json!({ "persistentVolumeClaim": { "claimName": claim } })
            }
            DatasetSource::HostPath(path) | DatasetSource::Git(path) => {
                json!({ "hostPath": { "path": path } })
            }
            DatasetSource::Nfs { server, path } => {
                json!({ "nfs": { "server": server, "path": path } })
            }
            DatasetSource::Variables(_) => return None,
        };
        volume["name"] = volume_name(&self.name).into();
        Some(volume)
    }

    /// The mounts of the volume.
    pub fn mounts(&self) -> Vec<Value> {
        let is_read_only = match &self.source {
            DatasetSource::Variables(_) => return Vec::new(),
            DatasetSource::Git(_) => true,
            DatasetSource::Claim(_) | DatasetSource::HostPath(_) | DatasetSource::Nfs { .. } => {
                self.access == DatasetAccess::ReadOnly
            }
        };
        let mount = |path: String| {
            let mut mount = json!({ "name": volume_name(&self.name), "mountPath": path });
            // The API server does not store `false`.
            if is_read_only {
                mount["readOnly"] = true.into();
            }
            mount
        };
        vec![
            mount(format!("/mnt/dataset-{}", self.name)),
            mount(format!("/datasets/{}", self.name)),
        ]
    }

    /// The variables, as entries of `env`: `<NAME>_<KEY>`, and if that has dashes, the same with
    /// underscores, since shells have no variables with dashes. As in PrimeHub, keys that form no
    /// name of a variable are left out.
    pub fn variables(&self) -> Vec<Value> {
        let DatasetSource::Variables(variables) = &self.source else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in variables {
            let Some(name) = variable_name(&self.name, key) else {
                continue;
            };
            let for_shells = name.replace('-', "_");
            let has_dash = for_shells != name;
            entries.push(json!({ "name": name, "value": value }));
            if has_dash {
                entries.push(json!({ "name": for_shells, "value": value }));
            }
        }
        entries
    }
}

/// A claim, or a path of the node in the older form `hostpath:/path`.
fn volume_source(spec: &Value) -> Result<DatasetSource, String> {
    let Some(volume) = text(spec, "/volumeName") else {
        return Err("volumeName is missing".to_owned());
    };
    match volume.strip_prefix("hostpath:") {
        Some(path) if path.starts_with('/') => Ok(DatasetSource::HostPath(path.to_owned())),
        Some(_) => Err("volumeName must be hostpath: and an absolute path".to_owned()),
        None => Ok(DatasetSource::Claim(format!("dataset-{volume}"))),
    }
}

fn nfs_source(spec: &Value) -> Result<DatasetSource, String> {
    let path = absolute_path(spec, "/nfs/path")?;
    match text(spec, "/nfs/server") {
        Some(server) => Ok(DatasetSource::Nfs {
            server: server.to_owned(),
            path,
        }),
        None => Err("nfs.server is missing".to_owned()),
    }
}

fn git_source(name: &str, spec: &Value) -> Result<DatasetSource, String> {
    let root = match text(spec, "/gitSyncHostRoot") {
        Some(_) => absolute_path(spec, "/gitSyncHostRoot")?,
        None => GIT_ROOT.to_owned(),
    };
    let root = root.trim_end_matches('/');
    Ok(DatasetSource::Git(format!("{root}/{name}")))
}

fn variables(written: &Value) -> Result<BTreeMap<String, String>, String> {
    let entries = match written {
        Value::Object(entries) => entries,
        Value::Null => return Ok(BTreeMap::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err("variables is no object".to_owned());
        }
    };
    let read = |(key, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(format!("variables.{key} is no text"));
            }
        };
        Ok((key.clone(), text))
    };
    entries.iter().map(read).collect()
}

/// A text at a JSON pointer; an empty one counts as absent.
fn text<'s>(spec: &'s Value, pointer: &str) -> Option<&'s str> {
    let text = spec.pointer(pointer).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

fn absolute_path(spec: &Value, pointer: &str) -> Result<String, String> {
    match text(spec, pointer) {
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        Some(_) | None => {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            Err(format!("{field} must be an absolute path"))
        }
    }
}

/// The name of a dataset's volume in a pod: `dataset-<name>` where that is a DNS label.
fn volume_name(dataset: &str) -> String {
    let name = format!("dataset-{dataset}");
    if name.len() <= MAX_VOLUME && !dataset.contains('.') {
        name
    } else {
        format!("dataset-{}", short_hash(dataset))
    }
}

/// The name of a variable; `None`: Kubernetes has none of this name.
fn variable_name(dataset: &str, key: &str) -> Option<String> {
    let name = format!("{dataset}_{key}").to_ascii_uppercase();
    let is_inner = |byte: u8| matches!(byte, b'-' | b'.' | b'_' | b'A'..=b'Z' | b'0'..=b'9');
    let is_valid = name.bytes().all(is_inner) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};

    use super::*;

    fn dataset(name: &str, access: DatasetAccess, spec: &Value) -> PinnedDataset {
        PinnedDataset {
            name: name.to_owned(),
            access,
            source: DatasetSource::from_spec(name, spec).expect("valid"),
        }
    }

    #[test]
    fn each_type_becomes_a_volume() {
        let git_path = format!("{GIT_ROOT}/x");
        for (spec, volume, is_always_read_only) in [
            (
                json!({ "type": "pv", "volumeName": "big" }),
                json!({ "persistentVolumeClaim": { "claimName": "dataset-big" } }),
                false,
            ),
            (
                json!({ "type": "pv", "volumeName": "hostpath:/data/big" }),
                json!({ "hostPath": { "path": "/data/big" } }),
                false,
            ),
            (
                json!({ "type": "hostPath", "hostPath": { "path": "/data" } }),
                json!({ "hostPath": { "path": "/data" } }),
                false,
            ),
            (
                json!({ "type": "nfs", "nfs": { "server": "nas", "path": "/export" } }),
                json!({ "nfs": { "server": "nas", "path": "/export" } }),
                false,
            ),
            (
                json!({ "type": "git", "gitSyncHostRoot": "/sync/" }),
                json!({ "hostPath": { "path": "/sync/x" } }),
                true,
            ),
            (
                json!({ "type": "git", "url": "https://git.example.com/x" }),
                json!({ "hostPath": { "path": git_path } }),
                true,
            ),
        ] {
            for access in [DatasetAccess::ReadOnly, DatasetAccess::ReadWrite] {
                let dataset = dataset("x", access, &spec);
                let mut wanted = volume.clone();
                wanted["name"] = "dataset-x".into();
                assert_eq!(dataset.volume(), Some(wanted), "{spec}");
                let is_read_only = is_always_read_only || access == DatasetAccess::ReadOnly;
                let mounts = ["/mnt/dataset-x", "/datasets/x"].map(|path| {
                    let mut mount = json!({ "name": "dataset-x", "mountPath": path });
                    if is_read_only {
                        mount["readOnly"] = true.into();
                    }
                    mount
                });
                assert_eq!(dataset.mounts(), mounts, "{spec} {access:?}");
                assert_eq!(dataset.variables(), Vec::<Value>::new(), "{spec}");
            }
        }
    }

    #[test]
    fn an_invalid_spec_is_named() {
        for (spec, wanted) in [
            (json!({}), "type must be pv, hostPath, nfs, git or env"),
            (
                json!({ "type": "PV", "volumeName": "x" }),
                "type must be pv, hostPath, nfs, git or env",
            ),
            (json!({ "type": "pv" }), "volumeName is missing"),
            (
                json!({ "type": "pv", "volumeName": "hostpath:data" }),
                "volumeName must be hostpath: and an absolute path",
            ),
            (
                json!({ "type": "hostPath", "hostPath": { "path": "data" } }),
                "hostPath.path must be an absolute path",
            ),
            (
                json!({ "type": "nfs", "nfs": { "server": "nas" } }),
                "nfs.path must be an absolute path",
            ),
            (
                json!({ "type": "nfs", "nfs": { "path": "/export", "server": "" } }),
                "nfs.server is missing",
            ),
            (
                json!({ "type": "git", "gitSyncHostRoot": "sync" }),
                "gitSyncHostRoot must be an absolute path",
            ),
            (
                json!({ "type": "env", "variables": [] }),
                "variables is no object",
            ),
            (
                json!({ "type": "env", "variables": { "a": {} } }),
                "variables.a is no text",
            ),
        ] {
            let refused = DatasetSource::from_spec("x", &spec);
            assert_eq!(refused, Err(format!("dataset x: {wanted}")), "{spec}");
        }
    }

    #[test]
    fn variables_have_the_name_of_the_dataset_and_a_form_for_shells() {
        let spec = json!({
            "type": "env",
            "variables": { "foo": "bar", "2": 7, "is.on": true, "b-c": "", "!": "left out" },
        });
        let entry = |name: &str, value: &str| json!({ "name": name, "value": value });
        let own = dataset("test-env", DatasetAccess::ReadWrite, &spec);
        let wanted = [
            entry("TEST-ENV_2", "7"),
            entry("TEST_ENV_2", "7"),
            entry("TEST-ENV_B-C", ""),
            entry("TEST_ENV_B_C", ""),
            entry("TEST-ENV_FOO", "bar"),
            entry("TEST_ENV_FOO", "bar"),
            entry("TEST-ENV_IS.ON", "true"),
            entry("TEST_ENV_IS.ON", "true"),
        ];
        assert_eq!(own.variables(), wanted);
        assert_eq!(own.volume(), None);
        assert_eq!(own.mounts(), Vec::<Value>::new());
        let digit = dataset("2x", DatasetAccess::ReadOnly, &spec);
        assert_eq!(digit.variables(), Vec::<Value>::new());
        let none = dataset("x", DatasetAccess::ReadOnly, &json!({ "type": "env" }));
        assert_eq!(none.variables(), Vec::<Value>::new());
    }

    #[test]
    fn the_name_of_a_volume_is_a_dns_label() {
        assert_eq!(volume_name("mnist"), "dataset-mnist");
        let (longest, longer) = ("a".repeat(55), "a".repeat(56));
        assert_eq!(volume_name(&longest), format!("dataset-{longest}"));
        for name in ["a.b", &longer] {
            let name = volume_name(name);
            assert!(name.len() <= MAX_VOLUME && !name.contains('.'), "{name}");
        }
        assert_ne!(volume_name("a.b"), volume_name("a.c"));
    }

    proptest! {
        #[test]
        fn what_is_pinned_reads_back_and_has_the_same_variables(
            variables in btree_map("\\PC{0,6}", "\\PC{0,6}", 0..6),
            name in "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?",
        ) {
            let spec = json!({ "type": "env", "variables": variables });
            let pinned = dataset(&name, DatasetAccess::ReadOnly, &spec);
            let text = serde_json::to_string(&pinned).expect("JSON");
            let read: PinnedDataset = serde_json::from_str(&text).expect("the same");
            prop_assert_eq!(&read, &pinned);
            prop_assert_eq!(read.variables(), pinned.variables());
            for variable in pinned.variables() {
                let name = variable["name"].as_str().unwrap_or_default();
                let is_inner = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                prop_assert!(name.chars().all(is_inner), "{}", name);
                prop_assert!(!name.starts_with(|c: char| c.is_ascii_digit()), "{}", name);
            }
        }
    }
}
