//! What the pods of controllers may ask for, and which pods may reach them.

use std::collections::BTreeMap;

use super::{section::ConfigSection, values::labels_of_all};
use crate::controllers::pod_policy::{PodPolicy, PodRight};

/// Sets of labels, of which a pod or a namespace has all of one.
type LabelSets = Vec<BTreeMap<String, String>>;

/// The labels of the pods that NetworkPolicies let in, and of further namespaces with such pods.
/// `None` only together with an error.
pub(super) fn proxy_labels(
    section: &ConfigSection<'_>,
    default: LabelSets,
) -> Option<(LabelSets, LabelSets)> {
    let pods = match section.texts("proxy_pod_labels") {
        Some(written) => labels_of_all(section, "proxy_pod_labels", &written),
        None => Some(default),
    };
    let namespaces = section.texts("proxy_namespace_labels").unwrap_or_default();
    let namespaces = labels_of_all(section, "proxy_namespace_labels", &namespaces);
    Some((pods?, namespaces?))
}

/// The rights that pods may ask for. `None` only together with an error.
pub(super) fn pod_policy(section: &ConfigSection<'_>) -> Option<PodPolicy> {
    let mut policy = PodPolicy::default();
    for name in section.texts("allowed_pod_rights").unwrap_or_default() {
        let Some((_, right)) = PodRight::ALL.into_iter().find(|(known, _)| *known == name) else {
            let names = PodRight::ALL.map(|(known, _)| known).join(", ");
            let what = format!("{name:?} is no right of a pod");
            section.wrong("allowed_pod_rights", what, Some(format!("one of {names}")));
            return None;
        };
        policy.allowed.insert(right);
    }
    Some(policy)
}
