//! Which images are pulled to which nodes, and the pods that do it.

use serde_json::{Value, json};

use super::{ImageCatalog, LabImage, Toleration};
use crate::{config::LabConfig, metadata::CATEGORY_LABEL};

/// Longest name of a pod.
const MAX_NAME: usize = 253;

/// One image for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepullTask {
    /// Name of the node.
    pub node: String,
    /// The image.
    pub image: LabImage,
}

/// The pod that owns the pods: with it, they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOwner {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

impl ImageCatalog {
    /// Images that eligible nodes lack: by node, then in the order of menus, each digest once.
    pub fn prepull_plan(&self) -> Vec<PrepullTask> {
        let mut plan = Vec::new();
        for node in self.eligible_nodes() {
            let images = self.wanted.one_per_digest();
            let missing = images
                .filter(|image| image.tag.architecture.is_none() && !image.nodes.contains(node));
            plan.extend(missing.map(|image| PrepullTask {
                node: node.to_owned(),
                image: image.clone(),
            }));
        }
        plan
    }
}

/// The pod that pulls an image to a node. It runs a program that ends at once.
pub fn prepull_pod(task: &PrepullTask, config: &LabConfig, owner: &PodOwner) -> Value {
    let amounts = json!({ "cpu": "1m", "memory": "16Mi" });
    let tolerations: Vec<Value> = config
        .tolerations
        .iter()
        .map(Toleration::to_object)
        .collect();
    let mut spec = json!({
        "containers": [{
            "command": ["/bin/true"],
            "image": task.image.pinned_reference(),
            "name": "prepull",
            "resources": { "limits": amounts, "requests": amounts },
            "workingDir": "/tmp",
        }],
        "nodeName": task.node,
        "restartPolicy": "Never",
        "tolerations": tolerations,
    });
    if let Some(secret) = &config.pull_secret {
        spec["imagePullSecrets"] = json!([{ "name": secret }]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": { CATEGORY_LABEL: "prepuller" },
            "name": prepull_pod_name(&task.image.tag.tag, &task.node),
            "namespace": owner.namespace,
            "ownerReferences": [{
                "apiVersion": "v1",
                "blockOwnerDeletion": true,
                "kind": "Pod",
                "name": owner.name,
                "uid": owner.uid,
            }],
        },
        "spec": spec,
    })
}

/// A valid name for any tag. Names that had to be changed end with a hash, since two tags may
/// differ in nothing else than their case.
pub fn prepull_pod_name(tag: &str, node: &str) -> String {
    let name = format!("prepull-{}-{node}", tag.replace('_', "-"));
    if is_name(&name) {
        return name;
    }
    let letters = name.chars().map(|letter| match letter {
        'a'..='z' | '0'..='9' => letter,
        'A'..='Z' => letter.to_ascii_lowercase(),
        _ => '-',
    });
    let hash = format!("{:016x}", fnv1a(&format!("{tag}/{node}")));
    let valid: String = letters.take(MAX_NAME - hash.len() - 1).collect();
    format!("{}-{hash}", valid.trim_end_matches('-'))
}

/// Whether a text can be the name of a pod. Kubernetes does not limit the parts between the dots.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(allowed)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= MAX_NAME && text.split('.').all(is_part)
}

/// The same in all versions, other than the standard library's hash.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_tags_give_plain_names() {
        assert_eq!(
            prepull_pod_name("d_2077_10_23", "node2"),
            "prepull-d-2077-10-23-node2"
        );
        assert_eq!(
            prepull_pod_name("w_2077_43_c0050.002", "node1.example.org"),
            "prepull-w-2077-43-c0050.002-node1.example.org"
        );
    }

    #[test]
    fn any_tag_gives_a_valid_name_of_its_own() {
        let long = "a".repeat(128);
        let node = "n".repeat(253);
        let tags = [
            "exp_ABC",
            "exp_abC",
            "v1_.",
            "a..b",
            "a._b",
            "a-",
            "_",
            long.as_str(),
        ];
        let mut names = std::collections::BTreeSet::new();
        for tag in tags {
            for node in ["node1", node.as_str()] {
                let name = prepull_pod_name(tag, node);
                assert!(is_name(&name), "{name}");
                assert!(names.insert(name));
            }
        }
    }
}
