//! `--watch`: prints apps as they change. The API has no streams, so it is asked each second.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::output::Output;
use crate::client::{connection::SiteConnection, error::ClientError, hosted_app::HostedApp};

/// Pause between calls.
const PERIOD: Duration = Duration::from_secs(1);

/// How watching an app ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchEnd {
    /// It is ready, or stopped.
    Settled,
    /// It has an error.
    Failed,
}

/// Prints an app and each change until it is ready or stopped, or has an error.
pub(super) async fn follow_app(
    site: &SiteConnection,
    mut app: HostedApp,
    output: &mut Output,
) -> anyhow::Result<WatchEnd> {
    output.start_table()?;
    output.row(&app)?;
    let mut ticks = ticks();
    loop {
        match app.status.as_deref() {
            Some("Ready" | "Stopped") => return Ok(WatchEnd::Settled),
            Some("Error") => return Ok(WatchEnd::Failed),
            _ => {}
        }
        ticks.tick().await;
        let next = match retried(site.app(&app.id).await)? {
            Some(next) => next,
            None => continue,
        };
        if next != app {
            output.row(&next)?;
            app = next;
        }
    }
}

/// Prints all apps and each change, without end.
pub(super) async fn follow_list(
    site: &SiteConnection,
    groups: &[String],
    mut apps: Vec<HostedApp>,
    output: &mut Output,
) -> anyhow::Result<()> {
    output.start_table()?;
    for app in &apps {
        output.row(app)?;
    }
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let Some(next) = retried(site.apps(groups).await)? else {
            continue;
        };
        for app in next.iter().filter(|app| !apps.contains(app)) {
            output.row(app)?;
        }
        let is_gone = |app: &&HostedApp| !next.iter().any(|it| it.id == app.id);
        for app in apps.iter().filter(is_gone) {
            let mut deleted = app.clone();
            deleted.status = Some("Deleted".to_owned());
            deleted.message = None;
            output.row(&deleted)?;
        }
        apps = next;
    }
}

/// `None` while the site is away.
fn retried<T>(called: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match called {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ ClientError::Unreachable { .. }) => {
            eprintln!("{error}; trying again");
            Ok(None)
        }
        Err(ClientError::Refused { code, message }) if code == "API_UNAVAILABLE" => {
            eprintln!("{message}; trying again");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}
