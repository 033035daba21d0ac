//! The part of an app session that does not change.

use std::time::Duration;

use super::cookie::RecordKey;
use crate::model::{app::AppId, vhost::VirtualHost};

/// The identity of an app session, and the idle time that it keeps.
pub(crate) struct AppSessionId {
    pub(crate) key: RecordKey,
    pub(crate) app: AppId,
    pub(crate) vhost: VirtualHost,
    /// When it started, by the wall clock in seconds.
    pub(crate) started_at: i64,
    /// The idle time of its app; `None`: that of all sessions.
    pub(crate) own_idle: Option<Duration>,
}

impl AppSessionId {
    /// The idle time, where that of all sessions is `idle`. The shorter one counts.
    pub(crate) fn idle(&self, idle: Duration) -> Duration {
        self.own_idle.map_or(idle, |own| own.min(idle))
    }
}
