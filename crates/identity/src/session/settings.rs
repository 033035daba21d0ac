//! How long sessions last, and how much memory they may take.

use std::{path::PathBuf, time::Duration};

use crate::ops::redis::RedisSettings;

/// How long sessions last, and where they are kept.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// A session expires after this long without use.
    pub idle: Duration,
    /// A session expires after this long in any case.
    pub lifetime: Duration,
    /// How often groups, or the token behind a sign-in, are checked again.
    pub recheck: Duration,
    /// The Redis that replicas share sessions through; `None`: sessions are in memory only.
    pub store: Option<RedisSettings>,
    /// The handoff file, which carries sessions over a restart; `None`: they are lost.
    pub hand_over: Option<PathBuf>,
    /// Memory for sign-in records, in bytes.
    pub sign_in_bytes: u64,
    /// Memory for app session records, in bytes.
    pub app_session_bytes: u64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            idle: Duration::from_secs(30 * 60),
            lifetime: Duration::from_secs(12 * 60 * 60),
            recheck: Duration::from_secs(5 * 60),
            store: None,
            hand_over: None,
            sign_in_bytes: 1 << 30,
            app_session_bytes: 600 << 20,
        }
    }
}
