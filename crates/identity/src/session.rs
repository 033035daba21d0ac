//! Sign-ins and app sessions: who somebody is, for how long, and for which app.
//!
//! A session says who, never may. Records hold their own deadlines (`record`), the memory store
//! only bounds their number (`store`), replicas share them (`shared`, `load`, `redis`), cookies
//! carry a random id (`cookie`), and what must survive in the browser between two requests is
//! sealed (`keys`).

pub mod bind;
pub mod carry;
pub mod console_token;
pub mod cookie;
pub mod handover;
pub mod key_is_hash;
pub mod keys;
pub mod load;
pub mod metrics;
pub mod record;
pub mod redis;
pub mod shared;
pub mod store;
pub mod upkeep;
pub mod usage;
pub mod written;

use std::{path::PathBuf, time::Duration};

/// How long sessions last.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Without use for this long, a session ends.
    pub idle: Duration,
    /// It ends after this long whatever happens.
    pub lifetime: Duration,
    /// Groups, or the token behind a sign-in, are asked about again after this long.
    pub recheck: Duration,
    /// The server that replicas share sessions through; `None`: they are in memory only.
    pub store: Option<redis::link::RedisSettings>,
    /// Where a process that stops leaves who is signed in for the next one; `None`: nowhere.
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
