//! Which chart is wanted.

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartSource {
    /// A Helm repository: an `index.yaml` and archives, by http or https.
    Repository {
        /// URL of the folder that has the index.
        url: String,
        /// Name of the chart.
        chart: String,
        /// Its version; empty: the highest one that is no pre-release.
        version: String,
        /// Accepts any certificate.
        insecure: bool,
    },
    /// A repository of an OCI registry.
    Oci {
        /// `oci://`, the registry, and the path above the chart.
        url: String,
        /// Name of the chart: the last part of the path.
        chart: String,
        /// Its version; empty: the highest one that is no pre-release.
        version: String,
        /// Accepts any certificate.
        insecure: bool,
        /// Calls the registry without TLS.
        plain_http: bool,
    },
    /// A folder of a git repository.
    Git {
        /// URL, or `user@host:path`.
        remote: String,
        /// Which commit.
        revision: GitRevision,
        /// Folder of the chart; empty or `/`: the root.
        path: String,
    },
}

/// A commit of a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitRevision {
    /// The last commit of a branch.
    Branch(String),
    /// A commit that must belong to a branch.
    Commit {
        /// The branch.
        branch: String,
        /// 40 hexadecimal digits in lower case.
        commit: String,
    },
    /// The commit of a tag.
    Tag(String),
}
