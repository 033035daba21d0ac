//! Downloads of charts, each in a task of its own.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use ludgate_cluster::{crd::definition::ApplicationVersion, object::DeepObject};
use ludgate_controllers::error::ReconcileError;
use tempfile::{Builder, TempDir};
use tokio_util::sync::CancellationToken;

use super::{
    attempts::{ChartOnDisk, RunningDownload},
    context::InstallationReconcile,
    credentials::CredentialsError,
    observe::{Observation, Subject},
};
use crate::{
    applied_digest::InputDigest,
    plan::Downloaded,
    source::{ChartSource, GitRevision, SourceError, SourceErrorClass, download},
    status::Report,
    stuck::OperationKind,
};

/// How the names of the folders of charts begin.
pub(super) const FOLDER_PREFIX: &str = "ludgate-chart-";
/// Only this program's user may read the folder.
const FOLDER_MODE: u32 = 0o700;

impl InstallationReconcile {
    /// Starts a download, unless the same one runs. One of other inputs is cancelled.
    pub(super) fn start_download(
        self: &Arc<Self>,
        subject: &Subject,
        request: ObjectRef<DeepObject>,
        version: &ApplicationVersion,
        inputs: InputDigest,
    ) {
        let (key, uid) = (subject.key.clone(), subject.uid.clone());
        let cancel = CancellationToken::new();
        let number = self.memory.with(&key, &uid, |remembered| {
            if let Some(running) = &remembered.download
                && running.inputs == inputs
            {
                return None;
            }
            let number = remembered.download.as_ref().map_or(1, |it| it.number + 1);
            remembered.chart = None;
            remembered.download = Some(RunningDownload {
                inputs: inputs.clone(),
                number,
                _cancel: cancel.clone().drop_guard(),
            });
            Some(number)
        });
        let Some(number) = number else { return };
        let (context, version) = (self.clone(), version.clone());
        self.tasks.spawn(async move {
            let done = context.download(&version, inputs, &cancel).await;
            context.memory.with(&key, &uid, |remembered| {
                let is_ours = remembered
                    .download
                    .as_ref()
                    .is_some_and(|running| running.number == number);
                if !is_ours {
                    return;
                }
                remembered.download = None;
                match done {
                    Ok(chart) => remembered.chart = Some(Arc::new(chart)),
                    Err(error) => remembered.failed_download = Some(error),
                }
            });
            let _ = context.wake.send(request);
        });
    }

    /// Cancels the download that runs, and removes the chart.
    pub(super) fn drop_download(&self, subject: &Subject) {
        self.memory.with(&subject.key, &subject.uid, |remembered| {
            remembered.download = None;
            remembered.failed_download = None;
            remembered.chart = None;
        });
    }

    /// Reports a download that failed. Returns whether there was one.
    pub(super) async fn record_failed_download(
        &self,
        subject: &mut Subject,
        observation: &Observation,
    ) -> Result<bool, ReconcileError> {
        let failed = self.memory.with(&subject.key, &subject.uid, |remembered| {
            remembered.failed_download.clone()
        });
        let Some(error) = failed else {
            return Ok(false);
        };
        if error.class() != SourceErrorClass::Cancelled {
            let report = Report::DownloadFailed(error.message());
            let facts = observation.facts(subject);
            self.report(subject, facts, report).await?;
        }
        self.memory.with(&subject.key, &subject.uid, |remembered| {
            remembered.failed_download = None;
            if error.class() != SourceErrorClass::Cancelled {
                remembered.failed(OperationKind::Apply, Timestamp::now());
            }
        });
        Ok(true)
    }

    async fn download(
        &self,
        version: &ApplicationVersion,
        inputs: InputDigest,
        cancel: &CancellationToken,
    ) -> Result<ChartOnDisk, SourceError> {
        let slot = cancel.run_until_cancelled(self.slots.downloads.acquire());
        let Some(Ok(_slot)) = slot.await else {
            return Err(SourceError::cancelled());
        };
        let settings = self.settings();
        let source = chart_source(version)?;
        let credentials = self.credentials(version).await.map_err(|error| {
            let text = error.to_string();
            match error {
                CredentialsError::Api(_) => SourceError::transient(text),
                CredentialsError::NoSecret(_)
                | CredentialsError::NoKey { .. }
                | CredentialsError::NoText { .. }
                | CredentialsError::NoField(_)
                | CredentialsError::UnknownMethod(_) => SourceError::permanent(text),
            }
        })?;
        let parent = settings.work_folder();
        let made = tokio::task::spawn_blocking(move || chart_folder(&parent)).await;
        let folder = made.map_err(std::io::Error::other).flatten();
        let folder = folder.map_err(|error| SourceError::local("cannot make a folder", error))?;
        let found = download(
            &source,
            &credentials,
            &settings.source,
            folder.path(),
            cancel,
        );
        let found = found.await?;
        Ok(ChartOnDisk {
            downloaded: Downloaded {
                inputs,
                chart: found.digest,
            },
            path: found.path,
            _folder: folder,
        })
    }
}

fn chart_folder(parent: &std::path::Path) -> std::io::Result<TempDir> {
    Builder::new()
        .prefix(FOLDER_PREFIX)
        .permissions(std::fs::Permissions::from_mode(FOLDER_MODE))
        .tempdir_in(parent)
}

/// The source of a version, as downloads take it.
///
/// # Errors
/// Permanent: the definition has no source, or an ambiguous one.
fn chart_source(version: &ApplicationVersion) -> Result<ChartSource, SourceError> {
    let source = &version.template.source;
    match (&source.helm, &source.git) {
        (Some(helm), None) => Ok(match helm.url.starts_with("oci://") {
            true => ChartSource::Oci {
                url: helm.url.clone(),
                chart: helm.chart_name.clone(),
                version: helm.chart_version.clone(),
                insecure: helm.insecure.unwrap_or(false),
                plain_http: helm.plain_http.unwrap_or(false),
            },
            false => ChartSource::Repository {
                url: helm.url.clone(),
                chart: helm.chart_name.clone(),
                version: helm.chart_version.clone(),
                insecure: helm.insecure.unwrap_or(false),
            },
        }),
        (None, Some(git)) => Ok(ChartSource::Git {
            remote: git.remote.clone(),
            revision: git_revision(
                git.reference.branch.as_deref(),
                git.reference.commit.as_deref(),
                git.reference.tag.as_deref(),
            )?,
            path: git.path.clone().unwrap_or_default(),
        }),
        (None, None) => Err(SourceError::permanent("no source provided")),
        (Some(_), Some(_)) => {
            let text = "only one source type can be provided";
            Err(SourceError::permanent(text))
        }
    }
}

fn git_revision(
    branch: Option<&str>,
    commit: Option<&str>,
    tag: Option<&str>,
) -> Result<GitRevision, SourceError> {
    let set = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    match (set(branch), set(commit), set(tag)) {
        (Some(branch), Some(commit), None) => Ok(GitRevision::Commit { branch, commit }),
        (Some(branch), None, None) => Ok(GitRevision::Branch(branch)),
        (None, None, Some(tag)) => Ok(GitRevision::Tag(tag)),
        (_, _, _) => {
            let text = "ref must have a tag, or a branch, or a branch and a commit";
            Err(SourceError::permanent(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn source(source: Value) -> Result<ChartSource, String> {
        let version = json!({ "version": "1", "template": { "source": source } });
        let version: ApplicationVersion = serde_json::from_value(version).expect("a version");
        chart_source(&version).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn the_source_of_a_definition_becomes_a_download() {
        let helm = |url: &str| json!({ "url": url, "chartName": "c", "chartVersion": "1.0.0" });
        let found = source(json!({ "helm": helm("https://charts.test/x") }));
        assert!(
            matches!(found, Ok(ChartSource::Repository { .. })),
            "{found:?}"
        );
        let found = source(json!({ "helm": helm("oci://charts.test/x") }));
        assert!(matches!(found, Ok(ChartSource::Oci { .. })), "{found:?}");
        let git = |reference: Value| {
            source(json!({ "git": { "remote": "https://git.test/x", "ref": reference } }))
        };
        for (reference, wanted) in [
            (
                json!({ "branch": "b" }),
                Ok(GitRevision::Branch("b".into())),
            ),
            (
                json!({ "tag": "t", "branch": "" }),
                Ok(GitRevision::Tag("t".into())),
            ),
            (
                json!({ "branch": "b", "commit": "c" }),
                Ok(GitRevision::Commit {
                    branch: "b".into(),
                    commit: "c".into(),
                }),
            ),
            (json!({ "commit": "c" }), Err(())),
            (json!({ "tag": "t", "branch": "b" }), Err(())),
            (json!({}), Err(())),
        ] {
            let found = git(reference.clone()).map_err(drop).map(|found| {
                let ChartSource::Git { revision, .. } = found else {
                    panic!("{found:?}");
                };
                revision
            });
            assert_eq!(found, wanted, "{reference}");
        }
        assert_eq!(source(json!({})), Err("no source provided".to_owned()));
    }
}
