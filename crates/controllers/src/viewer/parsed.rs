//! A PVCViewer, as the controller reads it.
//!
//! Invariants: the checks of Kubeflow's webhook hold for each [`Viewer`], also on API servers
//! without CEL. Paths have only characters that mean the same to each proxy.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};
use ludgate_cluster::{
    crd::viewer::{
        IDLE_AFTER_ANNOTATION, INSTANCE_LABEL, NAME_LABEL, PART_OF, PART_OF_LABEL, PVCViewerSpec,
        VIEWER_PREFIX, ViewerNetworking,
    },
    object::DeepObject,
};
use ludgate_model::go_duration;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Longest name: a label has the value `pvcviewer-<name>`.
const MAX_NAME: usize = 53;
/// The Service's port, and the pod's if the viewer names none.
pub const SERVICE_PORT: u16 = 80;

/// A viewer that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Viewer {
    /// Its namespace.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Counts the changes of its spec.
    pub generation: i64,
    /// The claim to show.
    pub claim: String,
    /// The author's own pod, which uses the claim; `None`: the default one.
    pub pod_spec: Option<Map<String, Value>>,
    /// How the pod is reached; `None`: it is not.
    pub networking: Option<Networking>,
    /// Whether the pod follows the other pods of a ReadWriteOnce claim.
    pub rwo_scheduling: bool,
    /// The time without use after which it is scaled to zero; `None`: as the settings say; zero:
    /// never.
    pub idle_after: Option<Duration>,
}

/// How a viewer's pod is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Networking {
    /// The pod's port.
    pub target_port: IntOrString,
    /// The path of the viewer, with slashes around it.
    pub prefix: String,
    /// Replaces the prefix when a request is forwarded.
    pub rewrite: String,
    /// Deadline of a request.
    pub timeout: Option<Duration>,
}

/// Why no viewer can be made of an object. The first three messages are Kubeflow's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidViewer {
    /// The claim's name is empty.
    #[error("PVC name must be specified")]
    NoClaim,
    /// The viewer brings no pod, and the default one is unusable.
    #[error("PodSpec must be specified")]
    NoPodSpec,
    /// No volume of the viewer's own pod is the claim.
    #[error("PVC {0} must be used in the podSpec")]
    UnusedClaim(String),
    /// A Service or a label cannot have this name.
    #[error(
        "metadata.name: at most {} characters, and with networking no dot",
        MAX_NAME
    )]
    Name,
    /// Pods with the labels of this viewer's pod are trusted.
    #[error(
        "metadata.name: is reserved: pods with the label app.kubernetes.io/name={0} are trusted"
    )]
    ReservedName(String),
    /// A field cannot be read.
    #[error("{field}: {problem}")]
    Field {
        /// Its path.
        field: &'static str,
        /// What is wrong, or what is allowed.
        problem: String,
    },
}

impl Viewer {
    /// Reads an object.
    ///
    /// # Errors
    /// The reason, for the viewer's status.
    pub fn parse(object: &DeepObject) -> Result<Viewer, InvalidViewer> {
        let spec = PVCViewerSpec::deserialize(&object.spec)
            .map_err(|error| invalid("spec", &error.to_string()))?;
        if spec.pvc.is_empty() {
            return Err(InvalidViewer::NoClaim);
        }
        let pod_spec = spec.pod_spec.filter(|written| !is_unset(written));
        let uses_claim = |pod: &Map<String, Value>| has_claim(pod.get("volumes"), &spec.pvc);
        if pod_spec.as_ref().is_some_and(|pod| !uses_claim(pod)) {
            return Err(InvalidViewer::UnusedClaim(spec.pvc));
        }
        let namespace = object.namespace().unwrap_or_default();
        let name = object.name_any();
        let place = format!("{namespace}/{name}");
        let networking = Networking::parse(spec.networking.unwrap_or_default(), &place)?;
        if name.len() > MAX_NAME || (networking.is_some() && name.contains('.')) {
            return Err(InvalidViewer::Name);
        }
        let idle_after = object.annotations().get(IDLE_AFTER_ANNOTATION);
        let idle_after = idle_after.map(|written| {
            let problem = "a duration such as 30m, or 0";
            go_duration::parse_positive(written)
                .ok_or_else(|| invalid(IDLE_AFTER_ANNOTATION, problem))
        });
        Ok(Viewer {
            namespace,
            name,
            generation: object.meta().generation.unwrap_or_default(),
            claim: spec.pvc,
            pod_spec,
            networking,
            rwo_scheduling: spec.rwo_scheduling,
            idle_after: idle_after.transpose()?,
        })
    }

    /// The name of its Deployment, Service, NetworkPolicy and route.
    pub fn child_name(&self) -> String {
        format!("{VIEWER_PREFIX}{}", self.name)
    }

    /// The labels of its objects, which also select its pods.
    pub fn labels(&self) -> Value {
        json!({
            NAME_LABEL: self.name,
            INSTANCE_LABEL: self.child_name(),
            PART_OF_LABEL: PART_OF,
        })
    }

    /// The base path that its web app gets, also without networking.
    pub fn prefix(&self) -> String {
        match &self.networking {
            Some(networking) => networking.prefix.clone(),
            None => format!("/{}/{}/", self.namespace, self.name),
        }
    }

    /// The path at which browsers find it.
    pub fn url(&self) -> Option<&str> {
        let networking = self.networking.as_ref()?;
        Some(&networking.prefix)
    }
}

impl Networking {
    /// Reads `spec.networking` of the viewer `<namespace>/<name>`. As clients in Go write it, an
    /// absent field is zero or empty, and absent networking has four of them.
    fn parse(spec: ViewerNetworking, place: &str) -> Result<Option<Networking>, InvalidViewer> {
        let target_port = spec.target_port.filter(|port| match port {
            IntOrString::Int(number) => *number != 0,
            IntOrString::String(name) => !name.is_empty(),
        });
        let base = spec.base_prefix.unwrap_or_default();
        let rewrite = spec.rewrite.unwrap_or_default();
        let timeout = spec.timeout.unwrap_or_default();
        if target_port.is_none() && [&base, &rewrite, &timeout].iter().all(|it| it.is_empty()) {
            return Ok(None);
        }
        if let Some(IntOrString::Int(number)) = &target_port
            && u16::try_from(*number).is_err()
        {
            return Err(invalid("spec.networking.targetPort", "no port"));
        }
        if !base.is_empty() && !is_base_prefix(&base) {
            let problem = "a path such as /pvcviewers, without a slash at the end";
            return Err(invalid("spec.networking.basePrefix", problem));
        }
        if !rewrite.is_empty() && !is_path(&rewrite) {
            return Err(invalid("spec.networking.rewrite", "a path such as /"));
        }
        let deadline = go_duration::parse_positive(&timeout);
        if !timeout.is_empty() && deadline.is_none() {
            let problem = "a duration such as 30s";
            return Err(invalid("spec.networking.timeout", problem));
        }
        let prefix = format!("{base}/{place}/");
        Ok(Some(Networking {
            target_port: target_port.unwrap_or(IntOrString::Int(SERVICE_PORT.into())),
            rewrite: if rewrite.is_empty() {
                prefix.clone()
            } else {
                rewrite
            },
            prefix,
            timeout: deadline,
        }))
    }
}

fn invalid(field: &'static str, problem: &str) -> InvalidViewer {
    let problem = problem.to_owned();
    InvalidViewer::Field { field, problem }
}

/// Whether a podSpec asks for the default pod: clients in Go write `{"containers": null}`.
fn is_unset(pod_spec: &Map<String, Value>) -> bool {
    let mut fields = pod_spec.values();
    fields.all(|field| field.is_null() || field.as_array().is_some_and(Vec::is_empty))
}

/// Whether one of a pod's volumes is this claim.
pub fn has_claim(volumes: Option<&Value>, claim: &str) -> bool {
    let mut volumes = volumes.and_then(Value::as_array).into_iter().flatten();
    volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

/// Whether a text is a base path of viewers, such as `/pvcviewers`.
pub fn is_base_prefix(text: &str) -> bool {
    is_path(text) && !text.ends_with('/')
}

/// Whether a text is an absolute path of plain segments. `$` would start a variable in the pod's
/// environment, and `%` and `..` are read differently by different proxies.
fn is_path(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let mut segments = text.split('/');
    text.starts_with('/')
        && !text.contains("//")
        && text.bytes().all(is_plain)
        && segments.all(|segment| segment != "." && segment != "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::samples;

    fn check(spec: Value, wanted: &str) {
        let text = spec.to_string();
        let error = samples::parse(spec, json!({})).expect_err(&text);
        assert_eq!(error.to_string(), wanted, "{text}");
    }

    #[test]
    fn the_messages_are_those_of_kubeflows_webhook() {
        let other = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "other" } });
        let unused = "PVC data must be used in the podSpec";
        check(json!({ "pvc": "" }), "PVC name must be specified");
        for volumes in [
            json!(null),
            json!([]),
            json!([other]),
            json!([{ "name": "data" }]),
        ] {
            let pod = json!({ "containers": [{ "name": "main" }], "volumes": volumes });
            check(json!({ "pvc": "data", "podSpec": pod }), unused);
        }
    }

    #[test]
    fn fields_that_a_proxy_could_read_differently_are_refused() {
        let path = "a path such as /pvcviewers, without a slash at the end";
        for (field, values, problem) in [
            ("targetPort", vec![json!(-1), json!(65536)], "no port"),
            (
                "basePrefix",
                vec![
                    json!("base"),
                    json!("/"),
                    json!("/a/"),
                    json!("/a/../b"),
                    json!("/$(X)"),
                ],
                path,
            ),
            (
                "rewrite",
                vec![json!("x"), json!("//x"), json!("/%2e"), json!("/a?b")],
                "a path such as /",
            ),
            (
                "timeout",
                vec![
                    json!("30"),
                    json!("-1s"),
                    json!("1s-2s"),
                    json!("99999999999999999h"),
                ],
                "a duration such as 30s",
            ),
        ] {
            for value in values {
                let spec = json!({ "pvc": "data", "networking": { field: value } });
                check(spec, &format!("spec.networking.{field}: {problem}"));
            }
        }
    }

    #[test]
    fn a_viewer_without_networking_has_a_prefix_and_no_url() {
        let zero = json!({ "targetPort": 0, "basePrefix": "", "rewrite": "", "timeout": "" });
        for networking in [json!(null), json!({}), zero] {
            let pod = json!({ "containers": null });
            let spec = json!({ "pvc": "data", "podSpec": pod, "networking": networking });
            let viewer = samples::viewer(spec);
            assert_eq!((viewer.networking.as_ref(), viewer.url()), (None, None));
            assert_eq!(viewer.prefix(), "/team/v/");
            assert_eq!(viewer.pod_spec, None, "an empty podSpec is the default pod");
        }
    }

    #[test]
    fn networking_has_kubeflows_defaults() {
        let parsed = |networking: Value| {
            let viewer = samples::viewer(json!({ "pvc": "data", "networking": networking }));
            viewer.networking.expect("networking")
        };
        let all = json!({
            "targetPort": "http", "basePrefix": "/new", "timeout": "1m30s", "rewrite": "/other",
        });
        assert_eq!(
            parsed(all),
            Networking {
                target_port: IntOrString::String("http".into()),
                prefix: "/new/team/v/".into(),
                rewrite: "/other".into(),
                timeout: Some(Duration::from_secs(90)),
            }
        );
        let least = parsed(json!({ "basePrefix": "/base" }));
        assert_eq!(least.target_port, IntOrString::Int(80));
        assert_eq!(
            (least.prefix.as_str(), least.timeout),
            ("/base/team/v/", None)
        );
        assert_eq!(least.rewrite, least.prefix);
    }

    #[test]
    fn the_annotation_says_when_a_viewer_is_idle() {
        let parsed = |text: &str| {
            let annotations = json!({ IDLE_AFTER_ANNOTATION: text });
            samples::parse(json!({ "pvc": "data" }), annotations).map(|viewer| viewer.idle_after)
        };
        assert_eq!(parsed("30m"), Ok(Some(Duration::from_secs(1800))));
        assert_eq!(parsed("0"), Ok(Some(Duration::ZERO)));
        assert!(parsed("soon").is_err());
    }
}
