//! Tables for people, JSON for programs.

use std::io;

use serde::Serialize;

use crate::{
    client::installed_app::{InstalledApp, InstalledRevision, OfferedApplication},
    commands::apps::output::{print, print_json, printable, table_text},
};

/// The condition that says whether an installation is as it should be.
pub(super) const READY: &str = "Ready";

/// Standard output, in one of two forms.
pub(super) struct InstallsOutput {
    is_json: bool,
}

impl InstallsOutput {
    pub(super) fn new(is_json: bool) -> InstallsOutput {
        InstallsOutput { is_json }
    }

    pub(super) fn catalog(&self, offered: &[OfferedApplication]) -> io::Result<()> {
        self.table(offered, &["APP", "NAME", "VERSION", "DESCRIPTION"], |it| {
            vec![
                it.name.clone(),
                it.spec.display_name.clone().unwrap_or_default(),
                it.spec.default_version.clone().unwrap_or_default(),
                it.spec.description.clone(),
            ]
        })
    }

    pub(super) fn installations(&self, installed: &[InstalledApp]) -> io::Result<()> {
        let columns = [
            "NAMESPACE",
            "NAME",
            "APP",
            "VERSION",
            "READY",
            "HEALTHY",
            "REASON",
        ];
        self.table(installed, &columns, row)
    }

    pub(super) fn revisions(&self, revisions: &[InstalledRevision]) -> io::Result<()> {
        let columns = ["NUMBER", "VERSION", "RELEASE", "STATUS", "REPLACED"];
        self.table(revisions, &columns, |it| {
            let release = it.release.map(|release| release.to_string());
            vec![
                it.number.to_string(),
                it.version.clone(),
                release.unwrap_or_default(),
                it.release_status.clone().unwrap_or_default(),
                it.replaced_at.clone().unwrap_or_default(),
            ]
        })
    }

    pub(super) fn installation(&self, installed: &InstalledApp) -> io::Result<()> {
        match self.is_json {
            true => print_json(installed),
            false => print(&details(installed)),
        }
    }

    /// One of several forms of an installation: a line of the table, or of JSON.
    pub(super) fn line(&self, installed: &InstalledApp) -> io::Result<()> {
        if self.is_json {
            let object = serde_json::to_string(installed)?;
            return print(&format!("{object}\n"));
        }
        print(&format!("{}\n", printable(&summary(installed))))
    }

    /// Whether a line is different after a change.
    pub(super) fn shows_change(&self, before: &InstalledApp, after: &InstalledApp) -> bool {
        match self.is_json {
            true => before != after,
            false => summary(before) != summary(after),
        }
    }

    fn table<T: Serialize>(
        &self,
        items: &[T],
        columns: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> io::Result<()> {
        if self.is_json {
            return print_json(&items);
        }
        let mut rows = vec![columns.iter().map(|name| (*name).to_owned()).collect()];
        rows.extend(items.iter().map(row));
        print(&table_text(&rows))
    }
}

fn row(installed: &InstalledApp) -> Vec<String> {
    let (ready, reason) = readiness(installed);
    vec![
        installed.namespace.clone(),
        installed.name.clone(),
        installed.spec.application_ref.name.clone(),
        installed.spec.application_ref.version.clone(),
        ready,
        installed.status.healthy.clone().unwrap_or_default(),
        reason,
    ]
}

/// The status and the reason of the condition `Ready`; an older one than the spec counts as none.
fn readiness(installed: &InstalledApp) -> (String, String) {
    let ready = installed.status.condition(READY);
    match ready.filter(|_| installed.status.current) {
        Some(ready) => (ready.status.clone(), ready.reason.clone()),
        None => ("Unknown".to_owned(), "Pending".to_owned()),
    }
}

/// One line: version, readiness, and what stands in its way.
fn summary(installed: &InstalledApp) -> String {
    let (ready, reason) = readiness(installed);
    let is_false = |kind: &&str| {
        let is_known = *kind != READY || installed.status.current;
        let condition = installed.status.condition(kind);
        is_known && condition.is_some_and(|it| it.status == "False")
    };
    let failed = ["Accepted", "ManifestsRetrieved", READY];
    let failed = failed.into_iter().find(is_false);
    let failed = failed.and_then(|kind| installed.status.condition(kind));
    let message = failed.map(|it| format!(": {}", it.message));
    format!(
        "{}/{} {} {ready} {reason}{}",
        installed.namespace,
        installed.name,
        installed.spec.application_ref.version,
        message.unwrap_or_default()
    )
}

fn details(installed: &InstalledApp) -> String {
    let reference = &installed.spec.application_ref;
    let namespace = installed.spec.namespace.as_ref();
    let mut lines = vec![
        ("name", installed.name.clone()),
        ("namespace", installed.namespace.clone()),
        ("app", format!("{} {}", reference.name, reference.version)),
        (
            "into",
            namespace.map(|it| it.name.clone()).unwrap_or_default(),
        ),
        (
            "healthy",
            installed.status.healthy.clone().unwrap_or_default(),
        ),
        ("current", installed.status.current.to_string()),
    ];
    for condition in &installed.status.conditions {
        let text = format!(
            "{} {} {}: {}",
            condition.kind, condition.status, condition.reason, condition.message
        );
        lines.push(("condition", text));
    }
    let line = |(name, value): &(&str, String)| format!("{name:<12}{}\n", printable(value));
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed(status: &str, is_current: bool) -> InstalledApp {
        let installed = json!({
            "name": "a", "namespace": "n",
            "spec": { "applicationRef": { "name": "wiki", "version": "1.0.0" } },
            "status": {
                "conditions": [{
                    "type": "Ready", "status": status, "reason": "R", "message": "m\u{1b}",
                }],
                "current": is_current,
            },
        });
        serde_json::from_value(installed).expect("an installation")
    }

    #[test]
    fn a_condition_of_an_older_spec_counts_as_none() {
        assert_eq!(summary(&installed("True", true)), "n/a 1.0.0 True R");
        assert_eq!(
            summary(&installed("True", false)),
            "n/a 1.0.0 Unknown Pending"
        );
        let failed = installed("False", true);
        assert_eq!(printable(&summary(&failed)), "n/a 1.0.0 False R: m\u{fffd}");
        assert_eq!(row(&failed), ["n", "a", "wiki", "1.0.0", "False", "", "R"]);
    }
}
