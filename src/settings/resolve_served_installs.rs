//! `kubernetes.installations`: which installed apps the gateway serves.

use super::{
    file::ConfigFile,
    resolve_site::{apps_prefix, check_overlap, own_paths, path},
    section::ConfigSection,
};
use crate::model::app::Isolation;

/// Default base path of installed apps.
const PREFIX: &str = "/installs";

/// The installed apps that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedInstallations {
    /// Their base path, without a slash at the end.
    pub prefix: String,
    /// Whether installations of all namespaces are served, or those of the listed ones.
    pub all_namespaces: bool,
}

/// The base paths of other kinds of apps.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherPrefixes<'a> {
    pub(super) viewers: Option<&'a str>,
    pub(super) labs: Option<&'a str>,
}

/// Reads the table. `None` only together with an error.
pub(super) fn installations(
    file: &ConfigFile<'_>,
    kubernetes: &ConfigSection<'_>,
    others: OtherPrefixes<'_>,
    isolation: Isolation,
) -> Option<Option<ServedInstallations>> {
    if !kubernetes.has("installations") {
        return Some(None);
    }
    if isolation == Isolation::Host {
        let what = "cannot be combined with isolation = \"host\": they are on paths of the site";
        kubernetes.wrong("installations", what, None);
    }
    let read = |section: ConfigSection<'_>| served(file, &section, others);
    kubernetes
        .inner("installations", "kubernetes.installations", read)?
        .map(Some)
}

fn served(
    file: &ConfigFile<'_>,
    section: &ConfigSection<'_>,
    others: OtherPrefixes<'_>,
) -> Option<ServedInstallations> {
    let prefix = path(section, "prefix", PREFIX)?;
    let apps = Some(("site.apps_prefix", apps_prefix(file)));
    let viewers = others
        .viewers
        .map(|it| ("kubernetes.viewers.prefix", it.to_owned()));
    let labs = others.labs.map(|it| ("labs.gateway.prefix", it.to_owned()));
    let others = [apps, viewers, labs].into_iter().flatten();
    check_overlap(section, &prefix, own_paths(file).into_iter().chain(others));
    Some(ServedInstallations {
        prefix,
        all_namespaces: section.switch("all_namespaces").unwrap_or(false),
    })
}
