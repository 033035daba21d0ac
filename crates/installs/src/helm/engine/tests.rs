//! The engine with a shell script for Helm, which writes down how it was called.

use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;

/// A script, and the folder in which it notes its arguments and its environment.
struct Script {
    folder: TempDir,
    endpoint: ApiEndpoint,
    token: Secret,
}

impl Script {
    /// `then` is run by all commands but `version`.
    fn new(version: &str, then: &str) -> Script {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = folder.path().display();
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = version ]; then echo {version}; exit; fi\n\
             printf '%s\\n' \"$@\" > {notes}/arguments\n/usr/bin/env > {notes}/environment\n\
             cp \"$KUBECONFIG\" {notes}/kubeconfig\npwd > {notes}/folder\n{then}\n"
        );
        fs::write(folder.path().join("text"), text).expect("written");
        // A file that any process has open for writing cannot be run, and what this process has
        // open may be inherited by one that another test starts. So a process of its own writes it.
        let copied = std::process::Command::new("sh")
            .args(["-c", "cp text helm.sh && chmod 755 helm.sh"])
            .current_dir(folder.path())
            .status();
        assert!(copied.expect("a shell").success());
        let start = folder.path().join("operations");
        fs::create_dir(start).expect("made");
        Script {
            folder,
            endpoint: ApiEndpoint {
                server: "https://10.0.0.1/".to_owned(),
                ca: None,
                tls_server_name: None,
            },
            token: Secret::new("t0ken-of-the-account"),
        }
    }

    fn operations(&self) -> PathBuf {
        self.folder.path().join("operations")
    }

    async fn engine(&self) -> Result<Engine, HelmError> {
        Engine::new(EngineSettings {
            helm: self.folder.path().join("helm.sh"),
            path: "/usr/bin:/bin".into(),
            folders: self.operations(),
        })
        .await
    }

    fn access(&self) -> ReleaseAccess<'_> {
        ReleaseAccess {
            release: ReleaseName {
                namespace: "target",
                name: "app",
            },
            endpoint: &self.endpoint,
            token: &self.token,
        }
    }

    fn note(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("it was called")
    }
}

fn upgrade<'a>(access: ReleaseAccess<'a>, options: &'a UpgradeOptions) -> Upgrade<'a> {
    Upgrade {
        access,
        chart: Path::new("/charts/a.tgz"),
        values: "password: s3cret-value",
        options,
    }
}

#[tokio::test]
async fn an_operation_has_its_own_folder_and_environment_and_no_secret_in_both() {
    let script = Script::new("v4.3.0", "cp \"$8\" ../../values");
    let engine = script.engine().await.expect("an engine");
    assert_eq!(engine.version(), HelmVersion::new(4, 3, 0));
    let options = UpgradeOptions::default();
    let cancel = CancellationToken::new();
    let done = engine
        .upgrade(&upgrade(script.access(), &options), &cancel)
        .await;
    assert!(done.is_ok(), "{done:?}");
    let (arguments, environment) = (script.note("arguments"), script.note("environment"));
    assert!(
        arguments.starts_with("upgrade\napp\n/charts/a.tgz\n--install\n"),
        "{arguments}"
    );
    for secret in ["s3cret", "t0ken"] {
        assert!(
            !arguments.contains(secret) && !environment.contains(secret),
            "{secret}"
        );
    }
    assert!(script.note("kubeconfig").contains("t0ken-of-the-account"));
    assert_eq!(script.note("values"), "password: s3cret-value");
    let mut names: Vec<&str> = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        // The shell's own.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    let own = OperationFolder::create(&script.operations(), "", None).expect("made");
    let variables = own.variables("".as_ref());
    let mut expected: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    let folder = script.note("folder");
    let folder = Path::new(folder.trim());
    assert_eq!(folder.parent(), Some(script.operations().as_path()));
    assert!(!folder.exists(), "it is deleted");
    let mode = fs::metadata(own.root())
        .expect("a folder")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_failure_has_its_class_and_no_secret() {
    let script = Script::new(
        "v3.18.0",
        "echo 'Error: another operation (install/upgrade/rollback) is in progress: \
         t0ken-of-the-account' >&2; exit 1",
    );
    let engine = script.engine().await.expect("an engine");
    let rollback = Rollback {
        access: script.access(),
        revision: 3,
        timeout: Duration::from_secs(60),
    };
    let failed = engine.rollback(&rollback, &CancellationToken::new()).await;
    let failed = failed.expect_err("it fails");
    assert_eq!(failed.class, FailureClass::AnotherOperation);
    assert!(
        failed.message.ends_with("in progress: [redacted]"),
        "{failed}"
    );
    assert_eq!(
        script.note("arguments"),
        "rollback\napp\n3\n--namespace\ntarget\n--timeout\n60s\n"
    );
}

#[tokio::test]
async fn a_cancelled_operation_leaves_no_folder_and_a_later_one_is_not_started() {
    let script = Script::new("v4.3.0", "exec sleep 600");
    let engine = script.engine().await.expect("an engine");
    let uninstall = Uninstall {
        access: script.access(),
        timeout: Duration::from_secs(60),
        wait: false,
    };
    let cancel = CancellationToken::new();
    let noted = script.folder.path().join("folder");
    let cancelling = async {
        while !noted.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cancel.cancel();
    };
    let (failed, ()) = tokio::join!(engine.uninstall(&uninstall, &cancel), cancelling);
    let failed = failed.expect_err("cancelled");
    assert_eq!(failed.class, FailureClass::Cancelled);
    let left = fs::read_dir(script.operations()).expect("a folder").count();
    assert_eq!(left, 0);
    fs::remove_file(&noted).expect("it was called");
    let again = engine.uninstall(&uninstall, &cancel).await;
    assert_eq!(again.expect_err("cancelled").class, FailureClass::Cancelled);
    assert!(!noted.exists());
}

#[tokio::test]
async fn unknown_programs_and_invalid_names_are_refused_before_anything_runs() {
    let old = Script::new("v2.17.0", "").engine().await;
    assert!(
        old.expect_err("too old")
            .message
            .starts_with("Helm 2.17.0 cannot")
    );
    let script = Script::new("v3.16.0", "");
    let engine = script.engine().await.expect("an engine");
    let cancel = CancellationToken::new();
    let mut access = script.access();
    access.release.name = "--kubeconfig=x";
    let uninstall = Uninstall {
        access,
        timeout: Duration::from_secs(60),
        wait: false,
    };
    assert!(engine.uninstall(&uninstall, &cancel).await.is_err());
    let rollback = Rollback {
        access: script.access(),
        revision: -1,
        timeout: Duration::from_secs(60),
    };
    assert!(engine.rollback(&rollback, &cancel).await.is_err());
    let options = UpgradeOptions {
        take_ownership: true,
        ..UpgradeOptions::default()
    };
    let adopting = engine
        .upgrade(&upgrade(script.access(), &options), &cancel)
        .await;
    assert!(adopting.expect_err("too old").message.contains("3.17"));
    let options = UpgradeOptions::default();
    let relative = Upgrade {
        chart: Path::new("a.tgz"),
        ..upgrade(script.access(), &options)
    };
    assert!(engine.upgrade(&relative, &cancel).await.is_err());
    assert!(!script.folder.path().join("arguments").exists());
    let settings = EngineSettings {
        helm: "helm".into(),
        path: "".into(),
        folders: script.operations(),
    };
    assert!(Engine::new(settings).await.is_err());
}

#[tokio::test]
async fn a_process_has_limits() {
    let limits = "{ ulimit -v; ulimit -t; ulimit -c; } > ../../limits";
    let script = Script::new("v4.3.0", limits);
    let engine = script.engine().await.expect("an engine");
    let options = UpgradeOptions::default();
    let done = engine
        .upgrade(
            &upgrade(script.access(), &options),
            &CancellationToken::new(),
        )
        .await;
    assert!(done.is_ok(), "{done:?}");
    let wanted = format!("{}\n{CPU_SECONDS}\n0\n", ADDRESS_SPACE / 1024);
    assert_eq!(script.note("limits"), wanted);
}
