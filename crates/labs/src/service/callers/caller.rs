//! A caller, and what it may do.

use std::collections::BTreeSet;

use ludgate_model::secret::Secret;

use crate::{error::LabError, user::LabUser};

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabScope {
    /// Start a lab of one's own, and follow it.
    Notebook,
    /// What a hub does: list, read and delete all labs.
    Hub,
    /// Open a file server of one's own.
    Files,
    /// Read images and the state of prepulling, manage file servers and the pod of file systems.
    Admin,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct LabCaller {
    /// The name for sign-in; empty if a proxy names no person.
    pub username: String,
    /// What the caller may do.
    pub scopes: BTreeSet<LabScope>,
    /// The person's token, with which a lab acts for them.
    pub token: Option<Secret>,
    /// UID, GID, groups and quota, where the source of identity has them.
    pub user: Option<LabUser>,
}

impl LabCaller {
    /// Checks that the caller has a scope.
    ///
    /// # Errors
    /// [`LabError::PermissionDenied`].
    pub fn require(&self, scope: LabScope) -> Result<(), LabError> {
        match self.scopes.contains(&scope) {
            true => Ok(()),
            false => Err(LabError::PermissionDenied),
        }
    }

    /// Checks that the caller may start labs, and is this person.
    ///
    /// # Errors
    /// [`LabError::PermissionDenied`].
    pub fn require_person(&self, username: &str) -> Result<(), LabError> {
        self.require(LabScope::Notebook)?;
        match self.username == username {
            true => Ok(()),
            false => Err(LabError::PermissionDenied),
        }
    }
}
