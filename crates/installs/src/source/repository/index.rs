//! The index of a Helm repository.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::source::{error::SourceError, version::WantedVersion, yaml};

/// What the download needs of `index.yaml`.
#[derive(Debug, Deserialize)]
pub(super) struct RepositoryIndex {
    entries: BTreeMap<String, Vec<IndexEntry>>,
}

/// One version of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct IndexEntry {
    pub(super) version: String,
    /// Absolute, or relative to the repository.
    #[serde(default)]
    pub(super) urls: Vec<String>,
    /// SHA-256 of the archive; may be empty.
    #[serde(default)]
    pub(super) digest: String,
}

impl RepositoryIndex {
    /// Reads an index. Blocks for some seconds when it is large.
    pub(super) fn parse(text: &[u8]) -> Result<RepositoryIndex, SourceError> {
        yaml::parse("index.yaml", text)
    }

    /// The wanted version of a chart.
    pub(super) fn find(
        &self,
        chart: &str,
        wanted: &WantedVersion,
    ) -> Result<IndexEntry, SourceError> {
        let Some(entries) = self.entries.get(chart) else {
            let what = format!("the repository has no chart {chart:?}");
            return Err(SourceError::permanent(what));
        };
        // Entries without a URL cannot be loaded.
        let usable = || entries.iter().filter(|entry| !entry.urls.is_empty());
        let version = wanted.choose(usable().map(|entry| entry.version.as_str()));
        let found = usable().find(|entry| Some(entry.version.as_str()) == version);
        found.cloned().ok_or_else(|| {
            SourceError::permanent(format!(
                "the repository does not have {wanted} of {chart:?}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "
apiVersion: v1
generated: 2026-01-01T00:00:00Z
entries:
  example:
    - version: 0.2.0
      appVersion: 2
      created: 2026-01-01T00:00:00Z
      urls: [example-0.2.0.tgz]
      digest: abc
    - version: 0.3.0
    - version: 1.0.0-rc.1
      urls: [example-1.0.0-rc.1.tgz]
    - version: 0.1.0
      urls: [https://b.test/example-0.1.0.tgz, other]
  empty: []
";

    #[test]
    fn an_entry_with_a_url_is_found() {
        let index = RepositoryIndex::parse(INDEX.as_bytes()).expect("an index");
        for (chart, version, wanted) in [
            ("example", "", Ok("example-0.2.0.tgz")),
            ("example", "0.1.0", Ok("https://b.test/example-0.1.0.tgz")),
            ("example", "1.0.0-rc.1", Ok("example-1.0.0-rc.1.tgz")),
            (
                "example",
                "0.3.0",
                Err("the repository does not have version 0.3.0 of \"example\""),
            ),
            (
                "empty",
                "",
                Err("the repository does not have the latest version of \"empty\""),
            ),
            ("none", "", Err("the repository has no chart \"none\"")),
        ] {
            let version = WantedVersion::for_source(version).expect("a version");
            let found = index.find(chart, &version);
            let found = found.as_ref().map(|entry| entry.urls[0].as_str());
            assert_eq!(
                found.map_err(|error| error.message()),
                wanted,
                "{chart} {version}"
            );
        }
    }

    #[test]
    fn other_documents_are_no_index() {
        for text in [
            "",
            "[]",
            "entries: 1",
            "entries: {a: [{}]}",
            "<html></html>",
            "entries: [",
        ] {
            let error = RepositoryIndex::parse(text.as_bytes()).expect_err(text);
            assert!(
                error.message().starts_with("index.yaml is not as expected"),
                "{error}"
            );
        }
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nentries: {c: [".to_owned() + &"[".repeat(100_000);
        assert!(RepositoryIndex::parse(bomb.as_bytes()).is_err());
        assert!(RepositoryIndex::parse(b"\xff").is_err());
    }
}
