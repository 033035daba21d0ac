//! Files that other programs replace while the gateway runs: certificates, session keys, the
//! handoff file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    gateway::Gateway,
    listener::{metrics::ListenerMetrics, tls::Certificates},
    model::clock::Clock,
    session::{handoff_file::HandoffFile, keys::KeyRing},
};

/// Files that may change are looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes what a process before has left, if there is something.
pub(super) fn take_over(gateway: &Gateway, file: &Path, keys: &KeyRing) {
    let wall_seconds = gateway.clock.wall_seconds();
    match HandoffFile::new(file, keys).restore(&gateway.sessions.store, wall_seconds) {
        Ok(None) => {}
        Ok(Some(sign_ins)) => tracing::info!(sign_ins, "restored sessions from the handoff file"),
        Err(error) => {
            tracing::error!(%error, file = %file.display(), "cannot read the session handoff file");
        }
    }
}

/// The process before may stop only after this one has begun.
pub(super) async fn keep_taking_over(gateway: Arc<Gateway>, file: PathBuf, keys: Arc<KeyRing>) {
    loop {
        gateway.clock.sleep(LOOK_EVERY).await;
        take_over(&gateway, &file, &keys);
    }
}

/// Looks at the file of the keys again and again, as at those of certificates.
pub(super) async fn renew_keys(keys: Arc<KeyRing>, clock: Clock) {
    loop {
        clock.sleep(LOOK_EVERY).await;
        match keys.renew() {
            Ok(false) => {}
            Ok(true) => tracing::info!("reloaded the session keys"),
            Err(error) => {
                tracing::warn!(%error, "cannot load the changed session keys; the old ones stay in use")
            }
        }
    }
}

/// Looks at the files of the certificates again and again. They are few and small, and looking
/// works wherever they come from; being told would not (a Secret that Kubernetes mounts is swapped
/// as a link, a network's file by nobody here).
pub(super) async fn renew(
    certificates: Arc<Certificates>,
    clock: Clock,
    metrics: Arc<ListenerMetrics>,
) {
    metrics.certificates_fine.set(1);
    loop {
        clock.sleep(LOOK_EVERY).await;
        match certificates.renew() {
            Ok(false) => {}
            Ok(true) => {
                metrics.certificates_fine.set(1);
                tracing::info!("reloaded the certificates");
            }
            Err(error) => {
                metrics.certificates_fine.set(0);
                tracing::warn!(%error, "cannot load the changed certificates; the old ones stay in use");
            }
        }
    }
}
