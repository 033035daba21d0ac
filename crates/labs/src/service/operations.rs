//! What the routes need of the labs themselves.

use futures_util::{future::BoxFuture, stream::BoxStream};

use super::callers::LabCaller;
use crate::{
    error::LabError,
    events::{EventId, LabEvent},
    options::LabSpecification,
    state::LabState,
};

/// A deletion that has begun. It goes on if this is dropped.
pub type PendingDeletion = BoxFuture<'static, Result<(), LabError>>;
/// Events of an operation: those so far, then those to come, until the operation ends.
pub type PendingEvents = BoxStream<'static, (EventId, LabEvent)>;

/// Operations on labs. Tests of routes have their own.
pub trait LabOperations: Send + Sync {
    /// Begins to start a lab. Returns before its pod runs. A request with the key of an earlier
    /// one, whose lab is alive, does nothing.
    ///
    /// # Errors
    /// If there is a lab, or if the person may not have this one.
    fn create<'a>(
        &'a self,
        caller: &'a LabCaller,
        specification: LabSpecification,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), LabError>>;

    /// Begins to delete a lab, or joins a deletion that has begun.
    ///
    /// # Errors
    /// If there is no lab.
    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<PendingDeletion, LabError>>;

    /// Takes over what other replicas have begun with a lab, as far as that can be found out now.
    /// Before an answer that another replica's answer may have led to.
    fn refresh<'a>(&'a self, _username: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// The state of a lab, from memory.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`], or [`LabError::Unavailable`] until all labs are known.
    fn get(&self, username: &str) -> Result<LabState, LabError>;

    /// The persons whose labs run, from memory.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] until all labs are known.
    fn running(&self) -> Result<Vec<String>, LabError>;

    /// The events so far of the last operation on a lab; none if there is no lab.
    fn history(&self, username: &str) -> Vec<LabEvent>;

    /// The events of the last operation on a lab, after the one that a listener has.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`], or [`LabError::Unavailable`] with too many listeners or until all
    /// labs are known.
    fn events(&self, username: &str, after: Option<EventId>) -> Result<PendingEvents, LabError>;
}
