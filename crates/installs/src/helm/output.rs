//! What Helm prints as JSON, as far as both major versions agree. Unknown keys are ignored.

use serde::{Deserialize, Deserializer, de};

use crate::release::ReleaseStatus;

/// A revision, as `helm history` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HistoryEntry {
    /// The number of the revision.
    pub revision: i64,
    /// Its state.
    #[serde(default, deserialize_with = "state")]
    pub status: ReleaseStatus,
    /// Name and version of the chart, with a dash between them.
    #[serde(default)]
    pub chart: String,
    /// The version of the app.
    #[serde(default)]
    pub app_version: String,
    /// What happened last.
    #[serde(default)]
    pub description: String,
}

/// A release, as `helm list` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ListEntry {
    /// The release.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its last revision, which Helm prints as text.
    #[serde(deserialize_with = "number_or_text")]
    pub revision: i64,
    /// Its state.
    #[serde(default, deserialize_with = "state")]
    pub status: ReleaseStatus,
    /// Name and version of the chart, with a dash between them.
    #[serde(default)]
    pub chart: String,
}

/// A revision, as `helm status` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatusEntry {
    /// The release.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// The number of the revision.
    pub version: i64,
    /// What happened to it.
    pub info: StatusInfo,
}

/// The state of a revision, as `helm status` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusInfo {
    /// Its state.
    #[serde(deserialize_with = "state")]
    pub status: ReleaseStatus,
    /// What happened last.
    pub description: String,
    /// The notes of the chart.
    pub notes: String,
}

/// Reads an answer. Helm prints `null` for an empty list.
///
/// # Errors
/// The answer is no such JSON.
pub fn parse_list<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> serde_json::Result<Vec<T>> {
    let list: Option<Vec<T>> = serde_json::from_slice(answer)?;
    Ok(list.unwrap_or_default())
}

fn state<'de, D: Deserializer<'de>>(from: D) -> Result<ReleaseStatus, D::Error> {
    Ok(ReleaseStatus::parse(&String::deserialize(from)?))
}

fn number_or_text<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Revision {
        Number(i64),
        Text(String),
    }
    match Revision::deserialize(from)? {
        Revision::Number(number) => Ok(number),
        Revision::Text(text) => text.parse().map_err(de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_of_both_versions_are_read() {
        let answer = br#"[
            {"revision":1,"updated":"2026-01-02T03:04:05.6Z","status":"superseded",
             "chart":"example-0.1.0","app_version":"1.0","description":"Install complete"},
            {"revision":2,"updated":"","status":"pending-upgrade","chart":"example-0.2.0",
             "app_version":"","description":"Preparing upgrade","apply_method":"ssa","new":[1]},
            {"revision":3,"status":"of the future"}
        ]"#;
        let history: Vec<HistoryEntry> = parse_list(answer).expect("readable");
        let states: Vec<_> = history.iter().map(|it| (it.revision, it.status)).collect();
        assert_eq!(
            states,
            [
                (1, ReleaseStatus::Superseded),
                (2, ReleaseStatus::PendingUpgrade),
                (3, ReleaseStatus::Unknown),
            ]
        );
        assert_eq!(history[0].chart, "example-0.1.0");
        assert_eq!(history[1].description, "Preparing upgrade");
    }

    #[test]
    fn lists_have_revisions_as_text_or_number() {
        let answer = br#"[{"name":"a","namespace":"n","revision":"12","status":"deployed",
            "chart":"c-1","updated":"x"},{"name":"b","revision":3}]"#;
        let list: Vec<ListEntry> = parse_list(answer).expect("readable");
        assert_eq!((list[0].revision, list[1].revision), (12, 3));
        assert_eq!(list[0].status, ReleaseStatus::Deployed);
        let none: Vec<ListEntry> = parse_list(b"null").expect("readable");
        assert!(none.is_empty());
        let wrong = br#"[{"name":"a","revision":"x"}]"#;
        assert!(parse_list::<ListEntry>(wrong).is_err());
        assert!(parse_list::<ListEntry>(b"Release a has been cancelled.").is_err());
    }

    #[test]
    fn a_status_is_read_without_its_chart_and_manifest() {
        let answer = br#"{"name":"a","info":{"first_deployed":"x","deleted":"","status":"failed",
            "description":"d","notes":"n"},"manifest":"---","version":4,"namespace":"t",
            "chart":{"templates":[]}}"#;
        let status: StatusEntry = serde_json::from_slice(answer).expect("readable");
        assert_eq!(
            (status.version, status.info.status),
            (4, ReleaseStatus::Failed)
        );
        assert_eq!(status.info.notes, "n");
    }
}
