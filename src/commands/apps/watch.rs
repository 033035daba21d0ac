//! `--watch`: prints apps as they change. The API has no streams, so it is asked each second.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::output::{Output, printable};
use crate::{
    client::{connection::SiteConnection, error::ClientError, hosted_app::HostedApp},
    cluster::crd::application::Phase,
};

/// Pause between calls.
const PERIOD: Duration = Duration::from_secs(1);
/// Codes of refusals that pass: of GraphQL, and of REST, which has statuses.
const AWAY: [&str; 3] = ["API_UNAVAILABLE", "503", "504"];

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchGoal {
    /// The app runs.
    Ready,
    /// The app has no pod.
    Stopped,
    /// Either.
    Settled,
}

/// How watching an app ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchEnd {
    /// As it should.
    Reached,
    /// With an error, or otherwise.
    Failed,
}

impl WatchGoal {
    /// Whether a phase is the end of the wait. A stop goes on after the phase Ready, which can be
    /// an old one.
    fn end(self, phase: Option<&str>) -> Option<WatchEnd> {
        let is = |wanted: Phase| phase == Some(wanted.as_str());
        match self {
            _ if is(Phase::Error) => Some(WatchEnd::Failed),
            WatchGoal::Ready | WatchGoal::Settled if is(Phase::Ready) => Some(WatchEnd::Reached),
            WatchGoal::Stopped | WatchGoal::Settled if is(Phase::Stopped) => {
                Some(WatchEnd::Reached)
            }
            WatchGoal::Ready if is(Phase::Stopped) => Some(WatchEnd::Failed),
            WatchGoal::Ready | WatchGoal::Stopped | WatchGoal::Settled => None,
        }
    }
}

/// Prints an app and each change until it is as the command wants it, or has an error.
pub(super) async fn follow_app(
    site: &SiteConnection,
    mut app: HostedApp,
    goal: WatchGoal,
    output: &Output,
) -> anyhow::Result<WatchEnd> {
    output.start_table()?;
    output.row(&app)?;
    let mut ticks = ticks();
    loop {
        if let Some(end) = goal.end(app.status.as_deref()) {
            return Ok(end);
        }
        ticks.tick().await;
        let next = match retried(site.app(&app.id).await)? {
            Some(next) => next,
            None => continue,
        };
        if output.shows_change(&app, &next) {
            output.row(&next)?;
        }
        app = next;
    }
}

/// Prints all apps and each change, without end.
pub(super) async fn follow_list(
    site: &SiteConnection,
    groups: &[String],
    mut apps: Vec<HostedApp>,
    output: &Output,
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
        for app in &next {
            let before = apps.iter().find(|it| it.id == app.id);
            if before.is_none_or(|before| output.shows_change(before, app)) {
                output.row(app)?;
            }
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
pub(in crate::commands) fn retried<T>(
    called: Result<T, ClientError>,
) -> Result<Option<T>, ClientError> {
    match called {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ ClientError::Unreachable { .. }) => {
            eprintln!("{}; trying again", printable(&error.to_string()));
            Ok(None)
        }
        Err(ClientError::Refused { code, message }) if AWAY.contains(&code.as_str()) => {
            eprintln!("{}; trying again", printable(&message));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The times of calls, from one pause after now.
pub(in crate::commands) fn ticks() -> Interval {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_well_only_with_the_phase_that_it_asked_for() {
        let (reached, failed) = (Some(WatchEnd::Reached), Some(WatchEnd::Failed));
        for (phase, ready, stopped, settled) in [
            ("Starting", None, None, None),
            ("Updating", None, None, None),
            ("Stopping", None, None, None),
            ("Ready", reached, None, reached),
            ("Stopped", failed, reached, reached),
            ("Error", failed, failed, failed),
        ] {
            let end = |goal: WatchGoal| goal.end(Some(phase));
            let ends = [WatchGoal::Ready, WatchGoal::Stopped, WatchGoal::Settled].map(end);
            assert_eq!(ends, [ready, stopped, settled], "{phase}");
        }
        assert_eq!(WatchGoal::Settled.end(None), None);
    }
}
