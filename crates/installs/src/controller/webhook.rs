//! The rules of definitions and installations, for the admission webhook.
//!
//! It runs in every replica, also while another one leads. An installation may be applied together
//! with its definition, so the definition is read for each request: a watch may not have it yet.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, core::admission::Operation};
use ludgate_cluster::{
    crd::definition::ApplicationDefinition,
    deadline::{ApiCallError, with_deadline},
    object::DeepObject,
};
use ludgate_controllers::webhook::object_rules::{
    ObjectRequest, ObjectRules, RulesFuture, RulesSource, with_namespace,
};
use ludgate_model::dns::is_subdomain;
use serde_json::Value;
use tokio::sync::watch;

use super::{
    annotations::{check_bound_target, selector_name, target_name},
    parsed,
    settings::InstallationSettings,
    stores::InstallationKinds,
};
use crate::{admission, validation::source::SourceRules};

/// Deadline of a read. The API server waits five seconds for the webhook.
const DEADLINE: Duration = Duration::from_secs(3);
/// Kubernetes' controller that deletes the objects of a deleted namespace. If the webhook refused
/// it, the namespace would never be deleted.
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// Decides on definitions, and on the installations of the watched namespaces.
pub struct InstallationWebhook {
    client: Client,
    kinds: InstallationKinds,
    namespaces: Arc<[String]>,
    settings: watch::Receiver<Arc<InstallationSettings>>,
}

impl InstallationWebhook {
    /// `namespaces` are those of the installations, unless the settings say all.
    pub fn new(
        client: Client,
        namespaces: Arc<[String]>,
        settings: watch::Receiver<Arc<InstallationSettings>>,
    ) -> InstallationWebhook {
        InstallationWebhook {
            client,
            kinds: InstallationKinds::new(),
            namespaces,
            settings,
        }
    }

    fn is_watched(&self, namespace: Option<&str>) -> bool {
        let is_own = |own: &String| Some(own.as_str()) == namespace;
        self.settings.borrow().all_namespaces || self.namespaces.iter().any(is_own)
    }

    /// The definition that the object of a request names.
    async fn definition(
        &self,
        request: &ObjectRequest,
    ) -> Result<Option<ApplicationDefinition>, ApiCallError> {
        let object = request.object.as_ref().or(request.old_object.as_ref());
        let name = object.and_then(parsed::definition_name);
        // Another text would be a path of another object.
        let Some(name) = name.filter(|name| is_subdomain(name)) else {
            return Ok(None);
        };
        let api: Api<DeepObject> = Api::all_with(self.client.clone(), &self.kinds.definitions);
        let found = with_deadline(DEADLINE, api.get_opt(name)).await?;
        Ok(found.and_then(|object| parsed::definition(&object).ok()))
    }
}

impl RulesSource for InstallationWebhook {
    fn covers(&self, request: &ObjectRequest) -> bool {
        let kind = &request.kind;
        kind.group == self.kinds.definitions.group
            && (kind.kind == self.kinds.definitions.kind
                || (kind.kind == self.kinds.installations.kind
                    && self.is_watched(request.namespace.as_deref())))
    }

    fn rules<'a>(&'a self, request: &'a ObjectRequest) -> RulesFuture<'a> {
        Box::pin(async move {
            let settings = self.settings.borrow().clone();
            let rules: Box<dyn ObjectRules> = match request.kind.kind == self.kinds.definitions.kind
            {
                true => Box::new(DefinitionReview {
                    rules: settings.source_rules,
                }),
                false => Box::new(InstallationReview {
                    named: self.definition(request).await?,
                    cluster_name: settings.cluster_name.clone(),
                }),
            };
            Ok(rules)
        })
    }
}

/// The rules of a definition.
struct DefinitionReview {
    rules: SourceRules,
}

impl ObjectRules for DefinitionReview {
    fn validate(&self, request: &ObjectRequest) -> Result<Vec<String>, String> {
        let before = request.old_object.as_ref();
        match (&request.object, before) {
            (Some(object), _) => {
                admission::validate_definition(object, before, self.rules)?;
                Ok(admission::definition_warnings(object))
            }
            (None, Some(deleted)) => {
                admission::validate_definition_deletion(deleted).map(|()| Vec::new())
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    fn with_defaults(&self, _request: &ObjectRequest, object: &DeepObject) -> Value {
        admission::with_definition_defaults(&object.spec)
    }
}

/// The rules of an installation.
struct InstallationReview {
    /// The definition that it names.
    named: Option<ApplicationDefinition>,
    /// The name of this cluster in the selectors of definitions.
    cluster_name: String,
}

impl InstallationReview {
    fn validate_deletion(
        &self,
        request: &ObjectRequest,
        deleted: &DeepObject,
    ) -> Result<(), String> {
        if request.user_info.username.as_deref() == Some(NAMESPACE_CONTROLLER) {
            return Ok(());
        }
        let target = selector_name(target_name(deleted), &self.cluster_name);
        admission::validate_installation_deletion(deleted, self.named.as_ref(), target)
    }
}

impl ObjectRules for InstallationReview {
    fn validate(&self, request: &ObjectRequest) -> Result<Vec<String>, String> {
        let before = request.old_object.as_ref();
        let checked = match (&request.object, before) {
            (Some(object), _) => {
                if let Some(before) = before {
                    check_bound_target(object, before)?;
                }
                let object = with_namespace(request, object);
                admission::validate_installation(&object, before, self.named.as_ref())
            }
            (None, Some(deleted)) => self.validate_deletion(request, deleted),
            (None, None) => Ok(()),
        };
        checked.map(|()| Vec::new())
    }

    fn with_defaults(&self, request: &ObjectRequest, object: &DeepObject) -> Value {
        let before = request.old_object.as_ref();
        // Labels and finalizers of an older object change without its spec.
        if before.is_some_and(|before| before.spec == object.spec) {
            return object.spec.clone();
        }
        let object = with_namespace(request, object);
        let is_new = request.operation == Operation::Create;
        let named = self.named.as_ref().map(|definition| &definition.spec);
        admission::with_installation_defaults(&object, is_new, named)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn request(operation: &str, object: Value, before: Value) -> ObjectRequest {
        let request = json!({
            "uid": "1",
            "kind": { "group": "apps.kubermatic.k8c.io", "version": "v1", "kind": "X" },
            "resource": { "group": "apps.kubermatic.k8c.io", "version": "v1", "resource": "x" },
            "name": "app-1", "namespace": "apps", "operation": operation, "userInfo": {},
            "object": object, "oldObject": before,
        });
        serde_json::from_value(request).expect("a request")
    }

    fn installation(patch: Value) -> Value {
        serde_json::to_value(samples::installation(patch)).expect("JSON")
    }

    fn definition(patch: Value) -> Value {
        serde_json::to_value(samples::definition(patch)).expect("JSON")
    }

    fn review(patch: Value) -> InstallationReview {
        InstallationReview {
            named: Some(samples::definition(patch)),
            cluster_name: "hub".into(),
        }
    }

    #[test]
    fn a_new_installation_gets_its_defaults_and_an_old_one_stays() {
        let rules = review(json!({}));
        let without = json!({
            "metadata": { "name": "a" },
            "spec": { "applicationRef": { "name": "example", "version": "1.0.0" } },
        });
        let created = request("CREATE", without.clone(), Value::Null);
        let object = created.object.clone().expect("an object");
        let defaulted = rules.with_defaults(&created, &object);
        let own = json!({ "name": "apps", "create": true });
        assert_eq!(defaulted["namespace"], own);
        assert_eq!(rules.validate(&created), Ok(vec![]));
        let labelled = request("UPDATE", without.clone(), without);
        assert_eq!(rules.with_defaults(&labelled, &object), object.spec);
    }

    #[test]
    fn an_invalid_installation_and_the_deletion_of_an_enforced_one_are_denied() {
        let rules = review(json!({ "spec": {
            "enforced": true, "selector": { "targets": ["hub"] },
        } }));
        let both = json!({ "spec": { "values": { "a": 1 }, "valuesBlock": "a: 1" } });
        let created = request("CREATE", installation(both), Value::Null);
        let denied = rules.validate(&created).expect_err("denied");
        assert!(denied.starts_with("[spec.values: Only values"), "{denied}");

        let named = |more: Value| {
            let mut patch = json!({ "metadata": { "name": "example" } });
            ludgate_cluster::merge_patch::apply(&mut patch, &more);
            installation(patch)
        };
        let deletion = |object: Value| request("DELETE", Value::Null, object);
        let denied = rules.validate(&deletion(named(json!({}))));
        assert!(denied.is_err());
        // On another target it is not enforced.
        let edge = json!({ "metadata": { "labels": { "ludgate.dev/target": "edge" } } });
        assert_eq!(rules.validate(&deletion(named(edge))), Ok(vec![]));
        assert_eq!(
            rules.validate(&deletion(installation(json!({})))),
            Ok(vec![])
        );
        // A changed annotation must not make it look like one.
        let bound = |target: &str| {
            named(json!({ "metadata": { "annotations": { "ludgate.dev/bound-target": target } } }))
        };
        let update =
            |object: Value, before: Value| rules.validate(&request("UPDATE", object, before));
        assert_eq!(update(bound("self"), named(json!({}))), Ok(vec![]));
        // `kubectl replace` writes an object without it.
        assert_eq!(update(named(json!({})), bound("self")), Ok(vec![]));
        for (object, before) in [
            (bound("edge"), bound("self")),
            (bound("edge"), named(json!({}))),
            (named(json!({})), bound("edge")),
        ] {
            let denied = update(object, before).expect_err("denied");
            assert!(denied.contains("bound-target"), "{denied}");
        }
        let mut of_namespace = deletion(named(json!({})));
        of_namespace.user_info.username = Some(NAMESPACE_CONTROLLER.to_owned());
        assert_eq!(rules.validate(&of_namespace), Ok(vec![]));
    }

    #[test]
    fn a_definition_is_checked_and_its_removal_by_its_labels() {
        let rules = DefinitionReview {
            rules: SourceRules::default(),
        };
        let valid = request("CREATE", definition(json!({})), Value::Null);
        assert_eq!(rules.validate(&valid), Ok(vec![]));
        let method = definition(json!({ "spec": { "method": "x" } }));
        assert!(
            rules
                .validate(&request("CREATE", method, Value::Null))
                .is_err()
        );
        let managed = json!({ "metadata": { "labels": {
            "apps.kubermatic.k8c.io/managed-by": "kkp",
        } } });
        let deleted = request("DELETE", Value::Null, definition(managed));
        assert!(rules.validate(&deleted).is_err());
        let deleted = request("DELETE", Value::Null, definition(json!({})));
        assert_eq!(rules.validate(&deleted), Ok(vec![]));
    }
}
