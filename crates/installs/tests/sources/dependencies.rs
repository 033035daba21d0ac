//! Dependencies of charts from git.

use std::io::Read;

use flate2::read::GzDecoder;
use ludgate_installs::source::{
    ChartSource, Credentials, GitLogin, GitRevision, HostKeys, SourceSettings,
};
use ludgate_model::secret::Secret;

use crate::support::{
    Finished, charts::sha256, fetch, git_repository::GitRepository, git_server::GitServer,
    helm_password, helm_repository, registry, registry_config, settings, ssh_server::SshServer,
};

/// A dependency: name, version, repository.
type Dependency<'d> = (&'d str, &'d str, &'d str);

/// Downloads a chart with these dependencies, from a repository that also has `filedepchart`.
async fn build(
    dependencies: &[Dependency<'_>],
    lock: Option<String>,
    credentials: &Credentials,
    settings: &SourceSettings,
) -> Finished {
    let repository = repository_with(dependencies, lock);
    let server = GitServer::start(repository.served()).await;
    fetch(&from_git(server.remote()), credentials, settings).await
}

/// The same over SSH, with settings that allow no http.
async fn build_over_ssh(dependency: Dependency<'_>, ca: Option<String>) -> Finished {
    let repository = repository_with(&[dependency], None);
    let server = SshServer::start();
    let credentials = Credentials {
        git: GitLogin::SshKey(Secret::new(server.key("client"))),
        host_keys: HostKeys::Known(server.known_host("host")),
        ..Credentials::default()
    };
    let mut only_tls = settings();
    only_tls.hosts.plain_http = false;
    only_tls.ca = ca;
    let remote = server.remote(&repository.path());
    fetch(&from_git(remote), &credentials, &only_tls).await
}

fn from_git(remote: String) -> ChartSource {
    ChartSource::Git {
        remote,
        revision: GitRevision::Branch("main".to_owned()),
        path: "testing-chart".to_owned(),
    }
}

fn repository_with(dependencies: &[Dependency<'_>], lock: Option<String>) -> GitRepository {
    let repository = GitRepository::new();
    repository.write_chart("filedepchart", "filedepchart", "2.3.4");
    repository.write_chart("testing-chart", "testing-chart", "1.2.3");
    let listed: String = dependencies
        .iter()
        .map(|(name, version, url)| {
            format!("- {{name: {name}, version: \"{version}\", repository: \"{url}\"}}\n")
        })
        .collect();
    let chart = "apiVersion: v2\nname: testing-chart\nversion: 1.2.3\ndependencies:\n";
    repository.write("testing-chart/Chart.yaml", &format!("{chart}{listed}"));
    if let Some(digest) = lock {
        let lock = format!("dependencies:\n{listed}digest: {digest}\n");
        repository.write("testing-chart/Chart.lock", &lock);
    }
    repository.commit();
    repository
}

/// The digest that Helm writes if each dependency is locked to the version that is wanted.
fn digest(dependencies: &[Dependency<'_>]) -> String {
    let entries = dependencies.iter().map(|(name, version, url)| {
        format!(r#"{{"name":"{name}","version":"{version}","repository":"{url}"}}"#)
    });
    let list = format!("[{}]", entries.collect::<Vec<_>>().join(","));
    format!("sha256:{}", sha256(format!("[{list},{list}]").as_bytes()))
}

/// The files in the folder `charts` of an archive.
fn charts_in(finished: &Finished) -> Vec<String> {
    let archive = std::fs::read(&finished.chart().path).expect("an archive");
    let mut archive = tar::Archive::new(GzDecoder::new(archive.as_slice()));
    let entries = archive.entries().expect("entries");
    let names = entries.map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("content");
        entry.path().expect("a path").display().to_string()
    });
    let prefix = "testing-chart/charts/";
    names
        .filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned()))
        .collect()
}

/// Checks the dependencies with and without a lock.
async fn succeeds(
    dependencies: &[Dependency<'_>],
    credentials: &Credentials,
    settings: &SourceSettings,
) {
    let mut wanted: Vec<String> = dependencies
        .iter()
        .map(|(name, version, _)| format!("{name}-{version}.tgz"))
        .collect();
    wanted.sort();
    for lock in [Some(digest(dependencies)), None] {
        let finished = build(dependencies, lock, credentials, settings).await;
        assert_eq!(charts_in(&finished), wanted, "{dependencies:?}");
    }
}

async fn fails(dependency: Dependency<'_>, wanted: &str) {
    let finished = build(&[dependency], None, &Credentials::default(), &settings()).await;
    let message = finished.refusal();
    assert!(message.contains(wanted), "{dependency:?}: {message}");
}

#[tokio::test]
async fn a_chart_without_dependencies_stays_as_it_is() {
    let finished = build(&[], None, &Credentials::default(), &settings()).await;
    assert!(charts_in(&finished).is_empty());
}

#[tokio::test]
async fn dependencies_of_all_kinds_with_and_without_a_lock() {
    let (http, oci) = (helm_repository::start().await, registry::start().await);
    let (http, oci) = (helm_repository::url(&http), registry::url(&oci));
    let none = Credentials::default();
    for dependencies in [
        vec![("examplechart", "0.1.0", http.as_str())],
        vec![("examplechart", "0.1.0", oci.as_str())],
        vec![("filedepchart", "2.3.4", "file://../filedepchart")],
        vec![
            ("examplechart", "0.1.0", http.as_str()),
            ("examplechart2", "0.1.0", oci.as_str()),
        ],
    ] {
        succeeds(&dependencies, &none, &settings()).await;
    }
}

#[tokio::test]
async fn dependencies_with_a_password_with_and_without_a_lock() {
    let http = helm_repository::start_with_password().await;
    let oci = registry::start_with_password().await;
    let tokens = registry::start_with_tokens().await;
    let url = helm_repository::url(&http);
    succeeds(
        &[("examplechart", "0.1.0", &url)],
        &helm_password(),
        &settings(),
    )
    .await;
    for server in [oci, tokens] {
        let url = registry::url(&server);
        let credentials = registry_config(&server.address.to_string());
        succeeds(
            &[("examplechart", "0.1.0", &url)],
            &credentials,
            &settings(),
        )
        .await;
    }
}

#[tokio::test]
async fn dependencies_with_tls_with_and_without_a_lock() {
    let server = helm_repository::start_tls().await;
    let url = format!("https://{}", server.address);
    let mut trusting = settings();
    trusting.ca = Some(server.certificate.clone());
    let none = Credentials::default();
    succeeds(&[("examplechart", "0.1.0", &url)], &none, &trusting).await;
    let finished = build(&[("examplechart", "0.1.0", &url)], None, &none, &settings()).await;
    let (_, message) = finished.error();
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn dependencies_of_a_registry_with_tls_need_a_known_certificate() {
    let server = registry::start_tls().await;
    let url = registry::url(&server);
    let dependency = ("examplechart", "0.1.0", url.as_str());
    let trusted = build_over_ssh(dependency, Some(server.certificate.clone())).await;
    assert_eq!(charts_in(&trusted), ["examplechart-0.1.0.tgz"]);
    let unknown = build_over_ssh(dependency, None).await;
    let (_, message) = unknown.error();
    assert!(message.contains("certificate"), "{message}");
    // Where http is allowed, a registry on loopback is called without TLS.
    let none = Credentials::default();
    let mut trusting = settings();
    trusting.ca = Some(server.certificate.clone());
    let plain = build(&[dependency], None, &none, &trusting).await;
    let (_, message) = plain.error();
    assert!(message.contains("dependency \"examplechart\""), "{message}");
}

#[tokio::test]
async fn dependencies_without_a_usable_version_fail() {
    let (http, oci) = (helm_repository::start().await, registry::start().await);
    let (http, oci) = (helm_repository::url(&http), registry::url(&oci));
    for url in [&http, &oci] {
        fails(("examplechart", "", url), "the version is empty").await;
        fails(
            ("examplechart", "notSemver", url),
            "\"notSemver\" is no version",
        )
        .await;
        fails(("examplechart", "^9", url), "a version in \"^9\"").await;
        fails(("nothing", "^1", url), "dependency \"nothing\"").await;
    }
}

#[tokio::test]
async fn a_range_leads_to_its_highest_version() {
    let (http, oci) = (helm_repository::start().await, registry::start().await);
    let (http, oci) = (helm_repository::url(&http), registry::url(&oci));
    let none = Credentials::default();
    for (url, range, wanted) in [
        (&http, "0.x", "examplechart-0.2.0.tgz"),
        (&oci, "~0.1.0", "examplechart-0.1.0.tgz"),
        (&oci, ">=0.3.0-0", "examplechart-0.3.0-rc.1.tgz"),
    ] {
        let dependencies = [("examplechart", range, url.as_str())];
        let finished = build(&dependencies, None, &none, &settings()).await;
        assert_eq!(charts_in(&finished), [wanted], "{range}");
    }
}

#[tokio::test]
async fn a_lock_for_other_dependencies_is_out_of_sync() {
    let dependency = ("filedepchart", "2.3.4", "file://../filedepchart");
    let other = digest(&[("filedepchart", "2.3.5", "file://../filedepchart")]);
    let none = Credentials::default();
    let finished = build(&[dependency], Some(other), &none, &settings()).await;
    assert!(
        finished.refusal().contains("lock file is out of sync"),
        "{:?}",
        finished.result
    );
}

#[tokio::test]
async fn places_outside_the_repository_and_helpers_are_refused() {
    let cases = [
        ("../../../etc", "leads out of the repository"),
        ("/etc", "is absolute"),
        ("../nothing", "has no folder \"nothing\""),
    ];
    for (path, wanted) in cases {
        let url = format!("file://{path}");
        fails(("filedepchart", "2.3.4", &url), wanted).await;
    }
    fails(
        ("filedepchart", "2.0.0", "file://../filedepchart"),
        "wanted is version 2.0.0",
    )
    .await;
    fails(
        ("examplechart", "0.1.0", "@stable"),
        "a name of one machine",
    )
    .await;
    fails(("examplechart", "0.1.0", ""), "is not in charts/").await;
    fails(
        ("examplechart", "0.1.0", "https://10.0.0.1/"),
        "not allowed for sources",
    )
    .await;
}

#[tokio::test]
async fn a_password_is_not_sent_to_a_server_that_the_chart_names() {
    let http = helm_repository::start_with_password().await;
    // The same server under another name than that of the git remote.
    let url = helm_repository::url(&http).replace("127.0.0.1", "localhost");
    let dependencies = [("examplechart", "0.1.0", url.as_str())];
    let finished = build(&dependencies, None, &helm_password(), &settings()).await;
    assert!(
        finished.refusal().contains("of the git remote only"),
        "{:?}",
        finished.result
    );
    assert!(http.seen().is_empty());
}
