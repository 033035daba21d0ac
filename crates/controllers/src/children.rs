//! The objects that a controller makes for one of its own, the owner.
//!
//! Invariants: an object that the owner does not own is never written; an unchanged object is never
//! written.

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
use ludgate_cluster::writer::{Place, Writer};
use ludgate_model::hex;
use serde_json::{Value, json};

use crate::error::ReconcileError;
use covers::covers;

/// Annotation with a hash of what was applied. It changes when a field is no longer wanted, which
/// the other fields do not show.
const DESIRED: &str = "ludgate/desired-hash";

/// Writes the children of objects, and remembers how the server stored them.
pub struct Children {
    writer: Writer,
    /// By the child's uid: hashes of the desired object and of the stored one. The server changes
    /// the text of some values, and writing them again would change nothing.
    stored: Mutex<HashMap<String, (String, String)>>,
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
    pub fn new(writer: Writer) -> Children {
        Children {
            writer,
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
        desired["metadata"]["annotations"][DESIRED] = hash.clone().into();
        let metadata = &desired["metadata"];
        let place = Place {
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
            if self.is_as_desired(live, &desired, &hash) {
                return Ok(());
            }
        }
        let stored = self.writer.apply(kind, place, &desired).await?;
        self.remember(&stored, hash);
        Ok(())
    }

    /// Deletes children that are no longer wanted.
    ///
    /// # Errors
    /// [`ReconcileError`].
    pub async fn prune<'a>(
        &self,
        owner: &OwnerReference,
        kind: &ApiResource,
        unwanted: impl Iterator<Item = &'a DynamicObject>,
    ) -> Result<(), ReconcileError> {
        for object in unwanted {
            if !is_owned(object, owner) {
                continue;
            }
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            let place = Place {
                namespace: &namespace,
                name: &name,
            };
            let uid = object.uid().unwrap_or_default();
            self.writer.delete(kind, place, &uid).await?;
        }
        Ok(())
    }

    fn is_as_desired(&self, live: &DynamicObject, desired: &Value, hash: &str) -> bool {
        let Ok(value) = serde_json::to_value(live) else {
            return false;
        };
        if covers(&value, desired) {
            return true;
        }
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stored.get(&live.uid().unwrap_or_default());
        known.is_some_and(|known| *known == (hash.to_owned(), fingerprint(value)))
    }

    fn remember(&self, stored: &DynamicObject, hash: String) {
        let (Some(uid), Ok(value)) = (stored.uid(), serde_json::to_value(stored)) else {
            return;
        };
        let mut all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid, (hash, fingerprint(value)));
    }

    /// Forgets how an object was stored that is gone.
    pub fn forget(&self, uid: &str) {
        let mut all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(uid);
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
    Err(ReconcileError::Refused(format!(
        "{} {} exists already and belongs to somebody else",
        kind.kind,
        live.name_any()
    )))
}

fn hash_of(value: &Value) -> String {
    // The keys of an object are sorted.
    let text = value.to_string();
    hex::encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8])
}

/// A hash of an object without the parts that change by themselves.
fn fingerprint(mut object: Value) -> String {
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
