//! Where each dependency of a chart comes from. Without IO.

use url::Url;

use crate::source::{
    chart_yaml::{Dependency, check_name},
    error::SourceError,
    git::RemoteServer,
    http::host_of,
    repository_path::RepositoryPath,
    version::WantedVersion,
};

/// One dependency to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedDependency {
    pub(crate) name: String,
    pub(crate) version: WantedVersion,
    pub(crate) source: DependencySource,
}

/// Where a dependency is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DependencySource {
    /// In the folder `charts` of the chart already.
    Vendored,
    /// In the same git repository.
    Local(RepositoryPath),
    /// In a Helm repository.
    Repository(String),
    /// In an OCI registry.
    Registry(String),
}

impl PlannedDependency {
    /// The address of the server, if there is one.
    fn url(&self) -> Option<Url> {
        let url = match &self.source {
            DependencySource::Repository(url) | DependencySource::Registry(url) => url,
            DependencySource::Vendored | DependencySource::Local(_) => return None,
        };
        Url::parse(url).ok()
    }
}

/// Where the dependencies of the chart at a path are.
///
/// # Errors
/// Permanent, with the dependency's name.
pub(crate) fn plan(
    chart: &RepositoryPath,
    dependencies: &[Dependency],
) -> Result<Vec<PlannedDependency>, SourceError> {
    let mut planned: Vec<PlannedDependency> = Vec::new();
    for dependency in dependencies {
        let named = |error: SourceError| error.within(format!("dependency {:?}", dependency.name));
        check_name(&dependency.name)?;
        let one = PlannedDependency {
            name: dependency.name.clone(),
            version: WantedVersion::for_dependency(&dependency.version).map_err(named)?,
            source: source(chart, &dependency.repository).map_err(named)?,
        };
        // A chart may be a dependency twice, under two aliases.
        if !planned.contains(&one) {
            planned.push(one);
        }
    }
    Ok(planned)
}

fn source(chart: &RepositoryPath, repository: &str) -> Result<DependencySource, SourceError> {
    if repository.is_empty() {
        return Ok(DependencySource::Vendored);
    }
    if let Some(path) = repository.strip_prefix("file://") {
        let path = chart.resolve(path)?;
        if path == *chart {
            return Err(SourceError::permanent("the chart depends on itself"));
        }
        return Ok(DependencySource::Local(path));
    }
    if repository.starts_with("https://") || repository.starts_with("http://") {
        return Ok(DependencySource::Repository(repository.to_owned()));
    }
    if repository.starts_with("oci://") {
        return Ok(DependencySource::Registry(repository.to_owned()));
    }
    if repository.starts_with('@') || repository.starts_with("alias:") {
        let what = format!("the repository {repository:?} is a name of one machine, not a URL");
        return Err(SourceError::permanent(what));
    }
    Err(SourceError::permanent(
        "the repository must begin with https://, http://, oci:// or file://",
    ))
}

/// Credentials that do not name their server are sent only to that of the chart: the author of a
/// chart must not choose who gets them.
///
/// # Errors
/// Permanent, if a dependency is on another server.
pub(super) fn check_server(
    planned: &[PlannedDependency],
    server: RemoteServer<'_>,
) -> Result<(), SourceError> {
    for dependency in planned {
        if let Some(url) = dependency.url()
            && !is_on(&url, server)
        {
            return Err(SourceError::permanent(format!(
                "dependency {:?} is on {}://{}, and a user and password are sent to the host of \
                 the git remote only; use registryConfigFile",
                dependency.name,
                url.scheme(),
                host_of(&url)
            )));
        }
    }
    Ok(())
}

fn is_on(url: &Url, server: RemoteServer<'_>) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_readable = url.scheme() == "http" && server.has_encryption;
    !is_readable && host.eq_ignore_ascii_case(server.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(name: &str, version: &str, repository: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            version: version.to_owned(),
            repository: repository.to_owned(),
            ..Dependency::default()
        }
    }

    fn planned(dependency: Dependency) -> Result<DependencySource, SourceError> {
        let chart = RepositoryPath::parse("charts/a").expect("a path");
        let planned = plan(&chart, &[dependency])?;
        Ok(planned[0].source.clone())
    }

    #[test]
    fn a_repository_tells_where_a_dependency_is() {
        let path = |text: &str| RepositoryPath::parse(text).expect("a path");
        for (repository, wanted) in [
            ("", DependencySource::Vendored),
            ("file://../b", DependencySource::Local(path("charts/b"))),
            ("file://./b", DependencySource::Local(path("charts/a/b"))),
            ("file://../..", DependencySource::Local(path(""))),
            (
                "https://a.test",
                DependencySource::Repository("https://a.test".to_owned()),
            ),
            (
                "oci://a.test/b",
                DependencySource::Registry("oci://a.test/b".to_owned()),
            ),
        ] {
            let found = planned(dependency("b", "1.0.0", repository));
            assert_eq!(found, Ok(wanted), "{repository}");
        }
    }

    #[test]
    fn dependencies_without_a_usable_place_or_version_are_refused() {
        for (name, version, repository, wanted) in [
            (
                "b",
                "",
                "https://a.test",
                "dependency \"b\": the version is empty",
            ),
            (
                "b",
                "notSemver",
                "oci://a.test",
                "is no version and no range",
            ),
            (
                "b",
                "1.0.0",
                "file://../../../b",
                "leads out of the repository",
            ),
            ("b", "1.0.0", "file:///etc", "is absolute"),
            ("b", "1.0.0", "file://.", "depends on itself"),
            ("b", "1.0.0", "@stable", "a name of one machine"),
            ("b", "1.0.0", "alias:stable", "a name of one machine"),
            ("b", "1.0.0", "git+https://a.test", "must begin with"),
            ("../b", "1.0.0", "https://a.test", "is no name of a chart"),
        ] {
            let error = planned(dependency(name, version, repository)).expect_err("refused");
            assert!(error.message().contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_chart_with_two_aliases_is_loaded_once() {
        let root = RepositoryPath::default();
        let one = dependency("b", "1.0.0", "https://a.test");
        let other = dependency("b", "1.1.0", "https://a.test");
        let planned = plan(&root, &[one.clone(), one, other]).expect("valid");
        assert_eq!(planned.len(), 2);
    }

    #[test]
    fn a_password_is_for_the_server_of_the_chart() {
        let check = |repositories: &[&str], host, has_encryption| {
            let dependencies: Vec<Dependency> = repositories
                .iter()
                .map(|repository| dependency("b", "1.0.0", repository))
                .collect();
            let planned = plan(&RepositoryPath::default(), &dependencies).expect("valid");
            let server = RemoteServer {
                host,
                has_encryption,
            };
            check_server(&planned, server)
        };
        for (repositories, host, has_encryption) in [
            (vec![], "a.test", true),
            (
                vec!["https://a.test/x", "oci://A.test:5000/y", "file://b", ""],
                "a.test",
                true,
            ),
            (vec!["https://[::1]:8443/x"], "::1", true),
            (vec!["http://a.test/x"], "a.test", false),
        ] {
            assert_eq!(check(&repositories, host, has_encryption), Ok(()), "{host}");
        }
        for (repository, host, has_encryption) in [
            ("https://b.test", "a.test", true),
            ("oci://a.test.b.test", "a.test", true),
            ("https://b.test/a.test", "a.test", true),
            ("http://a.test/x", "a.test", true),
        ] {
            let repositories = ["https://a.test/x", repository];
            let error = check(&repositories, host, has_encryption).expect_err("refused");
            assert!(error.message().contains("registryConfigFile"), "{error}");
        }
    }
}
