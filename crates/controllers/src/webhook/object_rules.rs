//! Admission requests, and the rules of kinds whose controller is in another crate.

use futures_util::future::BoxFuture;
use kube::{Resource, core::admission::AdmissionRequest};
use ludgate_cluster::{deadline::ApiCallError, object::DeepObject};
use serde_json::Value;

/// A request of the API server, with its objects as controllers read them.
pub type ObjectRequest = AdmissionRequest<DeepObject>;

/// The object with the namespace of the request. Before Kubernetes 1.21, the metadata of a new
/// object may have none.
pub fn with_namespace(request: &ObjectRequest, object: &DeepObject) -> DeepObject {
    let mut object = object.clone();
    object.meta_mut().namespace.clone_from(&request.namespace);
    object
}

/// The rules for a request, when they have been read.
pub type RulesFuture<'a> = BoxFuture<'a, Result<Box<dyn ObjectRules>, ApiCallError>>;

/// Finds the rules for the objects of some kinds.
pub trait RulesSource: Send + Sync {
    /// Whether it has rules for a request: by its kind, and by its namespace.
    fn covers(&self, request: &ObjectRequest) -> bool;

    /// Reads what the rules depend on from the cluster.
    fn rules<'a>(&'a self, request: &'a ObjectRequest) -> RulesFuture<'a>;
}

/// The rules for one request, without IO.
pub trait ObjectRules: Send {
    /// Checks an object that is created or changed, or a deletion. Returns warnings.
    ///
    /// # Errors
    /// The message for the author of the request.
    fn validate(&self, request: &ObjectRequest) -> Result<Vec<String>, String>;

    /// The spec of the request's object with its defaults.
    fn with_defaults(&self, request: &ObjectRequest, object: &DeepObject) -> Value;
}
