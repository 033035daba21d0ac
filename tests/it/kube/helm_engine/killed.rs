//! Helm is killed in the middle of each operation: what stays behind, and what repairs it.

use std::path::PathBuf;

use ludgate_installs::{
    helm::{
        engine::Done,
        outcome::{FailureClass, HelmError},
    },
    release::ReleaseStatus::{
        self, Deployed, PendingInstall, PendingRollback, PendingUpgrade, Uninstalling,
    },
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::helm::{Helm, charts};

fn chart() -> PathBuf {
    charts().join("hooks")
}

/// Runs an operation, and kills Helm when the release has this state.
async fn kill_when(
    helm: &Helm,
    state: ReleaseStatus,
    operation: impl Future<Output = Result<Done, HelmError>>,
) {
    let killing = async {
        helm.until_state(Some(state)).await;
        let leader = Pid::from_raw(helm.last_process()).expect("a process");
        kill_process_group(leader, Signal::KILL).expect("killed");
    };
    let (ended, ()) = tokio::join!(operation, killing);
    let error = ended.expect_err("killed");
    assert_eq!(error.class, FailureClass::Other, "{error}");
    assert!(error.message.contains("SIGKILL"), "{error}");
    helm.until_nothing_is_left().await;
    let states = helm.states().await;
    assert_eq!(
        states.last().map(|(_, state)| *state),
        Some(state),
        "{states:?}"
    );
}

/// Tries an upgrade, which this failure refuses.
async fn assert_refused(helm: &Helm, class: FailureClass) {
    let refused = helm.upgrade(&chart(), "{}", &helm.options()).await;
    let refused = refused.expect_err("it is locked");
    assert_eq!(refused.class, class, "{refused}");
}

async fn text(helm: &Helm) -> Option<String> {
    let (data, _) = helm.config_map("hooked").await?;
    data.get("text").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_installation_is_removed_and_installed_again() {
    let helm = Helm::start().await;
    let (chart, options) = (chart(), helm.options());
    let install = helm.upgrade(&chart, "hook: pre-install", &options);
    kill_when(&helm, PendingInstall, install).await;
    assert_refused(&helm, FailureClass::AnotherOperation).await;
    helm.uninstall(false).await.expect("uninstalled");
    helm.upgrade(&chart, "{}", &options)
        .await
        .expect("installed");
    assert_eq!(helm.states().await, [(1, Deployed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_upgrade_goes_back() {
    let helm = Helm::start().await;
    let (chart, options) = (chart(), helm.options());
    helm.upgrade(&chart, "{}", &options)
        .await
        .expect("installed");
    let upgrade = helm.upgrade(&chart, "hook: pre-upgrade\ntext: two", &options);
    kill_when(&helm, PendingUpgrade, upgrade).await;
    assert_refused(&helm, FailureClass::AnotherOperation).await;
    if !helm.has_rolled_back(1).await {
        return;
    }
    let states = helm.states().await;
    assert_eq!(states.last(), Some(&(3, Deployed)), "{states:?}");
    assert_eq!(text(&helm).await.as_deref(), Some("one"));
    helm.upgrade(&chart, "text: two", &options)
        .await
        .expect("upgraded");
    assert_eq!(text(&helm).await.as_deref(), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_rollback_goes_to_the_newest_revision_that_was_in_use() {
    let helm = Helm::start().await;
    let (chart, options) = (chart(), helm.options());
    let first = helm.upgrade(&chart, "hook: pre-rollback", &options).await;
    first.expect("installed");
    helm.upgrade(&chart, "text: two", &options)
        .await
        .expect("upgraded");
    kill_when(&helm, PendingRollback, helm.rollback(1)).await;
    assert_refused(&helm, FailureClass::AnotherOperation).await;
    if !helm.has_rolled_back(2).await {
        return;
    }
    let states = helm.states().await;
    assert_eq!(states.last(), Some(&(4, Deployed)), "{states:?}");
    assert_eq!(text(&helm).await.as_deref(), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_removal_is_repeated() {
    let helm = Helm::start().await;
    let (chart, options) = (chart(), helm.options());
    let held = "finalizer: example.com/hold";
    helm.upgrade(&chart, held, &options)
        .await
        .expect("installed");
    kill_when(&helm, Uninstalling, helm.uninstall(true)).await;
    assert_refused(&helm, FailureClass::NoDeployedReleases).await;
    let free = r#"{"metadata":{"finalizers":null}}"#;
    let arguments = ["patch", "configmap", "hooked", "--type=merge", "-p", free];
    helm.namespace.kubectl(&arguments, "").await;
    helm.uninstall(true).await.expect("uninstalled");
    assert_eq!((helm.states().await, text(&helm).await), (vec![], None));
}
