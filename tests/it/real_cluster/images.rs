//! Images that tests make and load into the cluster, which has no network to pull them.

use std::path::Path;

use tokio::process::Command;

use crate::support::process::program;

/// Runs a script of `tests/real/kube/cluster`, and returns what it prints.
async fn run(script: &str, arguments: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/kube/cluster");
    let command = Command::new(folder.join(script))
        .args(arguments)
        .output()
        .await;
    let output = command.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Loads the program, as an image of this name.
pub async fn load_ludgate_image(name: &str) {
    let program = program();
    run("ludgate_image.sh", &[&program.to_string_lossy(), name]).await;
}

/// Loads an image of this name that serves a page in place of MLflow.
pub async fn load_mlflow_image(name: &str) {
    run("mlflow_image.sh", &[name]).await;
}

/// Loads an image of this name with the file browser cloudcmd, once in a cluster.
pub async fn load_cloudcmd_image(name: &str) {
    run("cloudcmd_image.sh", &[name]).await;
}

/// Loads an image of this name in place of one with JupyterLab, and returns its digest, by which
/// pods ask for it.
pub async fn load_notebook_image(name: &str) -> String {
    run("notebook_image.sh", &[name]).await
}
