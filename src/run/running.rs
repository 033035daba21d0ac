//! A running gateway: configuration reloads and the orderly stop.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use super::{apps::OwnApps, data_threads::DataThreads, handoff::Handoff};
use crate::{gateway::Gateway, model::app::AppSpec, ops::process::Process};

/// Requests in flight have this long to finish when the process stops.
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
/// Longest wait for the last lines of the request log.
const LOG_DEADLINE: Duration = Duration::from_secs(1);

/// A running gateway, which stops only by [`Running::stop`].
pub struct Running {
    /// The address of the first public listener.
    pub address: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// The address of the API of a hub's routes; `None`: no hub may add routes.
    pub hub_proxy: Option<SocketAddr>,
    /// The state that the data threads share.
    pub(crate) gateway: Arc<Gateway>,
    pub(super) own_apps: OwnApps,
    pub(super) handoff: Option<Handoff>,
    pub(super) process: Process,
    pub(super) threads: DataThreads,
}

impl Running {
    /// Replaces the apps of the configuration file, all at once. Streams whose app is gone, or
    /// whose rule no longer admits the caller, are closed; all others continue.
    pub fn replace_apps(&self, apps: Vec<AppSpec>) {
        self.own_apps.replace(apps);
    }

    /// Publishes the result of a configuration reload: the keys that need a restart, or the errors
    /// of the file.
    pub fn report_configuration(&self, read: Result<&[String], &str>) {
        let (is_in_force, text) = match read {
            Ok([]) => (true, "reloaded".to_owned()),
            Ok(keys) => (
                true,
                format!(
                    "reloaded its apps; other changes need a restart: {}",
                    keys.join(", ")
                ),
            ),
            Err(errors) => (
                false,
                format!(
                    "the changed file is not valid, the previous configuration is in force: {errors}"
                ),
            ),
        };
        self.process.configuration.set(is_in_force, text);
    }

    /// Is no longer ready, but serves as before until [`Running::stop`].
    pub fn retire(&self) {
        self.process.drain.leave();
        self.process.ready.block("the process stops soon");
    }

    /// Stops: no new connections, requests in flight finish, streams are closed, threads end.
    /// Returns whether all requests finished before the deadline.
    pub async fn stop(self) -> bool {
        let Running {
            process,
            threads,
            gateway,
            handoff,
            ..
        } = self;
        let in_time = process.drain.stop(DRAIN_DEADLINE).await;
        // Before the handoff: a refresh token that works once is replaced by the response under
        // way.
        if let Some(rechecks) = &gateway.rechecks {
            rechecks.finish().await;
        }
        if let Some(handoff) = handoff {
            handoff.write();
        }
        gateway.sessions.replication.flush().await;
        let finished = tokio::task::spawn_blocking(move || {
            let all = threads.finish();
            gateway.log.finish(LOG_DEADLINE);
            all
        })
        .await;
        in_time && matches!(finished, Ok(true))
    }
}
