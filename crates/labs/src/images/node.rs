//! Nodes: which images they have, and whether labs can run there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::reference::ImageReference;

/// Key of the taint that cordoned nodes have.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    /// Its key.
    pub key: String,
    /// Its value; empty if it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// An image that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedImage {
    /// All names by which it was pulled.
    pub names: Vec<String>,
    /// Size in bytes.
    pub size: Option<u64>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<NodeTaint>,
    /// The images that it has.
    pub images: Vec<CachedImage>,
}

/// A toleration of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// The effect that is tolerated. Without one, all.
    pub effect: Option<String>,
    /// Key of the taint. Without one, all.
    pub key: Option<String>,
    /// Whether the taint may have any value (`Exists`), or only [`Toleration::value`] (`Equal`).
    pub any_value: bool,
    /// For how many seconds a taint of the effect `NoExecute` is tolerated. Without it, for ever.
    pub seconds: Option<i64>,
    /// Value of the taint.
    pub value: Option<String>,
}

/// Whether images are pulled to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// Labs can run there.
    Eligible,
    /// They cannot, for this reason.
    Ineligible(String),
}

impl ClusterNode {
    /// Reads a Node object. Parts that are missing or unreadable are empty.
    pub fn from_object(node: &Value) -> ClusterNode {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let taints = list(&node["spec"]["taints"])
            .into_iter()
            .map(|taint| NodeTaint {
                key: text(&taint["key"]),
                value: text(&taint["value"]),
                effect: text(&taint["effect"]),
            });
        let mut taints: Vec<NodeTaint> = taints.collect();
        // The taint of a cordoned node follows the field a moment later.
        let is_cordoned = node["spec"]["unschedulable"] == true;
        if is_cordoned && taints.iter().all(|taint| taint.key != UNSCHEDULABLE) {
            taints.push(NodeTaint {
                key: UNSCHEDULABLE.to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            });
        }
        let images = list(&node["status"]["images"]).into_iter();
        let images = images.map(|image| CachedImage {
            names: list(&image["names"]).iter().map(text).collect(),
            size: image["sizeBytes"].as_u64(),
        });
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        ClusterNode {
            name: text(&node["metadata"]["name"]),
            labels: labels
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
            taints,
            images: images.collect(),
        }
    }

    /// Whether the node has all labels of a selector.
    pub fn is_selected(&self, selector: &BTreeMap<String, String>) -> bool {
        selector
            .iter()
            .all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// Whether pods with these tolerations can be scheduled there.
    pub fn eligibility(&self, tolerations: &[Toleration]) -> Eligibility {
        let prevents = |taint: &&NodeTaint| {
            taint.effect != "PreferNoSchedule"
                && !tolerations
                    .iter()
                    .any(|toleration| toleration.matches(taint))
        };
        match self.taints.iter().find(prevents) {
            None => Eligibility::Eligible,
            Some(taint) if taint.value.is_empty() => Eligibility::Ineligible(format!(
                "Node is tainted ({}, {})",
                taint.effect, taint.key
            )),
            Some(taint) => Eligibility::Ineligible(format!(
                "Node is tainted ({}, {} = {})",
                taint.effect, taint.key, taint.value
            )),
        }
    }
}

impl CachedImage {
    /// The digest, if one of the names has it.
    pub fn digest(&self) -> Option<String> {
        let mut references = self
            .names
            .iter()
            .filter_map(|name| name.parse::<ImageReference>().ok());
        references.find_map(|reference| reference.digest)
    }
}

impl Toleration {
    /// Whether a taint is tolerated for good. An image is not pulled to a node that pods have to
    /// leave.
    fn matches(&self, taint: &NodeTaint) -> bool {
        let key = self.key.as_deref().unwrap_or_default();
        let is_for_good = self.seconds.is_none() || taint.effect != "NoExecute";
        let has_effect = self.effect.as_ref().is_none_or(|e| *e == taint.effect);
        let has_value = match self.any_value {
            true => key.is_empty() || taint.key == key,
            false => taint.key == key && taint.value == self.value.as_deref().unwrap_or_default(),
        };
        is_for_good && has_effect && has_value
    }

    /// The toleration as Kubernetes has it.
    pub fn to_object(&self) -> Value {
        let mut object = serde_json::Map::new();
        let operator = if self.any_value { "Exists" } else { "Equal" };
        object.insert("operator".to_owned(), operator.into());
        let texts = [
            ("effect", &self.effect),
            ("key", &self.key),
            ("value", &self.value),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                object.insert(name.to_owned(), text.clone().into());
            }
        }
        if let Some(seconds) = self.seconds {
            object.insert("tolerationSeconds".to_owned(), seconds.into());
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tolerated(effect: &str, toleration: Toleration) -> bool {
        let node = ClusterNode {
            name: "node1".to_owned(),
            labels: BTreeMap::new(),
            taints: vec![NodeTaint {
                key: "some-taint".to_owned(),
                value: "some-value".to_owned(),
                effect: effect.to_owned(),
            }],
            images: Vec::new(),
        };
        node.eligibility(&[toleration]) == Eligibility::Eligible
    }

    fn toleration(key: &str, value: Option<&str>) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            any_value: value.is_none(),
            value: value.map(str::to_owned),
            ..Toleration::default()
        }
    }

    #[test]
    fn a_toleration_must_match_key_value_and_effect() {
        assert!(tolerated(
            "NoSchedule",
            toleration("some-taint", Some("some-value"))
        ));
        assert!(!tolerated(
            "NoSchedule",
            toleration("some-taint", Some("other"))
        ));
        assert!(!tolerated("NoSchedule", toleration("other", None)));
        assert!(tolerated("NoSchedule", toleration("some-taint", None)));
        assert!(tolerated("NoSchedule", toleration("", None)));
        let other_effect = Toleration {
            effect: Some("NoExecute".to_owned()),
            ..toleration("some-taint", None)
        };
        assert!(!tolerated("NoSchedule", other_effect));
    }

    #[test]
    fn a_cordoned_node_is_not_eligible_even_before_it_has_its_taint() {
        let taint = json!({ "key": UNSCHEDULABLE, "effect": "NoSchedule" });
        for taints in [json!([]), json!([taint])] {
            let object = json!({
                "metadata": { "name": "node1" },
                "spec": { "unschedulable": true, "taints": taints },
            });
            let node = ClusterNode::from_object(&object);
            let expected = format!("Node is tainted (NoSchedule, {UNSCHEDULABLE})");
            assert_eq!(node.taints.len(), 1);
            assert_eq!(node.eligibility(&[]), Eligibility::Ineligible(expected));
        }
    }

    #[test]
    fn preferences_do_not_prevent_and_time_limits_do_not_permit() {
        assert!(tolerated("PreferNoSchedule", Toleration::default()));
        let limited = Toleration {
            seconds: Some(60),
            ..toleration("some-taint", None)
        };
        assert!(tolerated("NoSchedule", limited.clone()));
        assert!(!tolerated("NoExecute", limited));
    }
}
