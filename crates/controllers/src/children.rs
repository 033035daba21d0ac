//! The objects that a controller applies for one of its own, the owner.
//!
//! Invariants: an object that the owner does not own is never written; an unchanged object is never
//! written. Unchanged means one of two:
//! - The live object has every desired value (`covers`). An annotation with a hash of the desired
//!   object finds values that are no longer wanted.
//! - The server rewrites some values, such as `1024Mi`: the live object is as the server stored it
//!   after the same desired object was applied.
//!
//! A child may be another controller's: one that ran here before made it for the same owner. Before
//! it is applied it gets the desired spec by a patch, and the applying manager gets all fields of
//! the spec (`take_over`). Each step may be the last one of a process: only the apply after them
//! writes the hash.

pub(crate) mod covers;
mod managed_fields;
mod replacement;

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

/// The owner of the fields that controllers write.
pub const FIELD_MANAGER: &str = "ludgate";
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
            if !is_applied(live) {
                self.take_over(kind, place, live, &desired).await?;
            }
        }
        self.metrics.wrote();
        let stored = self.writer.apply(kind, place, &desired).await?;
        self.remember(&owner.name, &stored, hash);
        Ok(())
    }

    /// Sets the annotations of a child, and leaves all else as it is.
    ///
    /// # Errors
    /// [`ReconcileError`]; also for an object that is not the owner's.
    pub async fn annotate(
        &self,
        owner: &OwnerReference,
        kind: &ApiResource,
        live: &DynamicObject,
        annotations: &Value,
    ) -> Result<(), ReconcileError> {
        check_owner(live, owner, kind)?;
        if covers(&json!(live.annotations()), annotations) {
            return Ok(());
        }
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.merge(kind, live, &patch).await?;
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
        let patch = json!({ "spec": { "replicas": 0 } });
        self.merge(kind, live, &patch).await?;
        Ok(())
    }

    /// Forgets what was stored for an owner that is gone.
    pub fn forget(&self, owner: &str) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.remove(owner);
    }

    /// Gives another controller's object the desired spec, and its fields to this manager.
    async fn take_over(
        &self,
        kind: &ApiResource,
        place: NamespacedName<'_>,
        live: &DynamicObject,
        desired: &Value,
    ) -> Result<(), ReconcileError> {
        // The hash comes last, with the apply that follows. The other annotations come at once:
        // with the old ones, a take-over that ends here would look like a Deployment that was left
        // alone.
        let mut first = desired.clone();
        if let Some(Value::Object(annotations)) = first.pointer_mut("/metadata/annotations") {
            annotations.remove(DESIRED_HASH_ANNOTATION);
        }
        let mut patch = replacement::patch(&live.data, desired);
        patch["metadata"] = json!({ "annotations": first["metadata"]["annotations"] });
        let Some(mut replaced) = self.merge(kind, live, &patch).await? else {
            return Ok(());
        };
        if replaced.managed_fields().is_empty() {
            // No fields are recorded for an object that has been invalid for server-side apply, or
            // is older than it. Its first apply begins the record.
            self.metrics.wrote();
            replaced = self.writer.apply(kind, place, &first).await?;
        }
        let entries = replaced.managed_fields();
        let manager = self.writer.manager();
        if let Some(entries) = managed_fields::take_over(entries, manager, &kind.api_version) {
            // All entries are written: none may have changed since they were read.
            let version = replaced.resource_version();
            let metadata = json!({ "resourceVersion": version, "managedFields": entries });
            self.merge(kind, live, &json!({ "metadata": metadata }))
                .await?;
        }
        Ok(())
    }

    /// Changes an object by a JSON merge patch. `None`: it was deleted meanwhile.
    async fn merge(
        &self,
        kind: &ApiResource,
        live: &DynamicObject,
        patch: &Value,
    ) -> Result<Option<DynamicObject>, ReconcileError> {
        let (namespace, name) = (live.namespace().unwrap_or_default(), live.name_any());
        let place = NamespacedName {
            namespace: &namespace,
            name: &name,
        };
        self.metrics.wrote();
        match self.writer.merge(kind, place, patch).await {
            Err(ApiCallError::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(None),
            other => Ok(Some(other?)),
        }
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

/// Whether another controller made this child of the owner.
pub fn is_of_another_controller(child: &DynamicObject, owner: &OwnerReference) -> bool {
    is_owned(child, owner) && !is_applied(child)
}

/// Whether a controller of this program has applied an object.
fn is_applied(object: &DynamicObject) -> bool {
    object.annotations().contains_key(DESIRED_HASH_ANNOTATION)
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

/// A short hash of a value.
pub fn hash_of(value: &Value) -> String {
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
