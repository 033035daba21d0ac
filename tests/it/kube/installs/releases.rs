//! What an existing release means for an installation, for charts that are archives of a repository
//! and for charts that are folders of a git repository.

use std::collections::BTreeMap;

use ludgate_installs::release::ReleaseStatus::{self, Deployed, Superseded};
use serde_json::json;

use super::stuck::write;
use crate::support::{
    git_server::GitServer, installs::Installs, kube_namespace::kubectl, until::until_async,
};

/// The form of the charts.
#[derive(Clone, Copy, Debug)]
enum ChartForm {
    Archive,
    Folder,
}

const FORMS: [ChartForm; 2] = [ChartForm::Archive, ChartForm::Folder];

/// A controller, and the definition `example` with charts of this form.
async fn start(form: ChartForm) -> (Installs, GitServer) {
    let (installs, git) = tokio::join!(Installs::start(), GitServer::of_examples());
    let version = |version: &str, tag: &str| {
        let source = json!({ "git": {
            "remote": git.remote(), "ref": { "tag": tag }, "path": "example",
        } });
        json!({ "version": version, "template": { "source": source } })
    };
    let more = match form {
        ChartForm::Archive => json!({}),
        ChartForm::Folder => {
            json!({ "versions": [version("1.0.0", "v1"), version("2.0.0", "v2")] })
        }
    };
    installs.definition(more).await;
    (installs, git)
}

async fn states(installs: &Installs) -> Vec<(i64, ReleaseStatus)> {
    let history = installs.history("app-1").await;
    history.iter().map(|it| (it.revision, it.status)).collect()
}

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_another_owner_is_not_upgraded() {
    for form in FORMS {
        let (installs, _git) = start(form).await;
        installs.make_target(&installs.namespace().name).await;
        let release = installs.release("app-1");
        write(&installs, &release, (1, "deployed", "Install complete")).await;
        // A status that named the release would make it this installation's.
        let missing = json!({ "name": installs.own("example"), "version": "9.9.9" });
        installs
            .installation("app-1", json!({ "applicationRef": missing }))
            .await;
        let not_found = ("False", "NotFound");
        let status = installs
            .until_condition("app-1", "Accepted", not_found)
            .await;
        assert_eq!(status["helmRelease"], json!(null), "{form:?}");
        installs.installation("app-1", json!({})).await;
        let taken = ("False", "ReleaseNameTaken");
        installs.until_condition("app-1", "Ready", taken).await;
        assert_eq!(states(&installs).await, [(1, Deployed)], "{form:?}");
        assert!(installs.data().await.is_none(), "{form:?}");
        assert!(installs.commands().is_empty(), "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_removed_by_hand_is_installed_again() {
    for form in FORMS {
        let (installs, _git) = start(form).await;
        installs.installation("app-1", json!({})).await;
        installs.until_ready("app-1").await;
        let target = installs.own("target");
        let label = format!("name={}", installs.release("app-1"));
        let object = ["-n", &target, "delete", "configmap", "testcm"];
        kubectl(&object, "").await;
        let release = ["-n", &target, "delete", "secret", "-l", &label];
        kubectl(&release, "").await;
        let is_back =
            async || installs.data().await.is_some() && states(&installs).await == [(1, Deployed)];
        until_async("the release is back", is_back).await;
        assert_eq!(installs.commands(), ["upgrade", "upgrade"], "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_leave_the_deployed_revision_and_the_one_before() {
    let second = ("foo-version-2", "bar-version-2");
    for form in FORMS {
        let (installs, _git) = start(form).await;
        let reference =
            |version: &str| json!({ "name": installs.own("example"), "version": version });
        let steps = [
            ("1.0.0", "{}", data(&[("foo", "bar")])),
            ("2.0.0", "{}", data(&[second])),
            (
                "2.0.0",
                "cmData: { hello: world }",
                data(&[second, ("hello", "world")]),
            ),
            (
                "2.0.0",
                "cmData: { next: update }",
                data(&[second, ("next", "update")]),
            ),
        ];
        for (revision, (version, values, wanted)) in (1..).zip(steps) {
            let spec = json!({ "applicationRef": reference(version), "valuesBlock": values });
            installs.installation("app-1", spec).await;
            let status = installs.until_ready("app-1").await;
            assert_eq!(status["helmRelease"]["version"], revision, "{form:?}");
            assert_eq!(installs.data().await, Some(wanted), "{form:?}");
        }
        // The same values in another form are no change.
        let values = "# a comment\ncmData:\n  next: 'update'\n";
        let same = json!({ "applicationRef": reference("2.0.0"), "valuesBlock": values });
        installs.installation("app-1", same).await;
        installs.until_ready("app-1").await;
        let wanted = [(3, Superseded), (4, Deployed)];
        assert_eq!(states(&installs).await, wanted, "{form:?}");
        assert_eq!(installs.commands(), ["upgrade"; 4], "{form:?}");
    }
}
