//! Defaults of the fields of an installation.

use ludgate_cluster::crd::{
    app_target::AppNamespaceSpec, definition::ApplicationDefinitionSpec,
    installation::ApplicationInstallationSpec,
};
use serde_json::{Map, Value};

use crate::deploy_options;

/// Sets the defaults of a new installation in this namespace. `definition` is the one that it
/// names, if it is known.
pub fn set_new(
    spec: &mut ApplicationInstallationSpec,
    namespace: &str,
    definition: Option<&ApplicationDefinitionSpec>,
) {
    spec.namespace = Some(target_namespace(spec, namespace, definition));
    set_update(spec);
}

/// Sets the defaults of an installation that replaces another one. The namespace stays as it is,
/// since it cannot be changed.
pub fn set_update(spec: &mut ApplicationInstallationSpec) {
    if spec.values.is_none() {
        spec.values = Some(Value::Object(Map::new()));
    }
    if let Some(options) = &mut spec.deploy_options {
        deploy_options::set_defaults(options);
    }
}

/// The namespace of an app: the one that the installation names, else the default of the
/// definition, else that of the installation.
pub fn target_namespace(
    spec: &ApplicationInstallationSpec,
    namespace: &str,
    definition: Option<&ApplicationDefinitionSpec>,
) -> AppNamespaceSpec {
    let is_named = |spec: &&AppNamespaceSpec| !spec.name.is_empty();
    let own = spec.namespace.as_ref().filter(is_named);
    let default = definition.and_then(|spec| spec.default_namespace.as_ref());
    let named = own.or_else(|| default.filter(is_named));
    named.cloned().unwrap_or_else(|| AppNamespaceSpec {
        name: namespace.to_owned(),
        create: true,
        labels: None,
        annotations: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn defaulted(spec: Value, default_namespace: Value) -> Value {
        let patch = json!({ "spec": { "defaultNamespace": default_namespace } });
        let definition = samples::definition(patch);
        let mut spec = serde_json::from_value(spec).expect("a spec");
        set_new(&mut spec, "apps", Some(&definition.spec));
        serde_json::to_value(spec).expect("JSON")
    }

    #[test]
    fn a_new_installation_has_a_namespace_values_and_whole_options() {
        let reference = json!({ "name": "example", "version": "1.0.0" });
        let own = json!({ "name": "apps", "create": true });
        let default = json!({ "name": "mon", "create": false, "labels": { "a": "b" } });
        let named = json!({ "name": "n", "create": false });
        let whole = json!({ "helm": { "atomic": true, "wait": true, "timeout": "5m0s" } });
        for (more, default_namespace, wanted) in [
            (
                json!({}),
                json!(null),
                json!({ "namespace": own.clone(), "values": {} }),
            ),
            (
                json!({}),
                default.clone(),
                json!({ "namespace": default.clone(), "values": {} }),
            ),
            (
                json!({ "namespace": named.clone() }),
                default,
                json!({ "namespace": named, "values": {} }),
            ),
            (
                json!({ "namespace": { "name": "" } }),
                json!(null),
                json!({ "namespace": own.clone(), "values": {} }),
            ),
            (
                json!({ "values": { "a": 1 } }),
                json!(null),
                json!({ "namespace": own.clone(), "values": { "a": 1 } }),
            ),
            (
                json!({ "valuesBlock": "a: 1" }),
                json!(null),
                json!({ "namespace": own.clone(), "values": {}, "valuesBlock": "a: 1" }),
            ),
            (
                json!({ "deployOptions": { "helm": { "atomic": true } } }),
                json!(null),
                json!({ "namespace": own.clone(), "values": {}, "deployOptions": whole }),
            ),
            (
                json!({ "deployOptions": {} }),
                json!(null),
                json!({ "namespace": own.clone(), "values": {}, "deployOptions": {} }),
            ),
        ] {
            let with_reference = |mut spec: Value| {
                spec["applicationRef"] = reference.clone();
                spec
            };
            let found = defaulted(with_reference(more.clone()), default_namespace.clone());
            assert_eq!(found, with_reference(wanted), "{more} {default_namespace}");
        }
    }

    #[test]
    fn an_update_leaves_the_namespace_as_it_is() {
        let mut spec = samples::installation(json!({ "spec": { "namespace": null } })).spec;
        set_update(&mut spec);
        assert_eq!(spec.namespace, None);
        assert_eq!(spec.values, Some(json!({})));
        let own = target_namespace(&spec, "apps", None);
        assert_eq!((own.name.as_str(), own.create), ("apps", true));
    }
}
