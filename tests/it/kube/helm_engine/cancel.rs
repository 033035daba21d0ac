//! Operations that are cancelled, or whose caller goes away.

use std::time::{Duration, Instant};

use ludgate_installs::{
    helm::outcome::FailureClass,
    release::ReleaseStatus::{Failed, PendingInstall},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    helm::{Helm, charts, is_real_program},
    until::{assert_soon, until_async},
};

const NEVER_READY: &str = "deployService: true\ndeployClaim: true\n";
/// A person who deletes an installation must not wait for its objects.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_installation_is_cancelled_within_two_seconds_and_removed() {
    let helm = Helm::start().await;
    let chart = charts().join("example-0.2.0");
    let options = helm.waiting(Duration::from_secs(300));
    let cancel = CancellationToken::new();
    let installing = helm.upgrade_until(&chart, NEVER_READY, &options, &cancel);
    let cancelling = async {
        helm.until_state(Some(PendingInstall)).await;
        let is_made = async || helm.has_service("svc-1").await;
        until_async("the objects are made", is_made).await;
        cancel.cancel();
        Instant::now()
    };
    let (ended, cancelled) = tokio::join!(installing, cancelling);
    assert_soon(AT_ONCE, cancelled.elapsed());
    let error = ended.expect_err("cancelled");
    assert_eq!(error.class, FailureClass::Cancelled, "{error}");
    helm.until_nothing_is_left().await;
    // The program marks the release before it ends; the one over the library cannot.
    let state = match is_real_program() {
        true => Failed,
        false => PendingInstall,
    };
    assert_eq!(helm.states().await, [(1, state)]);
    helm.uninstall(false).await.expect("uninstalled");
    helm.until_state(None).await;
    assert!(!helm.has_service("svc-1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_and_no_file_is_left_when_the_caller_goes_away() {
    let helm = Helm::start().await;
    let chart = charts().join("example-0.2.0");
    let options = helm.waiting(Duration::from_secs(300));
    tokio::select! {
        ended = helm.upgrade(&chart, NEVER_READY, &options) => panic!("it ended: {ended:?}"),
        () = helm.until_state(Some(PendingInstall)) => {}
    }
    helm.until_nothing_is_left().await;
    assert!(helm.releases.is_unfinished(&helm.namespace.name, "local"));
    helm.uninstall(false).await.expect("uninstalled");
    helm.until_state(None).await;
}
