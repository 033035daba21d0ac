//! Charts from Helm repositories and registries: which are found, and which are not.

use ludgate_installs::source::{ChartSource, Credentials};

use crate::support::{
    charts::{example, sha256},
    fetch, from_registry, from_repository, helm_password, helm_repository,
    http_server::FakeServer,
    names_in, registry, registry_config, settings,
};

/// A download with its outcome: the version of the chart, or a part of the refusal.
struct Case {
    source: ChartSource,
    credentials: Credentials,
    wanted: Result<&'static str, &'static str>,
}

async fn check(case: Case) {
    let Case {
        source,
        credentials,
        wanted,
    } = case;
    let finished = fetch(&source, &credentials, &settings()).await;
    match wanted {
        Ok(version) => {
            let chart = finished.chart();
            let archive = example("examplechart", version);
            assert_eq!(
                (chart.name.as_str(), chart.version.as_str()),
                ("examplechart", version)
            );
            assert_eq!(chart.app_version.as_deref(), Some("1.0"));
            assert_eq!(chart.digest, format!("sha256:{}", sha256(&archive)));
            assert_eq!(std::fs::read(&chart.path).expect("an archive"), archive);
            let name = format!("examplechart-{version}.tgz");
            assert_eq!(names_in(finished.folder.path()), [name]);
        }
        Err(wanted) => {
            let message = finished.refusal();
            assert!(message.contains(wanted), "{source:?}: {message}");
        }
    }
}

fn none() -> Credentials {
    Credentials::default()
}

#[tokio::test]
async fn charts_of_helm_repositories() {
    let (open, closed) = (
        helm_repository::start().await,
        helm_repository::start_with_password().await,
    );
    let (open, closed) = (helm_repository::url(&open), helm_repository::url(&closed));
    for (url, chart, version, credentials, wanted) in [
        (&open, "examplechart", "0.1.0", none(), Ok("0.1.0")),
        // The latest one is no pre-release.
        (&open, "examplechart", "", none(), Ok("0.2.0")),
        (
            &closed,
            "examplechart",
            "0.1.0",
            helm_password(),
            Ok("0.1.0"),
        ),
        (
            &open,
            "chartthatdoesnotexist",
            "0.1.0",
            none(),
            Err("has no chart \"chartthatdoesnotexist\""),
        ),
        (
            &open,
            "examplechart",
            "notSemver",
            none(),
            Err("\"notSemver\" is no semantic version"),
        ),
        // Ours.
        (
            &open,
            "examplechart",
            "0.3.0-rc.1",
            none(),
            Ok("0.3.0-rc.1"),
        ),
        (&open, "examplechart", "9.9.9", none(), Err("version 9.9.9")),
        (
            &closed,
            "examplechart",
            "0.1.0",
            none(),
            Err("refuses access"),
        ),
        (&open, "../x", "0.1.0", none(), Err("is no name of a chart")),
    ] {
        check(Case {
            source: from_repository(url, chart, version),
            credentials,
            wanted,
        })
        .await;
    }
}

#[tokio::test]
async fn charts_of_registries() {
    let servers = (
        registry::start().await,
        registry::start_with_password().await,
        registry::start_with_tokens().await,
    );
    let config = |server: &FakeServer| registry_config(&server.address.to_string());
    let (open, closed, tokens) = (
        registry::url(&servers.0),
        registry::url(&servers.1),
        registry::url(&servers.2),
    );
    let example = "examplechart";
    let refused = || Err("refuses access");
    for (url, chart, version, credentials, wanted) in [
        (&open, example, "0.1.0", none(), Ok("0.1.0")),
        (&open, example, "", none(), Ok("0.2.0")),
        (&closed, example, "0.1.0", config(&servers.1), Ok("0.1.0")),
        (
            &open,
            "chartthatdoesnotexist",
            "0.1.0",
            none(),
            Err("does not exist"),
        ),
        (
            &open,
            example,
            "notSemver",
            none(),
            Err("\"notSemver\" is no semantic version"),
        ),
        // Ours.
        (&tokens, example, "", config(&servers.2), Ok("0.2.0")),
        (&tokens, example, "0.1.0", helm_password(), Ok("0.1.0")),
        (&tokens, example, "0.1.0", none(), refused()),
        (&closed, example, "0.1.0", config(&servers.0), refused()),
        (&closed, example, "0.1.0", none(), refused()),
        (&open, example, "9.9.9", none(), Err("does not exist")),
    ] {
        check(Case {
            source: from_registry(url, chart, version),
            credentials,
            wanted,
        })
        .await;
    }
    // One token is enough for the tags, the manifest and the archive.
    let calls = servers.2.targets().into_iter();
    let first: Vec<String> = calls.take(5).collect();
    assert!(
        first[1].starts_with("GET /token?service=r&scope=repository%3Acharts%2F"),
        "{first:?}"
    );
    assert!(
        first[4].starts_with("GET /v2/charts/examplechart/blobs/"),
        "{first:?}"
    );
}

#[tokio::test]
async fn servers_with_tls_need_a_known_certificate() {
    let repository = helm_repository::start_tls().await;
    let registry = registry::start_tls().await;
    let sources = |insecure: bool| {
        [
            ChartSource::Repository {
                url: format!("https://{}", repository.address),
                chart: "examplechart".to_owned(),
                version: "0.1.0".to_owned(),
                insecure,
            },
            ChartSource::Oci {
                url: registry::url(&registry),
                chart: "examplechart".to_owned(),
                version: "0.1.0".to_owned(),
                insecure,
                plain_http: false,
            },
        ]
    };
    let mut trusting = settings();
    trusting.ca = Some(format!(
        "{}{}",
        repository.certificate, registry.certificate
    ));
    for source in sources(false) {
        let none = Credentials::default();
        fetch(&source, &none, &trusting).await.chart();
        let finished = fetch(&source, &none, &settings()).await;
        let (_, message) = finished.error();
        assert!(message.contains("certificate"), "{message}");
    }
    for source in sources(true) {
        fetch(&source, &Credentials::default(), &settings())
            .await
            .chart();
    }
}

#[tokio::test]
async fn http_is_used_only_where_the_settings_and_the_source_say_so() {
    let repository = helm_repository::start().await;
    let registry = registry::start().await;
    let mut only_tls = settings();
    only_tls.hosts.plain_http = false;
    for source in [
        from_repository(&helm_repository::url(&repository), "examplechart", "0.1.0"),
        from_registry(&registry::url(&registry), "examplechart", "0.1.0"),
    ] {
        let finished = fetch(&source, &Credentials::default(), &only_tls).await;
        assert!(
            finished.refusal().contains("http is not allowed"),
            "{:?}",
            finished.result
        );
    }
    assert!(repository.seen().is_empty() && registry.seen().is_empty());
}

#[tokio::test]
async fn addresses_and_hosts_that_are_not_allowed_are_never_called() {
    let repository = helm_repository::start().await;
    let source = from_repository(&helm_repository::url(&repository), "examplechart", "0.1.0");
    let mut defaults = settings();
    defaults.hosts.allowed_networks.clear();
    let mut denied = settings();
    denied.hosts.denied_hosts = vec!["127.0.0.1".parse().expect("a host")];
    let mut others = settings();
    others.hosts.allowed_hosts = vec!["*.example.com".parse().expect("a pattern")];
    for settings in [defaults, denied, others] {
        let finished = fetch(&source, &Credentials::default(), &settings).await;
        assert!(
            finished.refusal().contains("allowed for sources"),
            "{:?}",
            finished.result
        );
    }
    assert!(repository.seen().is_empty());
}
