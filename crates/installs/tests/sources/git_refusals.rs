//! What is not fetched from git, and what is not taken from it.

use std::os::unix::fs::symlink;

use ludgate_installs::source::{ChartSource, Credentials, GitLogin, GitRevision, SourceErrorClass};
use ludgate_model::secret::Secret;

use crate::support::{
    PASSWORD, fetch, git_password,
    git_repository::GitRepository,
    git_server::GitServer,
    http_server::{FakeServer, answer},
    settings,
};

fn source(remote: &str, branch: &str, path: &str) -> ChartSource {
    ChartSource::Git {
        remote: remote.to_owned(),
        revision: GitRevision::Branch(branch.to_owned()),
        path: path.to_owned(),
    }
}

fn token(text: &str) -> Credentials {
    Credentials {
        git: GitLogin::Token(Secret::new(text)),
        ..Credentials::default()
    }
}

#[tokio::test]
async fn other_transports_start_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("started");
    let helper = format!("ext::touch% {}", mark.display());
    for (remote, wanted) in [
        (helper.as_str(), "transport 'ext' not allowed"),
        ("file:///srv/charts", "transport 'file' not allowed"),
        ("git://127.0.0.1/charts", "transport 'git' not allowed"),
        (
            "/srv/charts",
            "the git remote must begin with https:// or ssh://",
        ),
        (
            "--upload-pack=touch",
            "the git remote must not begin with \"-\"",
        ),
        (
            "https://user:pass@127.0.0.1/charts",
            "the git remote must have no password",
        ),
    ] {
        let source = source(remote, "main", "");
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().starts_with(wanted),
            "{remote}: {:?}",
            finished.result
        );
    }
    assert!(!mark.exists());
}

#[tokio::test]
async fn remotes_and_paths_inside_the_cluster_or_outside_the_repository_are_refused() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    repository.commit();
    let server = GitServer::start(repository.served()).await;
    let remote = server.remote();
    for (remote, path, wanted) in [
        ("http://10.0.0.1/charts", "", "not allowed for sources"),
        (
            "http://169.254.169.254/charts",
            "",
            "not allowed for sources",
        ),
        ("ssh://git@10.0.0.1/charts", "", "not allowed for sources"),
        (remote.as_str(), "../x", "must not have \"..\""),
        (remote.as_str(), "a/../../x", "must not have \"..\""),
        (remote.as_str(), "nothing", "has no folder \"nothing\""),
        (remote.as_str(), "templates", "has no Chart.yaml"),
        (remote.as_str(), "Chart.yaml", "is not a folder"),
    ] {
        let source = source(remote, "main", path);
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains(wanted),
            "{path}: {:?}",
            finished.result
        );
    }
}

#[tokio::test]
async fn links_and_submodules_are_refused_where_they_are_used() {
    let repository = GitRepository::new();
    repository.write_chart("good", "good", "1.0.0");
    repository.write_chart("linked", "linked", "1.0.0");
    repository.write_chart("nested", "nested", "1.0.0");
    let link = repository.path().join("linked/templates/passwd");
    symlink("/etc/passwd", link).expect("a link");
    let commit = repository.commit();
    let submodule = format!("160000,{commit},nested/module");
    repository.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    repository.git(&["commit", "-q", "-m", "a submodule"]);
    let server = GitServer::start(repository.served()).await;
    for (path, wanted) in [
        ("linked", "\"linked/templates/passwd\" is a symbolic link"),
        ("nested", "\"nested/module\" is a submodule"),
        ("", "which is not allowed"),
    ] {
        let source = source(&server.remote(), "main", path);
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert!(
            finished.refusal().contains(wanted),
            "{path}: {:?}",
            finished.result
        );
    }
    let good = source(&server.remote(), "main", "good");
    fetch(&good, &Credentials::default(), &settings())
        .await
        .chart();
}

#[tokio::test]
async fn revisions_that_are_not_there_are_named() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    let first = repository.commit();
    repository.git(&["checkout", "-q", "-b", "other"]);
    let elsewhere = repository.commit();
    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["branch", "-q", "gone"]);
    repository.git(&["branch", "-q", "-D", "gone"]);
    let blob = repository.git(&["rev-parse", "HEAD:Chart.yaml"]);
    repository.git(&["tag", "blob", &blob]);
    let server = GitServer::start(repository.served()).await;
    let commit = |branch: &str, commit: &str| GitRevision::Commit {
        branch: branch.to_owned(),
        commit: commit.to_owned(),
    };
    let unknown = "0123456789".repeat(4);
    for (revision, wanted) in [
        (
            GitRevision::Branch("gone".to_owned()),
            "the remote has no branch \"gone\"",
        ),
        (
            GitRevision::Tag("v1".to_owned()),
            "the remote has no tag \"v1\"",
        ),
        (
            GitRevision::Tag("blob".to_owned()),
            "the tag is not that of a commit",
        ),
        (commit("gone", &first), "the remote has no branch \"gone\""),
        (commit("main", &elsewhere), "commit is not in branch main"),
        (commit("main", &unknown), "commit is not in branch main"),
        (commit("main", "abc"), "\"abc\" is no commit"),
        (
            GitRevision::Branch("-x".to_owned()),
            "\"-x\" is no name of a branch or tag",
        ),
    ] {
        let source = ChartSource::Git {
            remote: server.remote(),
            revision,
            path: String::new(),
        };
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert_eq!(finished.refusal(), wanted, "{source:?}");
    }
}

#[tokio::test]
async fn wrong_credentials_are_one_short_message() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    repository.commit();
    let server = GitServer::start_with_password(repository.served()).await;
    for credentials in [Credentials::default(), token("canary-token")] {
        let source = source(&server.remote(), "main", "");
        let finished = fetch(&source, &credentials, &settings()).await;
        assert_eq!(finished.refusal(), "authentication failed");
    }
    let sent: Vec<String> = server.seen().iter().map(|it| it.authorization()).collect();
    assert!(sent.contains(&"Bearer canary-token".to_owned()), "{sent:?}");
}

#[tokio::test]
async fn redirects_are_not_followed_and_get_no_password() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    repository.commit();
    let real = GitServer::start(repository.served()).await;
    let to = real.remote();
    let server = FakeServer::start(move |request, _| {
        let target = request.target.trim_start_matches("/charts");
        answer(302, &[("Location", format!("{to}{target}").as_str())], "")
    })
    .await;
    let remote = format!("http://{}/charts", server.address);
    let finished = fetch(&source(&remote, "main", ""), &git_password(), &settings()).await;
    assert_eq!(
        finished.refusal(),
        "the git server redirects, which is not followed"
    );
    assert!(real.seen().is_empty());
}

#[tokio::test]
async fn servers_that_fail_are_tried_again_later_without_a_secret_in_the_message() {
    let server = FakeServer::start(|request, _| match request.authorization().is_empty() {
        true => answer(401, &[("WWW-Authenticate", "Basic realm=\"git\"")], ""),
        false => answer(503, &[], PASSWORD),
    })
    .await;
    let remote = format!("http://{}/charts", server.address);
    let finished = fetch(&source(&remote, "main", ""), &git_password(), &settings()).await;
    let (class, message) = finished.error();
    assert_eq!(class, SourceErrorClass::Transient, "{message}");
    assert!(
        message.contains("503") && !message.contains(PASSWORD),
        "{message}"
    );
}

#[tokio::test]
async fn large_files_and_large_packs_are_refused() {
    let repository = GitRepository::new();
    repository.write_chart("", "a", "1.0.0");
    // 200 MiB that git packs well.
    let zeros = std::fs::File::create(repository.path().join("zeros")).expect("a file");
    zeros.set_len(200 << 20).expect("space");
    repository.commit();
    repository.git(&["checkout", "-q", "-b", "noise"]);
    let noise = noise(2 << 20);
    std::fs::write(repository.path().join("noise"), noise).expect("written");
    repository.commit();
    let server = GitServer::start(repository.served()).await;
    let main = source(&server.remote(), "main", "");
    let finished = fetch(&main, &Credentials::default(), &settings()).await;
    assert_eq!(
        finished.refusal(),
        "the chart's folder has too many or too large files"
    );
    let mut small = settings();
    small.limits.repository_bytes = 1 << 20;
    let noise = source(&server.remote(), "noise", "");
    let finished = fetch(&noise, &Credentials::default(), &small).await;
    assert_eq!(
        finished.refusal(),
        "the repository is too large, or has invalid objects"
    );
    let mut few = settings();
    few.limits.entries = 2;
    let finished = fetch(&main, &Credentials::default(), &few).await;
    assert_eq!(
        finished.refusal(),
        "the chart's folder has too many or too large files"
    );
}

/// Bytes that cannot be packed: the numbers of a linear congruential generator.
fn noise(length: usize) -> Vec<u8> {
    let mut state: u64 = 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
