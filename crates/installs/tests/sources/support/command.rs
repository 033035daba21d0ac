//! Programs that tests start, without the environment of the developer.

use std::{path::Path, process::Command};

/// `PATH` of all programs of the tests.
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A program that inherits nothing.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

/// Runs git in a folder, and returns what it prints.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = program("git");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Test");
        command.env(format!("GIT_{role}_EMAIL"), "test@example.com");
        command.env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
    }
    let output = command.arg("-C").arg(folder).args(arguments).output();
    let output = output.expect("git is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}
