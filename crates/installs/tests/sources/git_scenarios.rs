//! Charts from branches, tags and commits, by HTTP with and without a password, and by ssh.

use ludgate_installs::source::{ChartSource, Credentials, GitLogin, GitRevision, HostKeys};
use ludgate_model::secret::Secret;

use crate::support::{
    fetch, git_password, git_repository::GitRepository, git_server::GitServer, settings,
    ssh_server::SshServer,
};

/// A repository with two commits on `main`, one more on `feature`, and an annotated tag.
struct Scenario {
    repository: GitRepository,
    first: String,
    second: String,
    feature: String,
}

impl Scenario {
    fn new() -> Scenario {
        let repository = GitRepository::new();
        let commit = |version: &str| {
            repository.write_chart("", "root-chart", version);
            repository.write_chart("subdir", "sub-chart", version);
            repository.commit()
        };
        let first = commit("1.0.0");
        repository.git(&["tag", "-a", "-m", "a release", "v1"]);
        let second = commit("2.0.0");
        repository.git(&["checkout", "-q", "-b", "feature"]);
        let feature = commit("3.0.0");
        repository.git(&["checkout", "-q", "main"]);
        Scenario {
            repository,
            first,
            second,
            feature,
        }
    }

    /// The revisions, each with its commit and the version of its charts.
    fn revisions(&self) -> [(GitRevision, &str, &str); 3] {
        let commit = GitRevision::Commit {
            branch: "main".to_owned(),
            commit: self.first.clone(),
        };
        [
            (
                GitRevision::Branch("feature".to_owned()),
                &self.feature,
                "3.0.0",
            ),
            (GitRevision::Tag("v1".to_owned()), &self.first, "1.0.0"),
            (commit, &self.first, "1.0.0"),
        ]
    }

    /// Each revision with each of the paths.
    async fn check(&self, remote: &str, paths: &[&str], credentials: &Credentials) {
        for (revision, commit, version) in self.revisions() {
            for path in paths {
                let source = ChartSource::Git {
                    remote: remote.to_owned(),
                    revision: revision.clone(),
                    path: (*path).to_owned(),
                };
                let finished = fetch(&source, credentials, &settings()).await;
                let chart = finished.chart();
                let name = match *path {
                    "subdir" => "sub-chart",
                    _ => "root-chart",
                };
                assert_eq!(
                    (chart.name.as_str(), chart.version.as_str()),
                    (name, version)
                );
                assert_eq!(chart.commit.as_deref(), Some(commit), "{source:?}");
            }
        }
    }
}

/// Nine cases.
#[tokio::test]
async fn by_http() {
    let scenario = Scenario::new();
    let server = GitServer::start(scenario.repository.served()).await;
    let paths = ["", "/", "subdir"];
    scenario
        .check(&server.remote(), &paths, &Credentials::default())
        .await;
    for request in server.seen() {
        assert_eq!(request.authorization(), "");
    }
}

/// Three cases.
#[tokio::test]
async fn by_http_with_a_password() {
    let scenario = Scenario::new();
    let server = GitServer::start_with_password(scenario.repository.served()).await;
    scenario
        .check(&server.remote(), &[""], &git_password())
        .await;
}

/// Nine cases.
#[tokio::test]
async fn by_ssh() {
    let scenario = Scenario::new();
    let server = SshServer::start();
    let remote = server.remote(&scenario.repository.path());
    let credentials = Credentials {
        git: GitLogin::SshKey(Secret::new(server.key("client"))),
        host_keys: HostKeys::Known(server.known_host("host")),
        ..Credentials::default()
    };
    scenario
        .check(&remote, &["", "/", "subdir"], &credentials)
        .await;
}

#[tokio::test]
async fn the_last_commit_of_a_branch_is_fetched_without_its_history() {
    let scenario = Scenario::new();
    let server = GitServer::start(scenario.repository.served()).await;
    for (commit, is_shallow) in [(&scenario.second, true), (&scenario.first, false)] {
        let before = server.seen().len();
        let source = ChartSource::Git {
            remote: server.remote(),
            revision: GitRevision::Commit {
                branch: "main".to_owned(),
                commit: commit.clone(),
            },
            path: String::new(),
        };
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        assert_eq!(finished.chart().commit.as_ref(), Some(commit));
        let requests = server.seen().split_off(before);
        let wants_one = |body: &[u8]| String::from_utf8_lossy(body).contains("deepen 1");
        let found = requests.iter().any(|request| wants_one(&request.body));
        assert_eq!(found, is_shallow, "{commit}");
    }
}

#[tokio::test]
async fn the_digest_depends_on_the_files_only() {
    let digest = async |message: &str| {
        let repository = GitRepository::new();
        repository.write("README", message);
        repository.commit();
        repository.write_chart("chart", "a", "1.0.0");
        repository.commit();
        let server = GitServer::start(repository.served()).await;
        let source = ChartSource::Git {
            remote: server.remote(),
            revision: GitRevision::Branch("main".to_owned()),
            path: "chart".to_owned(),
        };
        let finished = fetch(&source, &Credentials::default(), &settings()).await;
        let chart = finished.chart();
        (chart.digest.clone(), chart.commit.clone())
    };
    let (one, other) = (digest("one").await, digest("other").await);
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
}
