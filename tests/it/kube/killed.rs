//! The controller is killed at each of its writes, before and after the API server gets it. The
//! next process finishes the work: nothing is done twice, and nothing is lost.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::support::{
    api_faults::{ApiFaults, Fault},
    changes::Changes,
    controller::{Prepared, is_current},
    kube_namespace::phapplications,
    process::{Running, program},
};

/// Of all steps together: five for the new app, four deletions and changes of the Deployment, and
/// statuses.
const MIN_WRITES: usize = 12;

/// What happens to an app, in order, with the phase that follows. No pods run here,
/// and nothing writes the status of a Deployment.
fn steps() -> [(Value, &'static str); 5] {
    let pod = |env: &str| {
        json!({ "spec": { "containers": [{
            "name": "app", "image": "app:1", "env": [{ "name": "A", "value": env }],
        }] } })
    };
    [
        (json!({ "podTemplate": pod("1") }), "Starting"),
        (json!({ "podTemplate": pod("2") }), "Starting"),
        (json!({ "podTemplate": pod("2"), "stop": true }), "Stopping"),
        (json!({ "podTemplate": pod("2") }), "Starting"),
        (
            json!({ "podTemplate": pod("2"), "svcTemplate": { "spec": { "ports": [] } } }),
            "Starting",
        ),
    ]
}

/// A process of the controller, which nothing but a signal ends.
fn start(config: &Path, lease: &str) -> Running {
    let child = Command::new(program())
        .args(["controller", "--config"])
        .arg(config)
        // A new process would wait until the lease of the killed one expires.
        .env("LUDGATE_CONTROLLER__LEASE", lease)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("the binary runs"))
}

/// Takes an app through all steps; returns the generation of its Deployment at the end.
async fn live(prepared: &Prepared, app: &str) -> i64 {
    let kind = phapplications();
    for (more, phase) in steps() {
        prepared.namespace.app(app, "public", more).await;
        let mut changes = Changes::named(prepared.namespace.api(&kind), app);
        changes.until(|app| is_current(app, phase)).await;
    }
    let kind = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
    let api = prepared.namespace.api(&kind);
    let deployment = api.get(&format!("app-{app}")).await.expect("a Deployment");
    deployment.metadata.generation.expect("a generation")
}

/// The kinds and names of the children of an app.
async fn children(prepared: &Prepared, app: &str) -> String {
    let label = format!("primehub.io/phapplication=app-{app}");
    let columns = "custom-columns=KIND:.kind,NAME:.metadata.name";
    let arguments = ["get", "deploy,svc,netpol", "-l", &label, "-o", columns];
    let listed = prepared.namespace.kubectl(&arguments, "").await;
    listed.replace(app, "APP")
}

async fn killed_at_each_write(fault: Fault) {
    let prepared = Prepared::new().await;
    let faults = ApiFaults::insert(&prepared.kubeconfig, |_, _| None).await;
    let (generation, wanted) = {
        let _controller = start(&prepared.config(), "undisturbed");
        let generation = live(&prepared, "undisturbed").await;
        (generation, children(&prepared, "undisturbed").await)
    };
    for at in 0.. {
        let app = format!("k{at}");
        let victim = app.clone();
        faults.plan(move |app, count| (app == victim && count == at).then_some(fault));
        let mut hanging = faults.hanging();
        hanging.mark_unchanged();
        let controller = start(&prepared.config(), &format!("{app}-killed"));
        let lived = live(&prepared, &app);
        tokio::pin!(lived);
        tokio::select! {
            changed = hanging.changed() => changed.expect("a proxy"),
            // A status that changes twice in a short time may be written once, so the number of
            // writes differs.
            _ = &mut lived => {
                assert!(at >= MIN_WRITES, "{at} writes: the steps are not what they were");
                return;
            }
        }
        // SIGKILL.
        drop(controller);
        let _next = start(&prepared.config(), &format!("{app}-next"));
        let reached = lived.await;
        assert_eq!(
            reached, generation,
            "{fault:?} at write {at}: written twice or never"
        );
        assert_eq!(
            children(&prepared, &app).await,
            wanted,
            "{fault:?} at write {at}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_never_sent_is_made_by_the_next_process() {
    killed_at_each_write(Fault::HangBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_is_not_repeated_by_the_next_process() {
    killed_at_each_write(Fault::HangAfter).await;
}
