//! Wires the file servers beside the labs.

use tokio_util::sync::CancellationToken;

use crate::{
    labs::service::{file_servers::FileOperations, lab_service::LabService},
    ops::process::Process,
};

/// Watches file servers until the process drains. What is not configured is not watched.
pub(super) fn start_files(labs: &LabService, process: &Process) -> FileOperations {
    let services = labs.file_services();
    let operations = services.operations();
    let shutdown = CancellationToken::new();
    // The task keeps the process until it has ended, so that the lease is released.
    let (token, watcher) = (shutdown.clone(), process.drain.watcher());
    tokio::spawn(async move {
        services.run(token).await;
        drop(watcher);
    });
    let mut drain = process.drain.watcher();
    tokio::spawn(async move {
        drain.stopping().await;
        shutdown.cancel();
    });
    operations
}
