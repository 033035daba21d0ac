//! The controller is killed at each of its writes, before and after the API server gets it. The
//! next process finishes the work: nothing is done twice, and nothing is lost.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use super::life::{ApplicationLife, Life};
use crate::support::{
    api_faults::{ApiFaults, Fault},
    controller::Prepared,
    process::{Running, program},
};

/// A process of the controller, which nothing but a signal ends.
pub fn start(config: &Path, lease: &str) -> Running {
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

/// Kills the controller at each write of a life, of an object of its own each time.
pub async fn killed_at_each_write<L: Life>(fault: Fault) {
    let prepared = Prepared::for_controller(L::CONTROLLER, L::CONTROLLER.platform()).await;
    let namespace = &prepared.namespace;
    let faults = ApiFaults::insert(&prepared.kubeconfig, |_, _| None).await;
    L::prepare(namespace, "undisturbed").await;
    let wanted = {
        let _controller = start(&prepared.config(), "undisturbed");
        L::live(namespace, "undisturbed").await
    };
    for at in 0.. {
        let object = format!("k{at}");
        let victim = object.clone();
        faults.plan(move |object, count| (object == victim && count == at).then_some(fault));
        let mut hanging = faults.hanging();
        hanging.mark_unchanged();
        L::prepare(namespace, &object).await;
        let controller = start(&prepared.config(), &format!("{object}-killed"));
        let lived = L::live(namespace, &object);
        tokio::pin!(lived);
        tokio::select! {
            changed = hanging.changed() => changed.expect("a proxy"),
            lived = &mut lived => {
                assert_eq!(lived, wanted);
                assert!(at >= L::MIN_WRITES, "{at} writes: the steps are not what they were");
                return;
            }
        }
        // SIGKILL.
        drop(controller);
        let _next = start(&prepared.config(), &format!("{object}-next"));
        assert_eq!(
            lived.await,
            wanted,
            "{fault:?} at write {at}: written twice or never"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_never_sent_is_made_by_the_next_process() {
    killed_at_each_write::<ApplicationLife>(Fault::HangBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_is_not_repeated_by_the_next_process() {
    killed_at_each_write::<ApplicationLife>(Fault::HangAfter).await;
}
