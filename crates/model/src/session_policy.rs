//! Settings of one app for the sessions of its users.

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
    /// older. `None`: they expire after `session.idle`, and begin with any sign-in. Only for apps
    /// on hosts of their own.
    pub idle: Option<Duration>,
    /// Its pages load the script that tells users when the session has ended.
    pub has_notice: bool,
}
