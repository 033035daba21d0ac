//! Installations, upgrades and removals: what is in the cluster, and which revisions are stored.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use ludgate_installs::{
    helm::{command::UpgradeOptions, outcome::FailureClass},
    release::ReleaseStatus::{Deployed, Failed, Superseded},
};

use crate::support::helm::{Helm, charts, is_real_program};

const OWN: &str = "cmData: { hello: world }\nversionLabel: another-version\n";
const NONE: &str = "{}";
/// Objects that are never ready.
const NEVER_READY: &str = "deployService: true\ndeployClaim: true\n";

/// The form in which a chart is given to Helm.
#[derive(Clone, Copy, Debug)]
enum Form {
    Archive,
    Folder,
}

async fn chart(helm: &Helm, form: Form, name: &str) -> PathBuf {
    match form {
        Form::Archive => helm.archive(name).await,
        Form::Folder => charts().join(name),
    }
}

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The data and the version label of the chart's ConfigMap.
async fn content(helm: &Helm) -> Option<(BTreeMap<String, String>, String)> {
    let (data, labels) = helm.config_map("testcm").await?;
    Some((data, labels["versionLabel"].clone()))
}

/// Charts and values, one after another, and what they leave.
struct Case {
    steps: &'static [(&'static str, &'static str)],
    data: &'static [(&'static str, &'static str)],
    version: &'static str,
}

const CASES: [Case; 7] = [
    Case {
        steps: &[("example-0.1.0", NONE)],
        data: &[("foo", "bar")],
        version: "1.0",
    },
    Case {
        steps: &[("example-0.1.0", OWN)],
        data: &[("foo", "bar"), ("hello", "world")],
        version: "another-version",
    },
    // An upgrade that changes nothing is a revision too: whether one is needed is decided before.
    Case {
        steps: &[("example-0.1.0", NONE), ("example-0.1.0", NONE)],
        data: &[("foo", "bar")],
        version: "1.0",
    },
    Case {
        steps: &[("example-0.1.0", NONE), ("example-0.1.0", OWN)],
        data: &[("foo", "bar"), ("hello", "world")],
        version: "another-version",
    },
    Case {
        steps: &[("example-0.1.0", NONE), ("example-0.2.0", NONE)],
        data: &[("foo-version-2", "bar-version-2")],
        version: "2.0",
    },
    Case {
        steps: &[("example-0.1.0", NONE), ("example-0.2.0", OWN)],
        data: &[("foo-version-2", "bar-version-2"), ("hello", "world")],
        version: "another-version",
    },
    // Values of an earlier revision do not stay.
    Case {
        steps: &[("example-0.1.0", OWN), ("example-0.1.0", NONE)],
        data: &[("foo", "bar")],
        version: "1.0",
    },
];

async fn run_cases(form: Form) {
    let helm = Helm::start().await;
    let options = helm.options();
    for case in &CASES {
        for (name, values) in case.steps {
            let chart = chart(&helm, form, name).await;
            let done = helm.upgrade(&chart, values, &options).await;
            done.unwrap_or_else(|error| panic!("{form:?} {:?}: {error}", case.steps));
        }
        let expected = (data(case.data), case.version.to_owned());
        assert_eq!(content(&helm).await, Some(expected), "{:?}", case.steps);
        let states = match case.steps.len() {
            1 => vec![(1, Deployed)],
            _ => vec![(1, Superseded), (2, Deployed)],
        };
        assert_eq!(helm.states().await, states, "{:?}", case.steps);
        helm.until_state(Some(Deployed)).await;
        helm.uninstall(false).await.expect("uninstalled");
        assert_eq!(content(&helm).await, None, "{:?}", case.steps);
        assert!(helm.states().await.is_empty());
        helm.until_state(None).await;
    }
    helm.uninstall(false).await.expect("a second time");
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_are_installed_upgraded_and_removed() {
    run_cases(Form::Archive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_installed_upgraded_and_removed() {
    run_cases(Form::Folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_chart_can_replace_the_one_of_a_release() {
    let helm = Helm::start().await;
    let options = helm.options();
    for name in ["example-folder", "example2"] {
        let done = helm.upgrade(&charts().join(name), NONE, &options).await;
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(helm.config_map("testcm-2").await.is_some());
    assert_eq!(content(&helm).await, None, "objects of the old chart go");
    let history = helm.history().await;
    let names: Vec<&str> = history.iter().map(|one| one.chart_name.as_str()).collect();
    assert_eq!(names, ["example", "example2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_names_are_looked_up_only_where_that_is_asked_for() {
    let helm = Helm::start().await;
    let chart = charts().join("example-0.1.0");
    for enable_dns in [true, false, true] {
        let options = UpgradeOptions {
            enable_dns,
            ..helm.options()
        };
        let done = helm.upgrade(&chart, NONE, &options).await;
        done.expect("upgraded");
        assert_eq!(helm.asked_for("--enable-dns"), enable_dns);
        if is_real_program() {
            let (_, labels) = helm.config_map("testcm").await.expect("a ConfigMap");
            assert_eq!(!labels["enableDNSLabel"].is_empty(), enable_dns);
        }
    }
    assert_eq!(helm.states().await, [(2, Superseded), (3, Deployed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_not_ready_in_time_fail_a_revision_and_stay() {
    let helm = Helm::start().await;
    let (old, new) = (
        charts().join("example-0.1.0"),
        charts().join("example-0.2.0"),
    );
    let waiting = helm.waiting(Duration::from_secs(3));
    let install = helm.upgrade(&new, NEVER_READY, &waiting).await;
    assert_eq!(install.expect_err("not ready").class, FailureClass::Timeout);
    assert_eq!(helm.states().await, [(1, Failed)]);
    assert_eq!(
        content(&helm).await.map(|(_, version)| version),
        Some("2.0".to_owned())
    );
    assert!(helm.has_service("svc-1").await);
    helm.uninstall(false).await.expect("uninstalled");

    let options = helm.options();
    helm.upgrade(&old, NONE, &options).await.expect("installed");
    let upgrade = helm.upgrade(&new, NEVER_READY, &waiting).await;
    assert_eq!(upgrade.expect_err("not ready").class, FailureClass::Timeout);
    assert_eq!(helm.states().await, [(1, Deployed), (2, Failed)]);
    assert_eq!(
        content(&helm).await.map(|(_, version)| version),
        Some("2.0".to_owned())
    );
    helm.until_state(Some(Failed)).await;
    // A failed revision is no obstacle.
    helm.upgrade(&old, NONE, &options).await.expect("repaired");
    assert_eq!(
        content(&helm).await.map(|(_, version)| version),
        Some("1.0".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_operation_that_fails_leaves_what_was_there_before() {
    let helm = Helm::start().await;
    let (old, new) = (
        charts().join("example-0.1.0"),
        charts().join("example-0.2.0"),
    );
    let atomic = UpgradeOptions {
        atomic: true,
        ..helm.waiting(Duration::from_secs(3))
    };
    let install = helm.upgrade(&new, NEVER_READY, &atomic).await;
    assert_eq!(install.expect_err("not ready").class, FailureClass::Timeout);
    assert!(helm.states().await.is_empty());
    assert_eq!(content(&helm).await, None);
    assert!(!helm.has_service("svc-1").await);

    let options = helm.options();
    helm.upgrade(&old, NONE, &options).await.expect("installed");
    let upgrade = helm.upgrade(&new, NEVER_READY, &atomic).await;
    assert_eq!(upgrade.expect_err("not ready").class, FailureClass::Timeout);
    let states = helm.states().await;
    assert_eq!(states.last(), Some(&(3, Deployed)), "{states:?}");
    let expected = (data(&[("foo", "bar")]), "1.0".to_owned());
    assert_eq!(content(&helm).await, Some(expected));
    assert!(!helm.has_service("svc-1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployed_revision_and_one_more_are_kept() {
    let helm = Helm::start().await;
    let options = helm.options();
    let upgrade = async |name: &str, values: &str| {
        let done = helm.upgrade(&charts().join(name), values, &options).await;
        done.expect("upgraded");
    };
    upgrade("example-0.1.0", NONE).await;
    upgrade("example-0.2.0", NONE).await;
    assert_eq!(helm.states().await, [(1, Superseded), (2, Deployed)]);
    upgrade("example-0.2.0", OWN).await;
    upgrade("example-0.2.0", NONE).await;
    assert_eq!(helm.states().await, [(3, Superseded), (4, Deployed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_outside_of_the_namespace_is_refused_before_anything_is_written() {
    let helm = Helm::start().await;
    let chart = charts().join("cluster-role");
    let refused = helm.upgrade(&chart, NONE, &helm.options()).await;
    let refused = refused.expect_err("no right");
    assert_eq!(refused.class, FailureClass::Forbidden, "{refused}");
    assert_eq!(helm.config_map("beside").await, None);
    assert!(helm.states().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_is_not_there_or_broken_is_a_failure_of_its_own() {
    let helm = Helm::start().await;
    let options = helm.options();
    let missing = helm
        .upgrade(Path::new("/no/such/chart"), NONE, &options)
        .await;
    assert_eq!(missing.expect_err("no chart").class, FailureClass::Other);
    let chart = charts().join("example-0.1.0");
    let broken = helm.upgrade(&chart, "cmData: [1", &options).await;
    let broken = broken.expect_err("no YAML");
    assert_eq!(broken.class, FailureClass::Other);
    assert!(!broken.message.is_empty() && broken.message.len() <= 1024);
    assert!(helm.states().await.is_empty());
}
