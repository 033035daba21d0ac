//! Calls to the API server for one operation on a server.

use std::{collections::HashSet, mem, sync::Arc};

use ludgate_cluster::writer::Writer;
use serde_json::Value;
use tokio::sync::watch;

use super::owned::OwnedObject;
use crate::service::{
    outcome::Stopped,
    retry::{Call, Limits, with_retries},
    stores::is_ending,
    writes::{apply_object, kind_of, other_is_gone, shown},
};

/// Seconds in which a server may finish the requests that it has.
const GRACE_SECONDS: u32 = 10;
/// What a deletion waits for.
const WAIT_GONE: &str = "waiting until the objects are deleted";

/// Calls to the API server for one operation.
pub(super) struct OwnedCalls<'c> {
    pub(super) writer: &'c Writer,
    pub(super) touched: &'c watch::Sender<()>,
    pub(super) limits: &'c Limits,
}

impl OwnedCalls<'_> {
    /// Makes an object, or sets its fields.
    pub(super) async fn apply(&self, object: &Value) -> Result<OwnedObject, Stopped> {
        let applied = apply_object(self.writer, self.limits, object).await?;
        let kind = kind_of(object)
            .ok_or_else(|| Stopped::Impossible("an object has an unknown kind".to_owned()))?;
        Ok(OwnedObject {
            kind: Arc::new(kind),
            object: Arc::new(applied),
        })
    }

    /// Deletes what was made, which the watches may not have shown yet, and all that they show.
    /// Waits until they show none of it.
    pub(super) async fn remove(
        &self,
        made: Vec<OwnedObject>,
        stored: impl Fn() -> Vec<OwnedObject>,
    ) -> Result<(), Stopped> {
        let mut touched = self.touched.subscribe();
        let mut deleted = HashSet::new();
        let mut left = made;
        loop {
            touched.borrow_and_update();
            let found = stored();
            let is_gone = found.is_empty();
            left.extend(found);
            for object in mem::take(&mut left) {
                if !is_ending(&object.object) && deleted.insert(object.uid()) {
                    self.delete(&object).await?;
                }
            }
            if is_gone {
                return Ok(());
            }
            // The sender is borrowed here, so it lives.
            let _ = self.limits.wait(WAIT_GONE, touched.changed()).await?;
        }
    }

    async fn delete(&self, owned: &OwnedObject) -> Result<(), Stopped> {
        let (name, uid) = (owned.name(), owned.uid());
        let call = Call {
            action: "deleting object",
            object: &shown(&owned.kind, name),
        };
        let (writer, kind, uid) = (self.writer, &owned.kind, uid.as_str());
        let is_pod = owned.is("Pod");
        with_retries(self.limits, call, |_| async move {
            other_is_gone(match is_pod {
                true => writer.delete_within(kind, name, uid, GRACE_SECONDS).await,
                false => writer.delete(kind, name, uid).await,
            })
        })
        .await
    }
}
