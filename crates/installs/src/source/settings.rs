//! Limits of downloads, and what they may use.

use std::time::Duration;

use super::host_rules::HostRules;

/// What applies to all downloads of a process.
#[derive(Clone, Debug, Default)]
pub struct SourceSettings {
    /// Sizes and deadlines.
    pub limits: SourceLimits,
    /// Which hosts may be called.
    pub hosts: HostRules,
    /// The CAs of servers (PEM); `None`: the system's.
    pub ca: Option<String>,
    /// The host keys of git servers, in the form of `known_hosts`, for credentials without any.
    pub known_hosts: Option<String>,
    /// How git runs.
    pub git: GitSettings,
}

/// Sizes and deadlines of one download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// Deadline of the whole download.
    pub deadline: Duration,
    /// Deadline of one HTTP request with its response, redirects not included.
    pub request_deadline: Duration,
    /// Redirects that one request may follow.
    pub redirects: usize,
    /// Largest `index.yaml`, in bytes.
    pub index_bytes: usize,
    /// Largest chart archive as it is sent, in bytes.
    pub packed_bytes: usize,
    /// Largest content of a chart archive or of the used folders of a git repository, in bytes.
    pub unpacked_bytes: u64,
    /// Maximum number of entries of a chart archive, and of files of a git repository's folder.
    pub entries: usize,
    /// Largest pack that a git server may send, in bytes.
    pub repository_bytes: u64,
    /// Maximum number of dependencies of a chart.
    pub dependencies: usize,
}

impl Default for SourceLimits {
    /// Five minutes; 20 MiB packed, 100 MiB and 10,000 entries unpacked, an index of 50 MiB.
    fn default() -> SourceLimits {
        SourceLimits {
            deadline: Duration::from_secs(300),
            request_deadline: Duration::from_secs(60),
            redirects: 5,
            index_bytes: 50 << 20,
            packed_bytes: 20 << 20,
            unpacked_bytes: 100 << 20,
            entries: 10_000,
            repository_bytes: 200 << 20,
            dependencies: 64,
        }
    }
}

/// How git runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSettings {
    /// `PATH` of its processes. `git`, `ssh` and `prlimit` must be there.
    pub path: String,
    /// Processor time of each process, in seconds.
    pub cpu_seconds: u64,
    /// Maximum number of processes and threads of this user. The kernel counts those of all
    /// containers with the same user id, so a low number fails on busy nodes.
    pub processes: u64,
    /// A transfer slower than 1,000 bytes per second for this long is given up, in seconds.
    pub stall_seconds: u64,
}

impl Default for GitSettings {
    fn default() -> GitSettings {
        GitSettings {
            path: "/usr/bin:/bin".to_owned(),
            cpu_seconds: 120,
            processes: 4096,
            stall_seconds: 30,
        }
    }
}
