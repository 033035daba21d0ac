//! The objects that a controller applies for one of its own, the owner.
//!
//! Invariants: an object that the owner does not own is never written; an unchanged object is never
//! written. Unchanged means one of two:
//! - The live object has every desired value (`covers`). An annotation with a hash of the desired
//!   object finds values that are no longer wanted.
//! - The server rewrites some values, such as `1024Mi`: the live object is as the server stored it
//!   after the same desired object was applied.

mod covers;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use aws_lc_rs::digest::{SHA256, digest};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use ludgate_cluster::{
    deadline::ApiCallError,
    writer::{NamespacedName, Writer},
};
use ludgate_model::hex;
use serde_json::{Value, json};

use crate::{error::ReconcileError, metrics::ControllerMetrics};
use covers::covers;

/// Annotation with a hash of what was applied. It changes when a field is no longer wanted, which
/// the other fields do not show.
const DESIRED_HASH_ANNOTATION: &str = "ludgate/desired-hash";

/// Writes the children of objects, and remembers how the server stored them.
pub struct Children {
    writer: Writer,
    metrics: ControllerMetrics,
    /// By the owner's name and the child's uid.
    stored: Mutex<HashMap<String, HashMap<String, Stored>>>,
}

/// Hashes of an object that was applied.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    desired: String,
    live: String,
}

/// A child that is wanted.
pub struct Child<'a> {
    /// Its kind.
    pub kind: &'a ApiResource,
    /// The object, with name and namespace, without owner.
    pub desired: Value,
    /// The object as it is; `None`: it was not seen.
    pub live: Option<&'a DynamicObject>,
}

impl Children {
    /// Writes by this writer.
    pub fn new(writer: Writer, metrics: ControllerMetrics) -> Children {
        Children {
            writer,
            metrics,
            stored: Mutex::default(),
        }
    }

    /// Makes or changes a child, if it is not as it should be.
    ///
    /// # Errors
    /// [`ReconcileError`]; also for an object of this name that is not the owner's.
    pub async fn apply(
        &self,
        owner: &OwnerReference,
        child: Child<'_>,
    ) -> Result<(), ReconcileError> {
        let Child {
            kind,
            mut desired,
            live,
        } = child;
        let hash = hash_of(&desired);
        desired["metadata"]["ownerReferences"] = json!([owner]);
        desired["metadata"]["annotations"][DESIRED_HASH_ANNOTATION] = hash.clone().into();
        let metadata = &desired["metadata"];
        let place = NamespacedName {
            namespace: metadata["namespace"].as_str().unwrap_or_default(),
            name: metadata["name"].as_str().unwrap_or_default(),
        };
        let unseen = match live {
            Some(_) => None,
            // A watch may be late, or may not show objects of others.
            None => self.writer.get(kind, place).await?,
        };
        if let Some(live) = live.or(unseen.as_ref()) {
            check_owner(live, owner, kind)?;
            if self.is_as_desired(&owner.name, live, &desired, &hash) {
                return Ok(());
            }
        }
        self.metrics.wrote();
        let stored = self.writer.apply(kind, place, &desired).await?;
        self.remember(&owner.name, &stored, hash);
        Ok(())
    }

    /// Deletes a child that is no longer wanted. Objects of other owners stay.
    ///
    /// # Errors
    /// [`ReconcileError`].
    pub async fn delete(
        &self,
        owner: &OwnerReference,
        kind: &ApiResource,
        live: &DynamicObject,
    ) -> Result<(), ReconcileError> {
        if !is_owned(live, owner) {
            return Ok(());
        }
        let (namespace, name) = (live.namespace().unwrap_or_default(), live.name_any());
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let uid = live.uid().unwrap_or_default();
        self.metrics.wrote();
        Ok(self.writer.delete(kind, place, &uid).await?)
    }

    /// Ends the pods of a Deployment, if it has any.
    ///
    /// # Errors
    /// [`ReconcileError`].
    pub async fn scale_to_zero(
        &self,
        owner: &OwnerReference,
        kind: &ApiResource,
        live: &DynamicObject,
    ) -> Result<(), ReconcileError> {
        check_owner(live, owner, kind)?;
        if live.data["spec"]["replicas"].as_u64() == Some(0) {
            return Ok(());
        }
        let (namespace, name) = (live.namespace().unwrap_or_default(), live.name_any());
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        let patch = json!({ "spec": { "replicas": 0 } });
        self.metrics.wrote();
        match self.writer.merge(kind, place, &patch).await {
            // It was deleted meanwhile.
            Err(ApiCallError::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Forgets what was stored for an owner that is gone.
    pub fn forget(&self, owner: &str) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.remove(owner);
    }

    fn is_as_desired(
        &self,
        owner: &str,
        live: &DynamicObject,
        desired: &Value,
        hash: &str,
    ) -> bool {
        let Ok(value) = serde_json::to_value(live) else {
            return false;
        };
        if covers(&value, &without_types(desired.clone())) {
            return true;
        }
        let all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = live.uid().unwrap_or_default();
        let stored = all.get(owner).and_then(|children| children.get(&uid));
        stored.is_some_and(|stored| stored.desired == hash && stored.live == fingerprint(value))
    }

    fn remember(&self, owner: &str, applied: &DynamicObject, hash: String) {
        let (Some(uid), Ok(value)) = (applied.uid(), serde_json::to_value(applied)) else {
            return;
        };
        let stored = Stored {
            desired: hash,
            live: fingerprint(value),
        };
        let mut all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(owner.to_owned()).or_default().insert(uid, stored);
    }
}

fn is_owned(object: &DynamicObject, owner: &OwnerReference) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|other| other.uid == owner.uid)
}

fn check_owner(
    live: &DynamicObject,
    owner: &OwnerReference,
    kind: &ApiResource,
) -> Result<(), ReconcileError> {
    if is_owned(live, owner) {
        return Ok(());
    }
    Err(ReconcileError::Rejected(format!(
        "{} {} already exists and has another owner",
        kind.kind,
        live.name_any()
    )))
}

fn hash_of(value: &Value) -> String {
    // serde_json sorts the keys, unless its feature `preserve_order` is on.
    let text = value.to_string();
    hex::encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8])
}

/// Objects of a list have no `apiVersion` and `kind`.
fn without_types(mut object: Value) -> Value {
    if let Value::Object(object) = &mut object {
        object.remove("apiVersion");
        object.remove("kind");
    }
    object
}

/// A hash of an object without the parts that change by themselves.
fn fingerprint(object: Value) -> String {
    let mut object = without_types(object);
    if let Value::Object(object) = &mut object {
        object.remove("status");
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for field in ["resourceVersion", "managedFields", "generation"] {
            metadata.remove(field);
        }
    }
    // The Deployment controller counts revisions.
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    hash_of(&object)
}
