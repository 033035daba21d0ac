//! Service tokens for tests.

use super::record::{ServiceTokenRecord, StoredToken};
use crate::session::cookie::RecordKey;

/// What is stored of a token that expired long ago.
pub(super) fn record(name: &str) -> ServiceTokenRecord {
    ServiceTokenRecord {
        name: name.to_owned(),
        apps: vec!["mlflow".to_owned()],
        groups: Vec::new(),
        created: 1,
        expires: 2,
        last_characters: "abcd".to_owned(),
    }
}

/// Such a token, with a key that its name determines.
pub(super) fn token(name: &str) -> StoredToken {
    StoredToken {
        key: RecordKey::from_name(name),
        record: record(name),
    }
}
