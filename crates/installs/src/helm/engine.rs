//! Runs Helm: one process per operation, with a folder, an environment and a deadline of its own.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ludgate_model::secret::Secret;
use tokio::{process::Command, time::Instant};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{
    command::{self, ReleaseName, UpgradeOptions},
    environment::OperationFolder,
    kubeconfig::ApiEndpoint,
    outcome::{FailureClass, HelmError},
    process::{self, ProcessLimits, ProcessOutput},
    version::HelmVersion,
};
use crate::redaction::Redactor;

/// Time that a process may need beside its waits.
const BESIDE_WAITS: Duration = Duration::from_secs(60);
/// Deadline of `helm version`.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);

/// Sets limits, and then executes a program in its own process. It is found in the `PATH`.
const LIMITER: &str = "prlimit";
/// Address space of a process, in bytes: a template can allocate without end.
const ADDRESS_SPACE: u64 = 8 << 30;
/// Processor time of a process, in seconds. Waiting needs almost none.
const CPU_SECONDS: u64 = 3600;
/// Largest file that a process may write, in bytes.
const FILE_BYTES: u64 = 512 << 20;

/// The program, and where it works. Clones share it.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    helm: PathBuf,
    path: OsString,
    folders: PathBuf,
    version: HelmVersion,
}

/// What an engine is made from.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The program, as an absolute path.
    pub helm: PathBuf,
    /// The `PATH` of its processes. `prlimit` must be there.
    pub path: OsString,
    /// The folder for the folders of operations. Only this program's user should write to it.
    pub folders: PathBuf,
}

/// A release, and the right to change it.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseAccess<'a> {
    /// The release.
    pub release: ReleaseName<'a>,
    /// The API server.
    pub endpoint: &'a ApiEndpoint,
    /// The token of the namespace's account.
    pub token: &'a Secret,
}

/// An installation or upgrade. The values may have secrets, so it has no `Debug`.
#[derive(Clone, Copy)]
pub struct Upgrade<'a> {
    /// The release.
    pub access: ReleaseAccess<'a>,
    /// The archive or folder of the chart, with all its dependencies, as an absolute path.
    pub chart: &'a Path,
    /// The values, as YAML.
    pub values: &'a str,
    /// How it is done.
    pub options: &'a UpgradeOptions,
}

/// A return to an older revision.
#[derive(Clone, Copy, Debug)]
pub struct Rollback<'a> {
    /// The release.
    pub access: ReleaseAccess<'a>,
    /// The revision, from 1.
    pub revision: i64,
    /// The longest wait for a hook.
    pub timeout: Duration,
}

/// A removal of a release and of its objects.
#[derive(Clone, Copy, Debug)]
pub struct Uninstall<'a> {
    /// The release. One that is gone is no error.
    pub access: ReleaseAccess<'a>,
    /// The longest wait, for a hook and for the objects.
    pub timeout: Duration,
    /// Waits until all objects, and those that belong to them, are gone.
    pub wait: bool,
}

/// A finished operation. What it made is in the Secrets of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// How long it took.
    pub elapsed: Duration,
}

impl Engine {
    /// Asks the program for its version.
    ///
    /// # Errors
    /// The program cannot be started, or has a version whose flags are unknown.
    pub async fn new(settings: EngineSettings) -> Result<Engine, HelmError> {
        let EngineSettings {
            helm,
            path,
            folders,
        } = settings;
        let none = Redactor::default();
        let failed = |message: &str| HelmError::new(FailureClass::Other, message, &none);
        if !helm.is_absolute() {
            return Err(failed("the path of helm must be absolute"));
        }
        let unknown = Shared {
            helm,
            path,
            folders,
            // No flag of `helm version` depends on it.
            version: HelmVersion::new(0, 0, 0),
        };
        let operation = Operation {
            arguments: |_: &Path| command::version(),
            kubeconfig: Zeroizing::default(),
            values: None,
            timeout: VERSION_DEADLINE,
            redactor: &none,
        };
        let output = unknown.run(operation, &CancellationToken::new()).await?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let version = HelmVersion::parse(&answer).map_err(|error| failed(&error.to_string()))?;
        let shared = Arc::new(Shared { version, ..unknown });
        Ok(Engine { shared })
    }

    /// The version of the program.
    pub fn version(&self) -> HelmVersion {
        self.shared.version
    }

    /// Installs a release, or upgrades it.
    ///
    /// # Errors
    /// See [`HelmError`].
    pub async fn upgrade(
        &self,
        upgrade: &Upgrade<'_>,
        cancel: &CancellationToken,
    ) -> Result<Done, HelmError> {
        let Upgrade {
            access,
            chart,
            values,
            options,
        } = *upgrade;
        let redactor = access.redactor();
        let failed = |message: &str| HelmError::new(FailureClass::Other, message, &redactor);
        let version = self.shared.version;
        if !chart.is_absolute() {
            return Err(failed("the path of the chart must be absolute"));
        }
        if options.take_ownership && !version.can_take_ownership() {
            return Err(failed("taking over objects needs Helm 3.17 or newer"));
        }
        let release = access.release;
        let operation = Operation {
            arguments: |values: &Path| command::upgrade(version, release, chart, values, options),
            kubeconfig: access.kubeconfig(),
            values: Some(values.to_owned()),
            timeout: longest(options),
            redactor: &redactor,
        };
        self.operate(access, operation, cancel).await
    }

    /// Returns a release to an older revision, as a new revision.
    ///
    /// # Errors
    /// See [`HelmError`].
    pub async fn rollback(
        &self,
        rollback: &Rollback<'_>,
        cancel: &CancellationToken,
    ) -> Result<Done, HelmError> {
        let Rollback {
            access,
            revision,
            timeout,
        } = *rollback;
        let redactor = access.redactor();
        if revision < 1 {
            // Helm would take zero for the last but one, and a negative number for a flag.
            let message = "revisions are numbers from 1";
            return Err(HelmError::new(FailureClass::Other, message, &redactor));
        }
        let operation = Operation {
            arguments: |_: &Path| command::rollback(access.release, revision, timeout),
            kubeconfig: access.kubeconfig(),
            values: None,
            timeout: timeout.saturating_add(BESIDE_WAITS),
            redactor: &redactor,
        };
        self.operate(access, operation, cancel).await
    }

    /// Removes a release and its objects.
    ///
    /// # Errors
    /// See [`HelmError`].
    pub async fn uninstall(
        &self,
        uninstall: &Uninstall<'_>,
        cancel: &CancellationToken,
    ) -> Result<Done, HelmError> {
        let Uninstall {
            access,
            timeout,
            wait,
        } = *uninstall;
        let redactor = access.redactor();
        let version = self.shared.version;
        let operation = Operation {
            arguments: |_: &Path| command::uninstall(version, access.release, timeout, wait),
            kubeconfig: access.kubeconfig(),
            values: None,
            timeout: timeout.saturating_add(BESIDE_WAITS),
            redactor: &redactor,
        };
        self.operate(access, operation, cancel).await
    }

    async fn operate(
        &self,
        access: ReleaseAccess<'_>,
        operation: Operation<'_, impl FnOnce(&Path) -> Vec<OsString>>,
        cancel: &CancellationToken,
    ) -> Result<Done, HelmError> {
        access.check(operation.redactor)?;
        let started = Instant::now();
        self.shared.run(operation, cancel).await?;
        Ok(Done {
            elapsed: started.elapsed(),
        })
    }
}

impl ReleaseAccess<'_> {
    fn redactor(&self) -> Redactor {
        Redactor::new([self.token])
    }

    fn kubeconfig(&self) -> Zeroizing<String> {
        let namespace = self.release.namespace;
        self.endpoint.kubeconfig(namespace, self.token)
    }

    /// A name that is no name could be taken for a flag.
    fn check(&self, redactor: &Redactor) -> Result<(), HelmError> {
        if self.release.is_valid() {
            return Ok(());
        }
        let message = "the name of the release or of its namespace is invalid";
        Err(HelmError::new(FailureClass::Other, message, redactor))
    }
}

/// A call of the program. `arguments` get the path of the values.
struct Operation<'a, A> {
    arguments: A,
    kubeconfig: Zeroizing<String>,
    values: Option<String>,
    timeout: Duration,
    redactor: &'a Redactor,
}

impl Shared {
    async fn run(
        &self,
        operation: Operation<'_, impl FnOnce(&Path) -> Vec<OsString>>,
        cancel: &CancellationToken,
    ) -> Result<ProcessOutput, HelmError> {
        let Operation {
            arguments,
            kubeconfig,
            values,
            timeout,
            redactor,
        } = operation;
        if cancel.is_cancelled() {
            let message = "the operation was cancelled";
            return Err(HelmError::new(FailureClass::Cancelled, message, redactor));
        }
        let failed = |what: &str, error: io::Error| {
            let message = format!("{what}: {error}");
            HelmError::new(FailureClass::Other, &message, redactor)
        };
        let parent = self.folders.clone();
        let made = tokio::task::spawn_blocking(move || {
            OperationFolder::create(&parent, &kubeconfig, values.as_deref())
        });
        let folder = made.await.map_err(io::Error::other).flatten();
        let folder = folder.map_err(|error| failed("cannot write the files of helm", error))?;
        let mut command = Command::new(LIMITER);
        command
            .args(limits())
            .arg(&self.helm)
            .args(arguments(&folder.values()))
            .env_clear()
            .envs(folder.variables(&self.path))
            .current_dir(folder.root());
        let output = process::run(command, ProcessLimits::new(timeout), cancel).await;
        let output = output.map_err(|error| failed("cannot run helm", error))?;
        match HelmError::from_process(&output, redactor) {
            None => Ok(output),
            Some(error) => Err(error),
        }
    }
}

/// The limits, as arguments.
fn limits() -> [String; 4] {
    [
        format!("--as={ADDRESS_SPACE}"),
        format!("--cpu={CPU_SECONDS}"),
        format!("--fsize={FILE_BYTES}"),
        "--core=0".to_owned(),
    ]
}

/// The longest time of an upgrade. An atomic one waits a second time, for what it restores.
fn longest(options: &UpgradeOptions) -> Duration {
    let waits = match options.atomic {
        true => options.timeout.saturating_mul(2),
        false => options.timeout,
    };
    waits.saturating_add(BESIDE_WAITS)
}

#[cfg(test)]
mod tests;
