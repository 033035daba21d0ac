//! Host keys and keys of ssh.

use ludgate_installs::source::{ChartSource, Credentials, GitLogin, GitRevision, HostKeys};
use ludgate_model::secret::Secret;

use crate::support::{
    Finished, fetch, git_repository::GitRepository, settings, ssh_server::SshServer,
};

struct Served {
    repository: GitRepository,
    server: SshServer,
}

impl Served {
    fn start() -> Served {
        let repository = GitRepository::new();
        repository.write_chart("", "a", "1.0.0");
        repository.commit();
        Served {
            repository,
            server: SshServer::start(),
        }
    }

    fn source(&self) -> ChartSource {
        ChartSource::Git {
            remote: self.server.remote(&self.repository.path()),
            revision: GitRevision::Branch("main".to_owned()),
            path: String::new(),
        }
    }

    async fn fetch(&self, key: &str, host_keys: HostKeys) -> Finished {
        let credentials = Credentials {
            git: GitLogin::SshKey(Secret::new(key)),
            host_keys,
            ..Credentials::default()
        };
        fetch(&self.source(), &credentials, &settings()).await
    }
}

#[tokio::test]
async fn only_a_known_host_key_is_accepted() {
    let served = Served::start();
    let key = served.server.key("client");
    let known = |name: &str| HostKeys::Known(served.server.known_host(name));
    served.fetch(&key, known("host")).await.chart();
    // A key that lost its last newline on its way through a Secret.
    served.fetch(key.trim_end(), known("host")).await.chart();
    let wrong = served.fetch(&key, known("stranger")).await;
    assert_eq!(
        wrong.refusal(),
        "the host key of the git server is not a known one"
    );
    let other_host = HostKeys::Known("example.com ssh-ed25519 AAAA\n".to_owned());
    let unknown = served.fetch(&key, other_host).await;
    assert_eq!(
        unknown.refusal(),
        "the host key of the git server is not a known one"
    );
    let none = served.fetch(&key, HostKeys::Configured).await;
    assert_eq!(
        none.refusal(),
        "there are no known host keys for \"127.0.0.1\""
    );
    served.fetch(&key, HostKeys::Unchecked).await.chart();
}

#[tokio::test]
async fn the_host_keys_of_the_settings_are_used_for_credentials_without_any() {
    let served = Served::start();
    let mut configured = settings();
    configured.known_hosts = Some(served.server.known_host("host"));
    let credentials = Credentials {
        git: GitLogin::SshKey(Secret::new(served.server.key("client"))),
        ..Credentials::default()
    };
    fetch(&served.source(), &credentials, &configured)
        .await
        .chart();
    configured.known_hosts = Some(served.server.known_host("stranger"));
    let finished = fetch(&served.source(), &credentials, &configured).await;
    assert_eq!(
        finished.refusal(),
        "the host key of the git server is not a known one"
    );
}

#[tokio::test]
async fn keys_that_the_server_does_not_accept_are_refused_without_a_part_of_them() {
    let served = Served::start();
    let known = || HostKeys::Known(served.server.known_host("host"));
    let stranger = served.server.key("stranger");
    for key in [stranger.as_str(), "no key at all, but canary text"] {
        let finished = served.fetch(key, known()).await;
        assert_eq!(finished.refusal(), "authentication failed");
    }
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_named_as_such() {
    let served = Served::start();
    let missing = served.repository.served().join("nothing");
    let source = ChartSource::Git {
        remote: served.server.remote(&missing),
        revision: GitRevision::Branch("main".to_owned()),
        path: String::new(),
    };
    let credentials = Credentials {
        git: GitLogin::SshKey(Secret::new(served.server.key("client"))),
        host_keys: HostKeys::Known(served.server.known_host("host")),
        ..Credentials::default()
    };
    let finished = fetch(&source, &credentials, &settings()).await;
    assert_eq!(finished.refusal(), "the remote is no git repository");
}
