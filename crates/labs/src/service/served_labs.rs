//! The labs of the cluster behind the routes.

use futures_util::{StreamExt, future::BoxFuture};

use super::{
    callers::LabCaller,
    lab_service::LabService,
    operations::{LabOperations, PendingDeletion, PendingEvents},
};
use crate::{
    error::LabError,
    events::{EventId, LabEvent},
    options::LabSpecification,
    state::LabState,
};

impl LabOperations for LabService {
    fn create<'a>(
        &'a self,
        caller: &'a LabCaller,
        specification: LabSpecification,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), LabError>> {
        Box::pin(LabService::create(self, caller, specification, key))
    }

    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<PendingDeletion, LabError>> {
        Box::pin(async move {
            let deletion = LabService::delete(self, username).await?;
            let pending: PendingDeletion = Box::pin(deletion);
            Ok(pending)
        })
    }

    fn refresh<'a>(&'a self, username: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(LabService::refresh(self, username))
    }

    fn get(&self, username: &str) -> Result<LabState, LabError> {
        LabService::get(self, username)
    }

    fn running(&self) -> Result<Vec<String>, LabError> {
        LabService::running(self)
    }

    fn history(&self, username: &str) -> Vec<LabEvent> {
        LabService::history(self, username)
    }

    fn events(&self, username: &str, after: Option<EventId>) -> Result<PendingEvents, LabError> {
        Ok(LabService::events(self, username, after)?.boxed())
    }
}
