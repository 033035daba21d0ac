//! The arguments of each command, for Helm 3 and Helm 4. Pure.
//!
//! No argument is a secret: the command line of a process is public on its machine.

use std::{collections::BTreeMap, ffi::OsString, path::Path, time::Duration};

use super::version::HelmVersion;

/// Where the objects of a release are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerSideApply {
    /// As in the release's last revision; new releases use the server. Only Helm 4 has this flag.
    #[default]
    Auto,
    /// In the API server.
    Server,
    /// In Helm, as Helm 3 does.
    Client,
}

/// How a release is installed or upgraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeOptions {
    /// Waits until the objects are ready.
    pub wait: bool,
    /// A wait includes Jobs.
    pub wait_for_jobs: bool,
    /// A failure restores the last revision, or removes what a first installation made. It includes
    /// a wait.
    pub atomic: bool,
    /// The longest wait, for the objects and for each hook. Helm gets whole seconds, at least one.
    pub timeout: Duration,
    /// Templates may look up host names.
    pub enable_dns: bool,
    /// Objects without the marks of a release, or with those of another one, are adopted.
    pub take_ownership: bool,
    /// Where objects are computed.
    pub server_side: ServerSideApply,
    /// Labels of the Secret of the revision.
    pub labels: BTreeMap<String, String>,
    /// The description of the revision; `None`: Helm writes one.
    pub description: Option<String>,
    /// Revisions that are kept, besides the deployed one.
    pub history_max: u32,
}

impl Default for UpgradeOptions {
    fn default() -> UpgradeOptions {
        UpgradeOptions {
            wait: false,
            wait_for_jobs: false,
            atomic: false,
            timeout: Duration::from_secs(300),
            enable_dns: false,
            take_ownership: false,
            server_side: ServerSideApply::Auto,
            labels: BTreeMap::new(),
            description: None,
            history_max: 1,
        }
    }
}

/// A release and its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseName<'a> {
    /// The namespace of the release and of its objects.
    pub namespace: &'a str,
    /// The name of the release.
    pub name: &'a str,
}

impl ReleaseName<'_> {
    /// Whether both names have only lower-case letters, digits, dashes and dots, and begin with a
    /// letter or digit: neither can be taken for a flag. Helm allows 53 bytes for a release.
    pub fn is_valid(&self) -> bool {
        is_name(self.name, 53) && is_name(self.namespace, 63)
    }
}

fn is_name(name: &str, longest: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= longest
        && name.bytes().next().is_some_and(is_plain)
        && name
            .bytes()
            .all(|byte| is_plain(byte) || byte == b'-' || byte == b'.')
}

/// The arguments of one command.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn new(command: &str, release: &str) -> Arguments {
        Arguments(vec![command.into(), release.into()])
    }

    fn push(mut self, argument: impl Into<OsString>) -> Arguments {
        self.0.push(argument.into());
        self
    }

    fn option(self, name: &str, value: impl Into<OsString>) -> Arguments {
        self.push(name).push(value)
    }

    fn flag(self, name: &str, is_set: bool) -> Arguments {
        match is_set {
            true => self.push(name),
            false => self,
        }
    }

    fn namespace(self, release: ReleaseName<'_>) -> Arguments {
        self.option("--namespace", release.namespace)
    }

    fn timeout(self, timeout: Duration) -> Arguments {
        let rounded = u64::from(timeout.subsec_nanos() > 0);
        let seconds = timeout.as_secs().saturating_add(rounded).max(1);
        self.option("--timeout", format!("{seconds}s"))
    }

    fn wait(self, version: HelmVersion, is_set: bool) -> Arguments {
        // In Helm 4 the flag without a value is deprecated in parts.
        let flag = match version.is_v4() {
            true => "--wait=watcher",
            false => "--wait",
        };
        self.flag(flag, is_set)
    }
}

/// `helm upgrade --install`: installs a release, or upgrades it. The values replace those of the
/// last revision.
pub fn upgrade(
    version: HelmVersion,
    release: ReleaseName<'_>,
    chart: &Path,
    values: &Path,
    options: &UpgradeOptions,
) -> Vec<OsString> {
    let atomic = match version.is_v4() {
        true => "--rollback-on-failure",
        false => "--atomic",
    };
    let mut arguments = Arguments::new("upgrade", release.name)
        .push(chart)
        .push("--install")
        .namespace(release)
        .option("--values", values)
        .push("--reset-values")
        .option("--history-max", options.history_max.to_string())
        .timeout(options.timeout)
        .wait(version, options.wait || options.atomic)
        .flag("--wait-for-jobs", options.wait_for_jobs)
        .flag(atomic, options.atomic)
        .flag("--enable-dns", options.enable_dns)
        .flag("--take-ownership", options.take_ownership);
    if version.is_v4() {
        let side = match options.server_side {
            ServerSideApply::Auto => "auto",
            ServerSideApply::Server => "true",
            ServerSideApply::Client => "false",
        };
        arguments = arguments.push(format!("--server-side={side}"));
    }
    if !options.labels.is_empty() {
        let labels = options.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        arguments = arguments.push(format!("--labels={}", labels.join(",")));
    }
    if let Some(description) = &options.description {
        // With `=`, also a text that begins with a dash is one.
        arguments = arguments.push(format!("--description={description}"));
    }
    arguments.0
}

/// `helm rollback` to a revision. It does not wait for the objects.
pub fn rollback(release: ReleaseName<'_>, revision: i64, timeout: Duration) -> Vec<OsString> {
    let arguments = Arguments::new("rollback", release.name).push(revision.to_string());
    arguments.namespace(release).timeout(timeout).0
}

/// `helm uninstall`. A release that is gone is no error. With `wait`, it ends when all objects and
/// what belongs to them are gone.
pub fn uninstall(
    version: HelmVersion,
    release: ReleaseName<'_>,
    timeout: Duration,
    wait: bool,
) -> Vec<OsString> {
    let arguments = Arguments::new("uninstall", release.name)
        .namespace(release)
        .push("--ignore-not-found")
        .timeout(timeout)
        .wait(version, wait);
    match wait {
        true => arguments.option("--cascade", "foreground").0,
        false => arguments.0,
    }
}

/// `helm version`.
pub fn version() -> Vec<OsString> {
    let arguments = ["version", "--template", "{{.Version}}"];
    arguments.map(OsString::from).to_vec()
}

#[cfg(test)]
mod tests;
