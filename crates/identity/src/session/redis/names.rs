//! The keys of Redis. A record and its tombstone are in one slot of a cluster, since only the part
//! in braces is hashed. Names of people and tokens are hashed, so that a key reveals nothing.

use crate::{model::app::AppId, session::cookie::RecordKey};

/// The time when the data of Redis began, by its own clock in milliseconds.
pub(super) const EPOCH: &str = "ludgate:epoch";
/// Present while a replica restores its sessions to an emptied Redis.
pub(super) const RESTORING: &str = "ludgate:telling";

/// The two kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    SignIn,
    AppSession,
}

/// The key of a record.
pub(super) fn record(kind: RecordKind, key: RecordKey) -> String {
    let kind = match kind {
        RecordKind::SignIn => "s",
        RecordKind::AppSession => "a",
    };
    format!("ludgate:{kind}:{{{}}}", key.hex())
}

/// The key of the tombstone that a revoked record leaves.
pub(super) fn tombstone(key: RecordKey) -> String {
    format!("ludgate:x:{{{}}}", key.hex())
}

/// The time at which the sessions of an app were revoked.
pub(super) fn app_revocation(app: &AppId) -> String {
    format!("ludgate:r:{}", RecordKey::from_name(app.as_str()).hex())
}

/// The sign-ins of a person.
pub(super) fn subject(subject: &str) -> String {
    format!("ludgate:p:{}", RecordKey::from_name(subject).hex())
}

/// The sign-ins of a session of the provider.
pub(super) fn provider_session(session: &str) -> String {
    format!("ludgate:o:{}", RecordKey::from_name(session).hex())
}

/// The lock of a token refresh.
pub(super) fn refresh_lock(key: RecordKey) -> String {
    format!("ludgate:l:{{{}}}", key.hex())
}

/// A ticket.
pub(super) fn ticket(key: RecordKey) -> String {
    format!("ludgate:t:{}", key.hex())
}

/// The mark of a token that was used.
pub(super) fn used_token(token: &str) -> String {
    format!("ludgate:j:{}", RecordKey::from_name(token).hex())
}
