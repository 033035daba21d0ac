//! Helm in a namespace of a real cluster, with the rights of that namespace alone.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Api, Config};
use ludgate::model::secret::Secret;
use ludgate_cluster::writer::Writer;
use ludgate_installs::{
    helm::{
        command::{ReleaseName, ServerSideApply, UpgradeOptions},
        engine::{Done, Engine, EngineSettings, ReleaseAccess, Rollback, Uninstall, Upgrade},
        kubeconfig::ApiEndpoint,
        outcome::HelmError,
    },
    release::{Release, ReleaseStatus},
    releases::{history::fetch_history, watch::ReleaseStore},
    targets::{namespace::MANAGER, token::NamespaceAccount},
};
use serde_json::Value;
use tokio::{process::Command, sync::OnceCell, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{kube_namespace::KubeNamespace, until::until};

/// The release of all tests.
pub const RELEASE: &str = "local";
/// Operations that do not wait end within this time.
const MINUTE: Duration = Duration::from_secs(60);

/// Helm, a namespace and its account.
pub struct Helm {
    pub namespace: KubeNamespace,
    pub engine: Engine,
    /// The states of releases, as the controller watches them.
    pub releases: ReleaseStore,
    pub token: Secret,
    endpoint: ApiEndpoint,
    server_side: ServerSideApply,
    folder: tempfile::TempDir,
    watch: JoinHandle<()>,
}

impl Helm {
    /// Makes a namespace and its account. The account has all rights in the namespace, and none
    /// outside of it.
    pub async fn start() -> Helm {
        let namespace = KubeNamespace::new().await;
        let client = namespace.client.clone();
        let config = Config::infer().await.expect("KUBECONFIG");
        let account = NamespaceAccount {
            namespace: &namespace.name,
            cluster_role: "cluster-admin",
        };
        let writer = Writer::new(client.clone(), MANAGER);
        account.apply(&writer).await.expect("an account");
        let token = account.request_token(&client, MINUTE * 5).await;
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("operations")).expect("made");
        let engine = Engine::new(EngineSettings {
            helm: logged_program(folder.path()).await,
            path: std::env::var_os("PATH").expect("a PATH"),
            folders: folder.path().join("operations"),
        });
        let server_side = server_side(&client).await;
        let length = Duration::from_secs(290);
        let (releases, watched) = ReleaseStore::watch(&client, Some(&namespace.name), length);
        let watch = tokio::spawn(watched.changes.for_each(|_| std::future::ready(())));
        releases.wait_until_ready().await.expect("listed");
        Helm {
            engine: engine.await.expect("an engine"),
            token: token.expect("a token"),
            endpoint: ApiEndpoint::from_config(&config),
            server_side,
            namespace,
            releases,
            folder,
            watch,
        }
    }

    pub fn access(&self) -> ReleaseAccess<'_> {
        ReleaseAccess {
            release: ReleaseName {
                namespace: &self.namespace.name,
                name: RELEASE,
            },
            endpoint: &self.endpoint,
            token: &self.token,
        }
    }

    /// Options that this server can do.
    pub fn options(&self) -> UpgradeOptions {
        UpgradeOptions {
            timeout: MINUTE,
            server_side: self.server_side,
            ..UpgradeOptions::default()
        }
    }

    /// Options of an operation that waits for objects.
    pub fn waiting(&self, timeout: Duration) -> UpgradeOptions {
        UpgradeOptions {
            wait: true,
            timeout,
            ..self.options()
        }
    }

    pub async fn upgrade(
        &self,
        chart: &Path,
        values: &str,
        options: &UpgradeOptions,
    ) -> Result<Done, HelmError> {
        let never = CancellationToken::new();
        self.upgrade_until(chart, values, options, &never).await
    }

    /// An upgrade that can be cancelled.
    pub async fn upgrade_until(
        &self,
        chart: &Path,
        values: &str,
        options: &UpgradeOptions,
        cancel: &CancellationToken,
    ) -> Result<Done, HelmError> {
        let access = self.access();
        let upgrade = Upgrade {
            access,
            chart,
            values,
            options,
        };
        self.engine.upgrade(&upgrade, cancel).await
    }

    pub async fn rollback(&self, revision: i64) -> Result<Done, HelmError> {
        let rollback = Rollback {
            access: self.access(),
            revision,
            timeout: MINUTE,
        };
        let never = CancellationToken::new();
        self.engine.rollback(&rollback, &never).await
    }

    /// Rolls back, and whether Helm did it. The library of the tests' program gives Helm no wait
    /// strategy, so only a program of the tester's can run hooks: without it, the call is all that
    /// is checked then.
    pub async fn has_rolled_back(&self, revision: i64) -> bool {
        let done = self.rollback(revision).await;
        assert!(self.asked_for("rollback") && self.asked_for(&revision.to_string()));
        match done {
            Ok(_) => true,
            Err(error) => {
                let is_lacking = error.to_string().contains("wait strategy not set");
                assert!(is_lacking && !is_real_program(), "{error}");
                false
            }
        }
    }

    pub async fn uninstall(&self, wait: bool) -> Result<Done, HelmError> {
        let uninstall = Uninstall {
            access: self.access(),
            timeout: MINUTE,
            wait,
        };
        let never = CancellationToken::new();
        self.engine.uninstall(&uninstall, &never).await
    }

    /// The revisions with their bodies, as the API has them now.
    pub async fn history(&self) -> Vec<Release> {
        let client = &self.namespace.client;
        let history = fetch_history(client, &self.namespace.name, RELEASE).await;
        history.expect("a history")
    }

    /// Numbers and states of the revisions.
    pub async fn states(&self) -> Vec<(i64, ReleaseStatus)> {
        let history = self.history().await;
        let states = history.iter().map(|one| (one.revision, one.status));
        states.collect()
    }

    /// Waits until the watch has seen this state of the last revision; `None`: no revision.
    pub async fn until_state(&self, wanted: Option<ReleaseStatus>) {
        until(&format!("the release is {wanted:?}"), || {
            let latest = self.releases.latest(&self.namespace.name, RELEASE);
            latest.map(|revision| revision.status) == wanted
        })
        .await;
    }

    /// The data and labels of a ConfigMap.
    pub async fn config_map(&self, name: &str) -> Option<(BTreeMap<String, String>, Labels)> {
        let api: Api<ConfigMap> =
            Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        let found = api.get_opt(name).await.expect("an answer")?;
        let labels = found.metadata.labels.unwrap_or_default();
        Some((found.data.unwrap_or_default(), labels))
    }

    pub async fn has_service(&self, name: &str) -> bool {
        let api: Api<Service> =
            Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        api.get_opt(name).await.expect("an answer").is_some()
    }

    /// How Helm was called, oldest call first.
    pub fn calls(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        // A process that still runs may be writing the last line.
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// The process of the last call.
    pub fn last_process(&self) -> i32 {
        let calls = self.calls();
        let number = calls.last().expect("a call")["process"].as_i64();
        i32::try_from(number.expect("a number")).expect("a process")
    }

    /// Whether the last call asked for this flag.
    pub fn asked_for(&self, flag: &str) -> bool {
        let calls = self.calls();
        let arguments = calls.last().expect("a call")["arguments"].clone();
        let arguments = arguments.as_array().expect("a list").clone();
        arguments.iter().any(|argument| argument == flag)
    }

    /// Waits until no process of the last call and no folder of an operation is left.
    pub async fn until_nothing_is_left(&self) {
        let process = PathBuf::from(format!("/proc/{}", self.last_process()));
        let operations = self.folder.path().join("operations");
        until("no process and no folder is left", || {
            let left = fs::read_dir(&operations).expect("a folder").count();
            !process.exists() && left == 0
        })
        .await;
    }

    /// An archive of a chart.
    pub async fn archive(&self, chart: &str) -> PathBuf {
        let archive = self.folder.path().join(format!("{chart}.tgz"));
        let packed = Command::new("tar")
            .arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(charts())
            .arg(chart)
            .status();
        assert!(packed.await.expect("tar").success());
        archive
    }
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

impl Drop for Helm {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The folder of the charts.
pub fn charts() -> PathBuf {
    folder().join("charts")
}

/// Whether it is a program of the tester's, not the one over the library.
pub fn is_real_program() -> bool {
    std::env::var_os("LUDGATE_HELM").is_some_and(|path| !path.is_empty())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/helm")
}

/// Where this server lets Helm compute objects: Helm 4 computes more of an object than old servers
/// can apply.
pub async fn server_side(client: &kube::Client) -> ServerSideApply {
    let version = client.apiserver_version().await.expect("a version");
    // A server that was built from an archive may name no number but this text.
    let minor = version.git_version.split('.').nth(1).expect("a number");
    let minor: u32 = minor.parse().expect("a number");
    match minor < 22 {
        true => ServerSideApply::Client,
        false => ServerSideApply::Auto,
    }
}

/// The program that install.sh prints.
async fn program() -> &'static str {
    static PROGRAM: OnceCell<String> = OnceCell::const_new();
    let installed = PROGRAM.get_or_init(|| async {
        let output = Command::new(folder().join("install.sh")).output().await;
        let output = output.expect("install.sh");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let path = String::from_utf8(output.stdout).expect("a path");
        path.trim().to_owned()
    });
    installed.await
}

/// A script that notes each call and becomes Helm. The engine passes no variables on, so the script
/// has those of the tests. It runs the interpreter itself: a launcher may add variables of its own.
pub async fn logged_program(folder_of_test: &Path) -> PathBuf {
    let script = folder_of_test.join("helm");
    let text = format!(
        "#!/bin/sh\nLUDGATE_TEST_HELM_LOG='{}' LUDGATE_TEST_HELM_PROGRAM='{}' \
         LUDGATE_TEST_HELM_IGNORE='--enable-dns --labels --description --cascade' \
         exec \"$(python3 -c 'import sys; print(sys.executable)')\" -B '{}' \"$@\"\n",
        folder_of_test.join("calls").display(),
        program().await,
        folder().join("logged.py").display(),
    );
    fs::write(folder_of_test.join("text"), text).expect("written");
    // A file that any process has open for writing cannot be run, and what this process has open
    // may be inherited by one that another test starts. So a process of its own writes it.
    let arguments: [OsString; 2] = ["-c".into(), "cp text helm && chmod 755 helm".into()];
    let copied = Command::new("sh")
        .args(arguments)
        .current_dir(folder_of_test)
        .status();
    assert!(copied.await.expect("a shell").success());
    script
}
