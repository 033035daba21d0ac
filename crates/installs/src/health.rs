//! Whether the workloads of a release are available: its Deployments, StatefulSets and DaemonSets.

use kube::{Resource, ResourceExt};
use ludgate_cluster::object::Object;
use serde_json::Value;

/// Annotation that Helm writes to each object: the name of its release.
const RELEASE_ANNOTATION: &str = "meta.helm.sh/release-name";
/// The same: the namespace of the release.
const NAMESPACE_ANNOTATION: &str = "meta.helm.sh/release-namespace";

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A Deployment.
    Deployment,
    /// A StatefulSet.
    StatefulSet,
    /// A DaemonSet.
    DaemonSet,
}

/// Whether all workloads of a release are available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadHealth {
    /// `None`: not known.
    pub is_available: Option<bool>,
    /// The workloads that are not, for people.
    pub message: String,
}

impl WorkloadHealth {
    /// The workloads of the cluster have not been listed yet.
    pub fn unknown() -> WorkloadHealth {
        WorkloadHealth {
            is_available: None,
            message: "the workloads of the cluster have not been listed".to_owned(),
        }
    }

    /// The health of a release with these workloads.
    pub fn new<'a>(workloads: impl Iterator<Item = (WorkloadKind, &'a Object)>) -> WorkloadHealth {
        let mut count = 0_usize;
        let mut problems = Vec::new();
        for (kind, workload) in workloads {
            count += 1;
            let problem = problem(kind, workload);
            let name = workload.name_any();
            problems.extend(problem.map(|problem| format!("{kind:?} {name}: {problem}")));
        }
        // In the same order each time, so that the condition stays the same.
        problems.sort();
        let message = match (count, problems.is_empty()) {
            (0, _) => "the release has no workloads".to_owned(),
            (_, true) => "all workloads are available".to_owned(),
            (_, false) => problems.join("; "),
        };
        WorkloadHealth {
            is_available: Some(problems.is_empty()),
            message,
        }
    }
}

/// The namespace and name of the release that an object belongs to.
pub fn release_of(object: &Object) -> Option<(&str, &str)> {
    let annotations = object.annotations();
    let text = |key: &str| annotations.get(key).map(String::as_str);
    Some((text(NAMESPACE_ANNOTATION)?, text(RELEASE_ANNOTATION)?))
}

/// Why a workload is not available; `None`: it is.
fn problem(kind: WorkloadKind, workload: &Object) -> Option<String> {
    let (spec, status) = (&workload.spec, &workload.status);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let generation = workload.meta().generation.unwrap_or_default();
    if number(&status["observedGeneration"]) < generation {
        return Some("its last change is not rolled out yet".to_owned());
    }
    if kind == WorkloadKind::Deployment && has_condition(status, "Progressing", "False") {
        return Some("its rollout does not progress".to_owned());
    }
    let (available, wanted) = match kind {
        WorkloadKind::Deployment => (&status["availableReplicas"], replicas(spec)),
        // `availableReplicas` is newer than Kubernetes 1.20.
        WorkloadKind::StatefulSet => (&status["readyReplicas"], replicas(spec)),
        WorkloadKind::DaemonSet => {
            let wanted = number(&status["desiredNumberScheduled"]);
            (&status["numberAvailable"], wanted)
        }
    };
    let available = number(available);
    // A rolling update may have fewer pods for a while.
    let is_enough = available >= wanted
        || (kind == WorkloadKind::Deployment && has_condition(status, "Available", "True"));
    (!is_enough).then(|| format!("{available} of {wanted} pods are available"))
}

fn replicas(spec: &Value) -> i64 {
    spec["replicas"].as_i64().unwrap_or(1)
}

fn has_condition(status: &Value, kind: &str, wanted: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(spec: Value, status: Value) -> Object {
        let annotations = json!({ RELEASE_ANNOTATION: "apps-a", NAMESPACE_ANNOTATION: "target" });
        let metadata = json!({ "name": "web", "generation": 2, "annotations": annotations });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn a_workload_is_available_or_has_a_problem() {
        let condition = |kind: &str, status: &str| json!([{ "type": kind, "status": status }]);
        let deployment = WorkloadKind::Deployment;
        let few = "0 of 1 pods are available";
        for (kind, spec, status, wanted) in [
            (
                deployment,
                json!({}),
                json!({ "observedGeneration": 1, "availableReplicas": 1 }),
                Some("its last change is not rolled out yet"),
            ),
            (
                deployment,
                json!({}),
                json!({ "observedGeneration": 2 }),
                Some(few),
            ),
            (
                deployment,
                json!({ "replicas": 2 }),
                json!({ "observedGeneration": 2, "availableReplicas": 2 }),
                None,
            ),
            (
                deployment,
                json!({ "replicas": 0 }),
                json!({ "observedGeneration": 2 }),
                None,
            ),
            (
                deployment,
                json!({ "replicas": 8 }),
                json!({
                    "observedGeneration": 2, "availableReplicas": 7,
                    "conditions": condition("Available", "True"),
                }),
                None,
            ),
            (
                deployment,
                json!({}),
                json!({
                    "observedGeneration": 2, "availableReplicas": 1,
                    "conditions": condition("Progressing", "False"),
                }),
                Some("its rollout does not progress"),
            ),
            (
                WorkloadKind::StatefulSet,
                json!({ "replicas": 3 }),
                json!({ "observedGeneration": 2, "readyReplicas": 2 }),
                Some("2 of 3 pods are available"),
            ),
            (
                WorkloadKind::DaemonSet,
                json!({}),
                json!({
                    "observedGeneration": 2, "desiredNumberScheduled": 2, "numberAvailable": 2,
                }),
                None,
            ),
            (
                WorkloadKind::DaemonSet,
                json!({}),
                json!({ "observedGeneration": 2, "desiredNumberScheduled": 1 }),
                Some(few),
            ),
        ] {
            let found = problem(kind, &workload(spec.clone(), status.clone()));
            assert_eq!(found.as_deref(), wanted, "{kind:?} {spec} {status}");
        }
    }

    fn health(all: &[(WorkloadKind, &Object)]) -> WorkloadHealth {
        WorkloadHealth::new(all.iter().copied())
    }

    #[test]
    fn a_release_is_healthy_if_all_its_workloads_are() {
        let good = workload(json!({ "replicas": 0 }), json!({ "observedGeneration": 2 }));
        let bad = workload(json!({}), json!({}));
        let none = health(&[]);
        assert_eq!(none.is_available, Some(true));
        assert_eq!(none.message, "the release has no workloads");
        let all = [(WorkloadKind::Deployment, &good)];
        assert_eq!(health(&all).is_available, Some(true));
        let some = [
            (WorkloadKind::StatefulSet, &bad),
            (WorkloadKind::Deployment, &bad),
            all[0],
        ];
        let found = health(&some);
        assert_eq!(found.is_available, Some(false));
        let problem = "its last change is not rolled out yet";
        let wanted = format!("Deployment web: {problem}; StatefulSet web: {problem}");
        assert_eq!(found.message, wanted);
        assert_eq!(release_of(&good), Some(("target", "apps-a")));
        assert_eq!(release_of(&Object::default()), None);
    }
}
