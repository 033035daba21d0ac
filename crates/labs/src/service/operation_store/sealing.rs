//! Seals what Redis stores about an operation. The sealed text names its place, so that a text is
//! not valid in another one: with write access to Redis one can delete labs, but not start one.

use std::sync::Arc;

use ludgate_identity::session::keys::{KeyRing, Purpose};
use ludgate_ops::redis::StoreError;
use serde::{Serialize, de::DeserializeOwned};

/// Where a sealed text stands.
#[derive(Clone, Copy)]
pub(super) struct SealedPlace<'p> {
    pub(super) username: &'p str,
    pub(super) number: u64,
    /// The field of the operation, or the place of an event.
    pub(super) field: &'p str,
}

/// Encrypts and authenticates values with the configured keys.
pub(super) struct OperationSealer(Arc<KeyRing>);

impl OperationSealer {
    pub(super) fn new(keys: Arc<KeyRing>) -> OperationSealer {
        OperationSealer(keys)
    }

    pub(super) fn seal(
        &self,
        place: SealedPlace<'_>,
        value: &impl Serialize,
    ) -> Result<String, StoreError> {
        let text = (place.username, place.number, place.field, value);
        let plain = serde_json::to_vec(&text).map_err(|_| StoreError::Unavailable)?;
        self.0
            .seal(Purpose::LabOperations, &plain)
            .map_err(|_| StoreError::Unavailable)
    }

    /// `None` if it was sealed for another place, by a key that was removed, or not at all.
    pub(super) fn open<T: DeserializeOwned>(
        &self,
        place: SealedPlace<'_>,
        sealed: &str,
    ) -> Option<T> {
        let plain = self.0.open(Purpose::LabOperations, sealed).ok()?;
        let (username, number, field, value): (String, u64, String, T) =
            serde_json::from_slice(&plain).ok()?;
        let is_here = (username.as_str(), number, field.as_str())
            == (place.username, place.number, place.field);
        is_here.then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_valid_in_its_place_alone() {
        let sealer = OperationSealer::new(Arc::new(KeyRing::random()));
        let place = SealedPlace {
            username: "rachel",
            number: 7,
            field: "plan",
        };
        let sealed = sealer.seal(place, &"text").expect("sealed");
        assert_eq!(sealer.open(place, &sealed), Some("text".to_owned()));
        for other in [
            SealedPlace {
                username: "ross",
                ..place
            },
            SealedPlace { number: 8, ..place },
            SealedPlace {
                field: "end",
                ..place
            },
        ] {
            assert_eq!(sealer.open::<String>(other, &sealed), None);
        }
        assert_eq!(sealer.open::<String>(place, "text"), None);
        let other = OperationSealer::new(Arc::new(KeyRing::random()));
        assert_eq!(other.open::<String>(place, &sealed), None);
    }
}
