//! What the commands send.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::{
    cli::installs::{InstallArgs, UpgradeArgs},
    client::{
        connection::SiteConnection,
        installed_app::{InstalledRevision, OfferedApplication},
    },
};

/// A new installation.
pub(super) async fn new_installation(
    site: &SiteConnection,
    args: &InstallArgs,
) -> anyhow::Result<Value> {
    let offered = site.offered_application(&args.app).await?;
    let version = match &args.app_version {
        Some(version) => version.clone(),
        None => default_version(&offered)?,
    };
    let values = match &args.values {
        Some(file) => read_values(file)?,
        None => offered
            .spec
            .default_values_block
            .clone()
            .unwrap_or_default(),
    };
    let mut spec = json!({
        "applicationRef": { "name": args.app, "version": version },
        "valuesBlock": values,
    });
    if let Some(namespace) = &args.into {
        spec["namespace"] = json!({ "name": namespace, "create": true });
    }
    if args.atomic {
        spec["deployOptions"] = json!({ "helm": { "atomic": true } });
    }
    Ok(json!({
        "name": args.name,
        "namespace": args.place.namespace,
        "spec": spec,
    }))
}

/// The patch of another version or other values.
pub(super) fn upgrade(args: &UpgradeArgs) -> anyhow::Result<Value> {
    let mut spec = json!({});
    if let Some(version) = &args.app_version {
        spec["applicationRef"] = json!({ "version": version });
    }
    if let Some(file) = &args.values {
        set_values(&mut spec, &read_values(file)?);
    }
    Ok(json!({ "spec": spec }))
}

/// The patch that makes an earlier version and its values the current ones.
pub(super) fn rollback(revisions: &[InstalledRevision], to: Option<u64>) -> anyhow::Result<Value> {
    let mut earlier = revisions.iter().filter(|it| !it.current);
    let wanted = match to {
        Some(number) => earlier.find(|it| it.number == number),
        None => earlier.next_back(),
    };
    let Some(wanted) = wanted else {
        let known = revisions.iter().filter(|it| !it.current);
        let known: Vec<String> = known.map(|it| it.number.to_string()).collect();
        match to {
            Some(number) if !known.is_empty() => {
                bail!(
                    "there is no earlier version {number}; known are: {}",
                    known.join(", ")
                )
            }
            Some(_) | None => bail!("no earlier version is known"),
        }
    };
    let mut spec = json!({ "applicationRef": { "version": wanted.version } });
    set_values(&mut spec, &wanted.values_block);
    Ok(json!({ "spec": spec }))
}

/// Values are YAML or an object, never both.
fn set_values(spec: &mut Value, values: &str) {
    spec["valuesBlock"] = values.into();
    spec["values"] = Value::Null;
}

fn default_version(offered: &OfferedApplication) -> anyhow::Result<String> {
    let default = offered.spec.default_version.as_deref();
    match (
        default.filter(|it| !it.is_empty()),
        offered.spec.versions.as_slice(),
    ) {
        (Some(version), _) => Ok(version.to_owned()),
        (None, [only]) => Ok(only.version.clone()),
        (None, versions) => {
            let versions: Vec<&str> = versions.iter().map(|it| it.version.as_str()).collect();
            bail!(
                "choose a version with --app-version: {}",
                versions.join(", ")
            )
        }
    }
}

fn read_values(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64, version: &str, current: bool) -> InstalledRevision {
        InstalledRevision {
            number,
            version: version.to_owned(),
            values_block: format!("a: {number}\n"),
            release: None,
            release_status: None,
            replaced_at: None,
            current,
        }
    }

    #[test]
    fn a_rollback_takes_version_and_values_of_one_that_is_known() {
        let revisions = [
            revision(4, "1.0.0", false),
            revision(5, "1.1.0", false),
            revision(6, "2.0.0", true),
        ];
        for (to, version, values) in [(None, "1.1.0", "a: 5\n"), (Some(4), "1.0.0", "a: 4\n")] {
            let patch = rollback(&revisions, to).expect("known");
            let wanted = json!({ "spec": {
                "applicationRef": { "version": version }, "valuesBlock": values, "values": null,
            } });
            assert_eq!(patch, wanted, "{to:?}");
        }
        for (revisions, to, wanted) in [
            (
                &revisions[..],
                Some(6),
                "there is no earlier version 6; known are: 4, 5",
            ),
            (
                &revisions[..],
                Some(1),
                "there is no earlier version 1; known are: 4, 5",
            ),
            (&revisions[2..], None, "no earlier version is known"),
            (&revisions[2..], Some(4), "no earlier version is known"),
        ] {
            let error = rollback(revisions, to).expect_err("unknown");
            assert_eq!(error.to_string(), wanted);
        }
    }

    #[test]
    fn the_version_is_the_default_one_or_the_only_one() {
        let offered = |default: Option<&str>, versions: &[&str]| -> OfferedApplication {
            let versions: Vec<Value> = versions.iter().map(|it| json!({ "version": it })).collect();
            let spec =
                json!({ "description": "d", "defaultVersion": default, "versions": versions });
            serde_json::from_value(json!({ "name": "a", "spec": spec })).expect("an application")
        };
        let version = |offered| default_version(&offered).map_err(|error| error.to_string());
        assert_eq!(version(offered(Some("2"), &["1", "2"])), Ok("2".to_owned()));
        assert_eq!(version(offered(None, &["1"])), Ok("1".to_owned()));
        let several = version(offered(Some(""), &["1", "2"]));
        assert_eq!(
            several,
            Err("choose a version with --app-version: 1, 2".to_owned())
        );
    }
}
