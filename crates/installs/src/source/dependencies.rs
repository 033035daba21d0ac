//! Dependencies of a chart from git: loads them into its folder `charts`, as
//! `helm dependency build` does.

mod plan;

use std::{
    io,
    path::{Path, PathBuf},
};

use ludgate_model::site::is_loopback_host;
use tokio::fs;
use url::Url;

use self::plan::check_server;
pub(crate) use self::plan::{DependencySource, PlannedDependency, plan};
use super::{
    archive::{WantedChart, check_archive, pack_folder},
    chart_yaml::{ChartLock, ChartMetadata},
    credentials::HelmLogin,
    error::SourceError,
    git::RemoteServer,
    http::HttpSource,
    oci::OciRepository,
    repository::HelmRepository,
    repository_path::RepositoryPath,
    version::parse_version,
};

/// Loads the dependencies of one chart.
#[derive(Debug)]
pub(crate) struct DependencyBuild<'b> {
    pub(crate) http: &'b HttpSource<'b>,
    pub(crate) login: &'b HelmLogin,
    /// Where the chart came from.
    pub(crate) server: RemoteServer<'b>,
    /// The folder with the used parts of the git repository.
    pub(crate) root: &'b Path,
    /// Where the chart is in it.
    pub(crate) chart: &'b RepositoryPath,
}

/// The dependencies of the chart in a folder.
///
/// # Errors
/// Permanent, if its files are not as expected, or there are too many dependencies.
pub(crate) async fn planned_dependencies(
    root: &Path,
    chart: &RepositoryPath,
    max: usize,
) -> Result<Vec<PlannedDependency>, SourceError> {
    let folder = chart.below(root);
    let Some(text) = read(&folder.join("Chart.yaml")).await? else {
        let what = format!("the path {:?} has no Chart.yaml", chart.to_string());
        return Err(SourceError::permanent(what));
    };
    if read(&folder.join("requirements.yaml")).await?.is_some() {
        return Err(SourceError::permanent(
            "requirements.yaml is not supported: write the dependencies into Chart.yaml",
        ));
    }
    let metadata = ChartMetadata::parse(&text)?;
    let lock = read(&folder.join("Chart.lock")).await?;
    let lock = lock.map(|text| ChartLock::parse(&text)).transpose()?;
    let dependencies = metadata.locked_dependencies(lock)?;
    if dependencies.len() > max {
        let what = format!("the chart has more than {max} dependencies");
        return Err(SourceError::permanent(what));
    }
    plan(chart, &dependencies)
}

impl DependencyBuild<'_> {
    /// Loads the dependencies. Those that are there already are replaced.
    ///
    /// # Errors
    /// See [`SourceError`]; with the dependency's name.
    pub(crate) async fn run(&self, planned: &[PlannedDependency]) -> Result<(), SourceError> {
        if self.login.is_for_one_server() {
            check_server(planned, self.server)?;
        }
        for dependency in planned {
            let loaded = self.load(dependency).await;
            loaded.map_err(|error| error.within(format!("dependency {:?}", dependency.name)))?;
        }
        Ok(())
    }

    async fn load(&self, dependency: &PlannedDependency) -> Result<(), SourceError> {
        let archive = match &dependency.source {
            DependencySource::Vendored => return self.check_vendored(dependency).await,
            DependencySource::Local(path) => {
                let limits = &self.http.settings.limits;
                pack_folder(&path.below(self.root), limits).await?.0
            }
            DependencySource::Repository(url) => {
                let repository = HelmRepository::new(self.http, url, self.login)?;
                repository
                    .fetch(&dependency.name, &dependency.version)
                    .await?
            }
            DependencySource::Registry(url) => {
                let (name, plain) = (&dependency.name, self.is_plain(url));
                let repository = OciRepository::new(self.http, url, name, plain, self.login)?;
                repository.fetch(&dependency.version).await?
            }
        };
        let wanted = WantedChart {
            name: dependency.name.clone(),
            version: dependency.version.clone(),
        };
        let limits = &self.http.settings.limits;
        let (archive, metadata) = check_archive(archive, wanted, limits).await?;
        self.remove_archives(&dependency.name).await?;
        let written = fs::write(self.charts().join(metadata.archive_name()), archive).await;
        written.map_err(|error| SourceError::local("cannot write a dependency", error))
    }

    /// A URL of a registry does not say whether it has TLS. Registries on loopback have none.
    fn is_plain(&self, url: &str) -> bool {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str);
        self.http.settings.hosts.plain_http && host.is_some_and(is_loopback_host)
    }

    fn charts(&self) -> PathBuf {
        self.chart.below(self.root).join("charts")
    }

    /// Other versions of a dependency would be installed too.
    async fn remove_archives(&self, name: &str) -> Result<(), SourceError> {
        let failed = |error: io::Error| SourceError::local("cannot write a dependency", error);
        fs::create_dir_all(self.charts()).await.map_err(failed)?;
        for (path, _) in self.archives_of(name).await? {
            fs::remove_file(path).await.map_err(failed)?;
        }
        Ok(())
    }

    /// A dependency without a repository must be in the folder `charts`.
    async fn check_vendored(&self, dependency: &PlannedDependency) -> Result<(), SourceError> {
        let folder = self.charts().join(&dependency.name);
        let mut versions: Vec<String> = Vec::new();
        if let Some(text) = read(&folder.join("Chart.yaml")).await? {
            versions.push(ChartMetadata::parse(&text)?.version);
        }
        let archives = self.archives_of(&dependency.name).await?;
        versions.extend(archives.into_iter().map(|(_, version)| version));
        let mut parsed = versions.iter().filter_map(|version| parse_version(version));
        if parsed.any(|version| dependency.version.matches(&version)) {
            return Ok(());
        }
        Err(SourceError::permanent(format!(
            "it has no repository, and {} is not in charts/",
            dependency.version
        )))
    }

    /// The archives of a chart in the folder `charts`, with their versions.
    async fn archives_of(&self, name: &str) -> Result<Vec<(PathBuf, String)>, SourceError> {
        let failed = |error: io::Error| SourceError::local("cannot read the dependencies", error);
        let mut entries = match fs::read_dir(self.charts()).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            let file = entry.file_name().to_string_lossy().into_owned();
            let version = file.strip_suffix(".tgz").and_then(|stem| {
                let version = stem.strip_prefix(name)?.strip_prefix('-')?;
                parse_version(version).map(|_| version.to_owned())
            });
            found.extend(version.map(|version| (entry.path(), version)));
        }
        Ok(found)
    }
}

/// The content of a file; `None` if there is none.
async fn read(path: &Path) -> Result<Option<Vec<u8>>, SourceError> {
    match fs::read(path).await {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourceError::local("cannot read the chart", error)),
    }
}
