//! What the controller of viewers knows besides the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use crate::pod_policy::PodPolicy;

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct ViewerSettings {
    /// The base path of viewers without networking; `None`: they have no Service.
    pub base_prefix: Option<String>,
    /// The pod of a viewer that brings none.
    pub default_pod: DefaultPod,
    /// A viewer is scaled to zero after this time without use, unless its annotation says
    /// otherwise; `None`: never.
    pub idle_after: Option<Duration>,
    /// How strictly a viewer follows the other pods of its claim.
    pub affinity: AffinityMode,
    /// Whether a viewer stops when another pod of its claim cannot start because of it.
    pub yields: bool,
    /// Labels of the pods that may send requests to every viewer: the gateway's.
    pub proxies: Vec<BTreeMap<String, String>>,
    /// Labels of further namespaces whose proxies may do so, besides the viewer's own namespace.
    pub proxy_namespaces: Vec<BTreeMap<String, String>>,
    /// Labels of the pods that may send requests to every app. No viewer may have them.
    pub app_proxies: Vec<BTreeMap<String, String>>,
    /// The rights that the pods of viewers may ask for. The default pod may have any.
    pub pods: PodPolicy,
    /// Service accounts that viewers may use without a right, such as Kubeflow's `default-editor`.
    pub service_accounts: BTreeSet<String>,
    /// Namespaces whose viewers may have any pod.
    pub trusted_namespaces: BTreeSet<String>,
    /// How viewers are published.
    pub publication: Publication,
}

/// The pod of a viewer that brings none.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultPod {
    /// The built-in one, with this image of File Browser.
    BuiltIn {
        /// The image, with its tag or digest.
        image: String,
    },
    /// The spec from the configured file; null if the file cannot be read.
    File(Value),
}

/// How strictly a viewer follows the other pods of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityMode {
    /// Only the node of the other pods will do.
    Required,
    /// The scheduler may take another node. There the volume cannot be mounted until the other
    /// pods are gone.
    Preferred,
}

/// How viewers are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Ludgate's gateway reads the PVCViewers itself.
    Ludgate,
    /// By Istio.
    VirtualService {
        /// `<namespace>/<name>` of the Istio Gateway.
        gateway: String,
    },
    /// By an implementation of the Gateway API.
    HttpRoute {
        /// The name of the Gateway.
        gateway: String,
        /// The Gateway's namespace.
        namespace: String,
    },
}
