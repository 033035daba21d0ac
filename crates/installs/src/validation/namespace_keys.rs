//! Labels and annotations of namespaces that have a meaning for this program or for Kubernetes. An
//! installation may not set them; the default namespace of a definition may.

use std::collections::BTreeMap;

use ludgate_cluster::crd::app_target::AppNamespaceSpec;

use super::field_error::FieldError;

/// Prefixes of reserved keys. A key below a subdomain of one is reserved too.
const RESERVED: [&str; 7] = [
    "ludgate",
    "ludgate.dev",
    "kubermatic.io",
    "k8c.io",
    "kubernetes.io",
    "k8s.io",
    "nublado.lsst.io",
];

/// Checks the labels and annotations of the namespace of an installation. `default` is that of its
/// definition: reserved keys with the values that it has are accepted.
pub fn validate_namespace_keys(
    namespace: &AppNamespaceSpec,
    default: Option<&AppNamespaceSpec>,
) -> Vec<FieldError> {
    let parts = [
        (
            "spec.namespace.labels",
            &namespace.labels,
            default.and_then(|default| default.labels.as_ref()),
        ),
        (
            "spec.namespace.annotations",
            &namespace.annotations,
            default.and_then(|default| default.annotations.as_ref()),
        ),
    ];
    let errors = parts.into_iter().flat_map(|(field, wanted, default)| {
        let refused = wanted.iter().flatten();
        let refused = refused.filter(move |(key, value)| !may_set(key, value, default));
        refused.map(move |(key, _)| {
            let text = format!("Forbidden: the key \"{key}\" is reserved for administrators");
            FieldError::new(field, text)
        })
    });
    errors.collect()
}

/// Those of these labels or annotations that an installation may set.
pub fn permitted(
    wanted: Option<&BTreeMap<String, String>>,
    default: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let permitted = wanted.into_iter().flatten();
    let permitted = permitted.filter(|(key, value)| may_set(key, value, default));
    permitted
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn may_set(key: &str, value: &str, default: Option<&BTreeMap<String, String>>) -> bool {
    let of_default = default.and_then(|default| default.get(key));
    !is_reserved(key) || of_default.is_some_and(|found| found == value)
}

fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else {
        return false;
    };
    let prefix = prefix.to_ascii_lowercase();
    RESERVED.iter().any(|reserved| {
        let parent = prefix.strip_suffix(*reserved);
        parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespace(value: Value) -> AppNamespaceSpec {
        serde_json::from_value(value).expect("a namespace")
    }

    #[test]
    fn keys_of_this_program_and_of_kubernetes_are_reserved() {
        for (key, wanted) in [
            (
                "kubermatic.io/initial-application-installations-request",
                true,
            ),
            ("ludgate.dev/created-for", true),
            ("ludgate/access", true),
            ("apps.kubermatic.k8c.io/enforced", true),
            ("pod-security.kubernetes.io/enforce", true),
            ("kubernetes.io/metadata.name", true),
            ("scheduler.alpha.kubernetes.io/node-selector", true),
            ("policy.networking.k8s.io/x", true),
            ("nublado.lsst.io/category", true),
            ("LUDGATE.dev/x", true),
            ("lsst.io/category", false),
            ("notkubernetes.io/x", false),
            ("kubernetes.io.example.com/x", false),
            ("kubernetes.io", false),
            ("env", false),
            ("", false),
        ] {
            assert_eq!(is_reserved(key), wanted, "{key}");
        }
    }

    #[test]
    fn a_reserved_key_needs_the_value_of_the_definition() {
        let level = "pod-security.kubernetes.io/enforce";
        let wanted = namespace(json!({
            "name": "n", "labels": { "env": "dev", level: "privileged" },
            "annotations": { "ludgate.dev/installs-from": "*" },
        }));
        let default = |value: &str| namespace(json!({ "name": "n", "labels": { level: value } }));
        let label = format!(
            "spec.namespace.labels: Forbidden: the key \"{level}\" is reserved for administrators"
        );
        let annotation = "spec.namespace.annotations: Forbidden: the key \
                          \"ludgate.dev/installs-from\" is reserved for administrators";
        for (default, errors, labels) in [
            (None, vec![label.as_str(), annotation], 1),
            (
                Some(default("baseline")),
                vec![label.as_str(), annotation],
                1,
            ),
            (Some(default("privileged")), vec![annotation], 2),
        ] {
            let found = validate_namespace_keys(&wanted, default.as_ref());
            let found: Vec<String> = found.iter().map(FieldError::to_string).collect();
            assert_eq!(found, errors, "{default:?}");
            let default = default.as_ref().and_then(|default| default.labels.as_ref());
            let kept = permitted(wanted.labels.as_ref(), default);
            assert_eq!(kept.len(), labels);
            assert!(kept.contains_key("env"));
        }
        let none = permitted(wanted.annotations.as_ref(), None);
        assert!(none.is_empty(), "{none:?}");
    }
}
