//! Downloads a chart, from wherever it is, into a checked archive.

use std::path::{Path, PathBuf};

use tokio::{fs, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    archive::{WantedChart, check_archive, pack_folder},
    chart_source::{ChartSource, GitRevision},
    chart_yaml::{ChartMetadata, check_name},
    checksum::sha256_hex,
    credentials::Credentials,
    dependencies::{DependencyBuild, DependencySource, planned_dependencies},
    error::SourceError,
    git::{GitCheckout, GitRequest},
    http::HttpSource,
    message::clean_message,
    oci::OciRepository,
    repository::HelmRepository,
    repository_path::RepositoryPath,
    settings::SourceSettings,
    version::WantedVersion,
};

/// A chart that was downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedChart {
    /// The archive, in the folder of the download.
    pub path: PathBuf,
    /// `sha256:` and the SHA-256 of the archive. Of a chart from git, it depends only on its files
    /// and its dependencies.
    pub digest: String,
    /// The chart's name.
    pub name: String,
    /// The chart's version.
    pub version: String,
    /// The version of the app in it, if the chart tells it.
    pub app_version: Option<String>,
    /// The commit of a chart from git.
    pub commit: Option<String>,
}

/// Downloads a chart into a folder, which must exist, be empty, and be readable by this user only.
/// Other files of the download are removed at its end.
///
/// # Errors
/// See [`SourceError`]. When the token is cancelled, connections are closed and processes killed
/// before this returns.
pub async fn download(
    source: &ChartSource,
    credentials: &Credentials,
    settings: &SourceSettings,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<DownloadedChart, SourceError> {
    let request = Download {
        credentials,
        settings,
        folder,
    };
    let deadline = settings.limits.deadline;
    let done = cancel.run_until_cancelled(timeout(deadline, request.load(source)));
    let result = match done.await {
        None => Err(SourceError::cancelled()),
        Some(Err(_)) => {
            let seconds = deadline.as_secs_f32();
            let what = format!("the download did not end within {seconds} s");
            Err(SourceError::transient(what))
        }
        Some(Ok(result)) => result,
    };
    result.map_err(|error| {
        let message = clean_message(error.message(), credentials);
        error.with_message(message)
    })
}

struct Download<'d> {
    credentials: &'d Credentials,
    settings: &'d SourceSettings,
    folder: &'d Path,
}

impl Download<'_> {
    async fn load(&self, source: &ChartSource) -> Result<DownloadedChart, SourceError> {
        match source {
            ChartSource::Repository {
                url,
                chart,
                version,
                insecure,
            } => {
                let wanted = wanted(chart, version)?;
                let http = HttpSource::new(self.settings, *insecure)?;
                let repository = HelmRepository::new(&http, url, &self.credentials.helm)?;
                let archive = repository.fetch(chart, &wanted.version).await?;
                self.store_checked(archive, wanted).await
            }
            ChartSource::Oci {
                url,
                chart,
                version,
                insecure,
                plain_http,
            } => {
                let wanted = wanted(chart, version)?;
                let http = HttpSource::new(self.settings, *insecure)?;
                let login = &self.credentials.helm;
                let repository = OciRepository::new(&http, url, chart, *plain_http, login)?;
                let archive = repository.fetch(&wanted.version).await?;
                self.store_checked(archive, wanted).await
            }
            ChartSource::Git {
                remote,
                revision,
                path,
            } => self.load_from_git(remote, revision, path).await,
        }
    }

    async fn store_checked(
        &self,
        archive: Vec<u8>,
        wanted: WantedChart,
    ) -> Result<DownloadedChart, SourceError> {
        let (archive, metadata) = check_archive(archive, wanted, &self.settings.limits).await?;
        self.store(archive, metadata, None).await
    }

    async fn load_from_git(
        &self,
        remote: &str,
        revision: &GitRevision,
        path: &str,
    ) -> Result<DownloadedChart, SourceError> {
        let chart = RepositoryPath::parse(path)?;
        let work = WorkFolder::create(self.folder.join("source")).await?;
        let request = GitRequest {
            remote,
            revision,
            credentials: self.credentials,
            settings: self.settings,
        };
        let mut checkout = GitCheckout::fetch(request, &work.0).await?;
        let root = work.0.join("files");
        checkout.write(&chart, &root).await?;
        let limits = &self.settings.limits;
        let planned = planned_dependencies(&root, &chart, limits.dependencies).await?;
        for dependency in &planned {
            if let DependencySource::Local(path) = &dependency.source
                && !chart.contains(path)
            {
                checkout.write(path, &root).await?;
            }
        }
        let http = HttpSource::new(self.settings, false)?;
        let build = DependencyBuild {
            http: &http,
            login: &self.credentials.helm,
            server: checkout.server(),
            root: &root,
            chart: &chart,
        };
        build.run(&planned).await?;
        let (archive, metadata) = pack_folder(&chart.below(&root), limits).await?;
        self.store(archive, metadata, Some(checkout.commit().to_owned()))
            .await
    }

    async fn store(
        &self,
        archive: Vec<u8>,
        metadata: ChartMetadata,
        commit: Option<String>,
    ) -> Result<DownloadedChart, SourceError> {
        let path = self.folder.join(metadata.archive_name());
        let digest = format!("sha256:{}", sha256_hex(&archive));
        let written = fs::write(&path, archive).await;
        written.map_err(|error| SourceError::local("cannot write the chart", error))?;
        Ok(DownloadedChart {
            path,
            digest,
            name: metadata.name,
            version: metadata.version,
            app_version: metadata.app_version,
            commit,
        })
    }
}

fn wanted(chart: &str, version: &str) -> Result<WantedChart, SourceError> {
    check_name(chart)?;
    Ok(WantedChart {
        name: chart.to_owned(),
        version: WantedVersion::for_source(version)?,
    })
}

/// A folder that is removed at the end, with the key of ssh that may be in it.
struct WorkFolder(PathBuf);

impl WorkFolder {
    async fn create(path: PathBuf) -> Result<WorkFolder, SourceError> {
        let mut builder = fs::DirBuilder::new();
        let created = builder.mode(0o700).create(&path).await;
        created.map_err(|error| SourceError::local("cannot create a folder", error))?;
        Ok(WorkFolder(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "cannot remove the files of a download");
        }
    }
}
