//! `--watch`: prints an installation as it changes. The API has no streams, so it is asked each
//! second.

use super::output::{InstallsOutput, READY};
use crate::{
    client::{
        connection::SiteConnection, error::ClientError, install_calls::InstallPlace,
        installed_app::InstalledApp,
    },
    commands::apps::watch::{retried, ticks},
};

/// How watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstallEnd {
    /// The application is installed.
    Ready,
    /// An attempt failed. The controller tries again.
    Failed,
}

/// Prints an installation and each change until it is ready, or an attempt failed.
pub(super) async fn follow(
    site: &SiteConnection,
    place: &InstallPlace,
    mut installed: InstalledApp,
    output: &InstallsOutput,
) -> anyhow::Result<InstallEnd> {
    output.line(&installed)?;
    let mut ticks = ticks();
    loop {
        if let Some(end) = end(&installed) {
            return Ok(end);
        }
        ticks.tick().await;
        let asked = site.installed_app(place, &installed.name).await;
        let Some(next) = retried(asked)? else {
            continue;
        };
        if output.shows_change(&installed, &next) {
            output.line(&next)?;
        }
        installed = next;
    }
}

/// Waits until an installation is gone.
pub(super) async fn until_deleted(
    site: &SiteConnection,
    place: &InstallPlace,
    name: &str,
) -> anyhow::Result<()> {
    let mut ticks = ticks();
    loop {
        match retried(site.installed_app(place, name).await) {
            Ok(_) => ticks.tick().await,
            Err(ClientError::Refused { code, .. }) if code == "404" => return Ok(()),
            Err(error) => return Err(error.into()),
        };
    }
}

fn end(installed: &InstalledApp) -> Option<InstallEnd> {
    let ready = installed.status.condition(READY);
    let ready = ready.filter(|_| installed.status.current)?;
    match ready.status.as_str() {
        "True" => Some(InstallEnd::Ready),
        "False" => Some(InstallEnd::Failed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_ends_with_a_condition_of_the_current_spec() {
        for (status, is_current, wanted) in [
            ("True", true, Some(InstallEnd::Ready)),
            ("False", true, Some(InstallEnd::Failed)),
            ("Unknown", true, None),
            ("True", false, None),
            ("False", false, None),
        ] {
            let installed = json!({
                "name": "a", "namespace": "n",
                "spec": { "applicationRef": { "name": "wiki", "version": "1" } },
                "status": {
                    "conditions": [{ "type": "Ready", "status": status }],
                    "current": is_current,
                },
            });
            let installed = serde_json::from_value(installed).expect("an installation");
            assert_eq!(end(&installed), wanted, "{status} {is_current}");
        }
    }

    #[test]
    fn a_site_that_is_away_is_asked_again() {
        let refused = |code: &str| ClientError::Refused {
            code: code.to_owned(),
            message: "m".to_owned(),
        };
        assert!(matches!(retried::<()>(Err(refused("503"))), Ok(None)));
        assert!(retried::<()>(Err(refused("403"))).is_err());
    }
}
