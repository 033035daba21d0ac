//! Requests to start and delete labs, which each replica takes.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ludgate_ops::redis::StoreError;

use super::Replica;
use crate::{
    error::LabError,
    options::LabSpecification,
    service::{
        callers::LabCaller,
        lab::{Lab, SpawnCheck},
        lab_service::{LabService, permitted_user},
        operation::{Deletion, Operation, OperationKind},
        operation_request::{OperationRequest, StoredPlan},
        operation_store::{Begun, NewOperation, stored_operation::StoredOperation},
        spawn_plan::SpawnPlan,
    },
    user::check_username,
};

/// Attempts to begin an operation while other replicas begin others.
const ATTEMPTS: usize = 5;

/// The store cannot be reached, or has lost its data just now.
fn store_away(_: StoreError) -> LabError {
    let message = "the store that the replicas of the lab controller share cannot be used now; the \
                   request may be sent again";
    LabError::Unavailable(message.to_owned())
}

/// Keys of clients are chosen by them, and may be secrets.
fn digest_of(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, key.as_bytes()))
}

impl LabService {
    /// Starts a lab. See [`LabService::create`].
    pub(in crate::service) async fn create_shared(
        &self,
        replica: &Replica,
        caller: &LabCaller,
        specification: LabSpecification,
        key: Option<&str>,
    ) -> Result<(), LabError> {
        self.check_listed()?;
        let user = permitted_user(caller)?;
        let key = key.map(digest_of);
        let lab = self.lab(&caller.username);
        self.synchronize(&lab).await.map_err(store_away)?;
        if lab.record().is_repeated(key.as_deref()) {
            return Ok(());
        }
        let mut plan = self.plan(caller, user, specification).await?;
        for _ in 0..ATTEMPTS {
            if self
                .try_create(replica, &lab, &mut plan, key.as_deref())
                .await?
            {
                return Ok(());
            }
        }
        Err(LabError::OperationInProgress(caller.username.clone()))
    }

    /// Returns whether the lab starts, or did before. Else another replica was faster.
    async fn try_create(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        plan: &mut SpawnPlan,
        key: Option<&str>,
    ) -> Result<bool, LabError> {
        let _turn = lab.turn.lock().await;
        let before = self.refresh_lab(replica, lab).await.map_err(store_away)?;
        let check = lab.record().check_spawn(&lab.username, key)?;
        let SpawnCheck::New { is_replacement } = check else {
            return Ok(true);
        };
        plan.is_replacement = is_replacement;
        let request = OperationRequest {
            key: key.map(str::to_owned),
            plan: Some(StoredPlan::from(&*plan)),
            pod: None,
        };
        let begun = self.begin_shared(replica, lab, before.as_ref(), OperationKind::Spawn, request);
        let begun = begun.await.map_err(store_away)?;
        Ok(begun.is_some())
    }

    /// Starts to delete a lab. See [`LabService::delete`].
    pub(in crate::service) async fn delete_shared(
        &self,
        replica: &Replica,
        username: &str,
    ) -> Result<Deletion, LabError> {
        check_username(username).map_err(|_| LabError::unknown_user(username))?;
        self.check_listed()?;
        let lab = self.lab(username);
        for _ in 0..ATTEMPTS {
            if let Some(operation) = self.try_delete(replica, &lab).await? {
                return Ok(operation.ended());
            }
        }
        Err(LabError::OperationInProgress(username.to_owned()))
    }

    /// The deletion that runs or begins; `None` if another replica was faster.
    async fn try_delete(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
    ) -> Result<Option<Arc<Operation>>, LabError> {
        let _turn = lab.turn.lock().await;
        let before = self.refresh_lab(replica, lab).await.map_err(store_away)?;
        let is_found = self.found(lab).namespace.is_some();
        let joined = lab.record().check_delete(&lab.username, is_found)?;
        if joined.is_some() {
            return Ok(joined);
        }
        let request = OperationRequest::default();
        let kind = OperationKind::Delete;
        let begun = self.begin_shared(replica, lab, before.as_ref(), kind, request);
        begun.await.map_err(store_away)
    }

    /// Begins an operation after the one that was seen before. `None`: another replica was faster.
    /// The caller has the turn of the lab.
    pub(super) async fn begin_shared(
        &self,
        replica: &Replica,
        lab: &Arc<Lab>,
        before: Option<&StoredOperation>,
        kind: OperationKind,
        request: OperationRequest,
    ) -> Result<Option<Arc<Operation>>, StoreError> {
        let version = before.map(StoredOperation::version).unwrap_or_default();
        let number = before.map_or(0, |before| before.number.saturating_add(1));
        let operation = NewOperation {
            // The clocks of replicas differ.
            number: self.next_operation().max(number),
            kind,
            request,
        };
        let begun = replica.store.begin(&lab.username, &version, &operation);
        let lock = match begun.await? {
            Begun::Changed => return Ok(None),
            Begun::Waiting => None,
            Begun::Held(lock) => Some(lock),
        };
        let NewOperation {
            number,
            kind,
            request,
        } = operation;
        let operation = self.adopt(lab, kind, number, request);
        match lock {
            Some(lock) => self.own(lab, &operation, lock),
            None => self.claim_when_free(lab, &operation),
        }
        replica.store.announce(&lab.username).await;
        Ok(Some(operation))
    }
}
