//! Seals what Redis stores.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ops::redis::StoreError,
    session::keys::{KeyRing, Purpose},
};

/// Encrypts and authenticates values with the configured keys.
pub(super) struct Sealer(Arc<KeyRing>);

impl Sealer {
    pub(super) fn new(keys: Arc<KeyRing>) -> Sealer {
        Sealer(keys)
    }

    pub(super) fn seal(&self, value: &impl Serialize) -> Result<String, StoreError> {
        let plain = serde_json::to_vec(value).map_err(|_| StoreError::WrongType)?;
        self.0
            .seal(Purpose::Sessions, &plain)
            .map_err(|_| StoreError::Unavailable)
    }

    pub(super) fn open<T: DeserializeOwned>(&self, sealed: &str) -> Option<T> {
        let plain = self.0.open(Purpose::Sessions, sealed).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}
