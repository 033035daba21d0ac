//! Processes of git: what they are given, and that none is left.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use futures_util::{StreamExt, stream};
use ludgate_installs::source::{
    ChartSource, GitRevision, SourceErrorClass, SourceSettings, download,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{
    BASIC, PASSWORD, fetch, git_password,
    git_repository::GitRepository,
    git_server::GitServer,
    http_server::{FakeServer, answer},
    names_in, settings,
};

fn source(remote: &str) -> ChartSource {
    ChartSource::Git {
        remote: remote.to_owned(),
        revision: GitRevision::Branch("main".to_owned()),
        path: String::new(),
    }
}

/// A program `git` that records its arguments and the names of its variables.
fn recorded_git(folder: &Path, log: &Path) {
    let script = format!(
        "#!/bin/sh\n{{ printf '%s\\n' \"$*\"; env | sed 's/=.*//'; }} >> '{}'\n\
         exec /usr/bin/git \"$@\"\n",
        log.display()
    );
    let path = folder.join("git");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

#[tokio::test]
async fn no_argument_has_a_secret_and_no_variable_is_inherited() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    repository.commit();
    let server = GitServer::start_with_password(repository.served()).await;
    let programs = tempfile::tempdir().expect("a folder");
    let log = programs.path().join("log");
    recorded_git(programs.path(), &log);
    let mut recording: SourceSettings = settings();
    let path = programs.path().display();
    recording.git.path = format!("{path}:{}", recording.git.path);
    fetch(&source(&server.remote()), &git_password(), &recording)
        .await
        .chart();
    let log = fs::read_to_string(log).expect("a log");
    assert!(
        log.contains("fetch -q --no-tags --depth=1 --end-of-options"),
        "{log}"
    );
    for secret in [PASSWORD, BASIC.trim_start_matches("Basic ")] {
        assert!(!log.contains(secret), "{log}");
    }
    let expected = ["PATH", "HOME", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"];
    let is_variable = |line: &&str| !line.contains(' ') && *line == line.to_uppercase();
    for name in log.lines().filter(is_variable) {
        assert!(
            name.starts_with("GIT_") || expected.contains(&name),
            "{name} is inherited"
        );
    }
}

/// A git server that begins to answer and then stops, and tells when it does.
async fn hanging_server(asked: std::sync::Arc<Notify>) -> FakeServer {
    FakeServer::start(move |_, _| {
        asked.notify_one();
        let start = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(
            b"001e# service",
        ))]);
        let headers = [(
            "Content-Type",
            "application/x-git-upload-pack-advertisement",
        )];
        answer(
            200,
            &headers,
            Body::from_stream(start.chain(stream::pending())),
        )
    })
    .await
}

/// Whether a process has this folder in its arguments.
fn is_used_by_a_process(folder: &Path) -> bool {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc").expect("a list of processes");
    processes.filter_map(Result::ok).any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(&folder)
    })
}

#[tokio::test]
async fn a_cancelled_download_leaves_no_process_and_no_file() {
    let asked = std::sync::Arc::new(Notify::new());
    let server = hanging_server(asked.clone()).await;
    let source = source(&format!("http://{}/charts", server.address));
    let folder = tempfile::tempdir().expect("a folder");
    let cancel = CancellationToken::new();
    let (credentials, settings) = (git_password(), settings());
    let running = download(&source, &credentials, &settings, folder.path(), &cancel);
    let cancelling = async {
        asked.notified().await;
        assert!(is_used_by_a_process(folder.path()), "git runs");
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(running, cancelling);
    let error = result.expect_err("cancelled");
    assert_eq!(error.class(), SourceErrorClass::Cancelled);
    assert_eq!(names_in(folder.path()), [""; 0]);
    // The kernel ends killed processes in its own time.
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_used_by_a_process(folder.path()) {
        assert!(Instant::now() < deadline, "git was killed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_transfer_that_stops_is_given_up() {
    let server = hanging_server(std::sync::Arc::default()).await;
    let mut hasty = settings();
    hasty.git.stall_seconds = 1;
    let remote = format!("http://{}/charts", server.address);
    let finished = fetch(&source(&remote), &git_password(), &hasty).await;
    let (class, message) = finished.error();
    assert_eq!(class, SourceErrorClass::Transient, "{message}");
    assert!(message.contains("git failed"), "{message}");
    assert!(
        !message.contains("did not end"),
        "git itself has given up: {message}"
    );
}

#[tokio::test]
async fn without_git_the_message_says_so() {
    let mut without = settings();
    without.git.path = "/nonexistent".to_owned();
    let finished = fetch(
        &source("http://127.0.0.1:1/charts"),
        &git_password(),
        &without,
    )
    .await;
    let (class, message) = finished.error();
    assert_eq!(class, SourceErrorClass::Transient);
    assert!(message.starts_with("cannot start git: "), "{message}");
}
