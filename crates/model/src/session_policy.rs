//! What an app asks of the sessions of its users.

use std::time::Duration;

/// What counts as use of an app's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepAlive {
    /// Requests, and what the client sends on a stream.
    #[default]
    Used,
    /// Also an open WebSocket, and open server-sent events.
    Open,
}

/// The sessions of one app, where they differ from those of other apps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionPolicy {
    /// What counts as use.
    pub keep_alive: KeepAlive,
    /// Its sessions expire after this long without use, and begin only with a sign-in that is not
    /// older. `None`: after `session.idle`, with any sign-in. Only apps on hosts of their own have
    /// one.
    pub idle: Option<Duration>,
    /// Its pages load the script that tells users of an ended session.
    pub has_notice: bool,
}
