//! What the routes need of file servers.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{error::LabError, user::LabUser};

/// What is configured. Tests of routes have their own.
#[derive(Clone, Default)]
pub struct FileOperations {
    /// File servers of people.
    pub servers: Option<Arc<dyn FileServerOperations>>,
    /// The pod for administrators of file systems.
    pub admin: Option<Arc<dyn FilesystemAdminOperations>>,
}

/// Operations on the file servers of people.
pub trait FileServerOperations: Send + Sync {
    /// Makes sure that the server of a person runs, and returns when it does. A creation that has
    /// begun goes on if the future is dropped.
    ///
    /// # Errors
    /// [`LabError::ServerFailed`] if it does not run in time; what was made of it is deleted.
    fn create<'a>(&'a self, user: &'a LabUser) -> BoxFuture<'a, Result<(), LabError>>;

    /// Deletes the server of a person, also one that is being created, and returns when it is gone.
    ///
    /// # Errors
    /// [`LabError::UnknownUser`] without a server, [`LabError::ServerFailed`] if it stays.
    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<(), LabError>>;

    /// Whether the server of a person runs, from memory.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] until the servers of the cluster are known.
    fn is_running(&self, username: &str) -> Result<bool, LabError>;

    /// The persons whose servers run, sorted, from memory.
    ///
    /// # Errors
    /// As [`FileServerOperations::is_running`].
    fn running(&self) -> Result<Vec<String>, LabError>;
}

/// Operations on the pod for administrators of file systems.
pub trait FilesystemAdminOperations: Send + Sync {
    /// Makes sure that the pod runs. Returns when it does, with the time of its start (RFC 3339).
    ///
    /// # Errors
    /// [`LabError::ServerFailed`] if it does not run in time; what was made of it is deleted.
    fn start(&self) -> BoxFuture<'_, Result<String, LabError>>;

    /// Deletes the pod if there is one, and returns when it is gone.
    ///
    /// # Errors
    /// [`LabError::ServerFailed`] if it stays.
    fn stop(&self) -> BoxFuture<'_, Result<(), LabError>>;

    /// The time of its start (RFC 3339), from memory.
    ///
    /// # Errors
    /// [`LabError::NotFound`] if it does not run, [`LabError::Unavailable`] if that is not known
    /// yet.
    fn started_at(&self) -> Result<String, LabError>;
}
