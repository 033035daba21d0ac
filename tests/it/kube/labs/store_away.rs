//! The store that replicas of labs share is away at each step of a lab's life (docs/labs.md):
//! status is answered, no operation begins, none is lost, and all goes on by itself.

use ludgate_labs::state::LabStatus;

use crate::support::{
    lab_replicas::{LabReplicas, Listener},
    labs::USER,
};

/// How the store goes away.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// It answers nothing, and then goes on.
    Hangs,
    /// It is killed, and comes back without its data.
    LosesData,
}

/// When that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// There is no lab.
    Before,
    /// Its pod starts.
    Pending,
    /// The pod runs, and nothing else happens.
    Running,
}

async fn leave(pair: &mut LabReplicas, outage: Outage) {
    match outage {
        Outage::Hangs => pair.redis.hang(),
        Outage::LosesData => pair.redis.kill().await,
    }
    pair.until_ready(false).await;
}

async fn come_back(pair: &mut LabReplicas, outage: Outage) {
    match outage {
        Outage::Hangs => pair.redis.go_on(),
        Outage::LosesData => pair.redis.again().await,
    }
    pair.until_ready(true).await;
}

async fn survive(outage: Outage, step: Step) {
    let what = format!("{outage:?} {step:?}");
    let mut pair = LabReplicas::start().await;
    let mut listener = None;
    let status = match step {
        Step::Before => None,
        Step::Pending => {
            assert_eq!(pair.doomed.create(None).await, Ok(()), "{what}");
            let mut following = Listener::start(&pair.labs.service).await;
            following.messages_until(Some("Created")).await;
            listener = Some(following);
            Some(LabStatus::Pending)
        }
        Step::Running => {
            pair.labs.run_lab().await;
            Some(LabStatus::Running)
        }
    };

    pair.until_statuses(status).await;
    leave(&mut pair, outage).await;
    assert_eq!(pair.statuses().await, [status; 2], "{what}");
    let created = pair.doomed.create(None).await;
    let refused = created.expect_err(&what);
    assert_eq!(refused.status(), 503, "{what}: {refused}");
    assert!(refused.to_string().contains("store"), "{what}: {refused}");
    let deleted = pair.labs.service.delete(USER).await.err();
    assert_eq!(deleted.map(|error| error.status()), Some(503), "{what}");

    come_back(&mut pair, outage).await;
    match step {
        Step::Before => pair.labs.run_lab().await,
        Step::Pending => {
            pair.labs.set_phase("Running").await;
            let mut listener = listener.expect("a listener");
            let last = listener.messages_until(None).await.pop();
            let wanted = "Lab Kubernetes pod started for rachel";
            assert_eq!(last.as_deref(), Some(wanted), "{what}");
        }
        Step::Running => {}
    }
    pair.until_statuses(Some(LabStatus::Running)).await;
    assert_eq!(pair.labs.faults.writes("pods/rachel-nb"), 1, "{what}");
    assert_eq!(pair.labs.delete().await, Ok(()), "{what}");
    pair.until_statuses(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_ends_no_lab_and_no_start() {
    for step in [Step::Before, Step::Pending, Step::Running] {
        survive(Outage::Hangs, step).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_its_data_ends_no_lab_and_no_start() {
    for step in [Step::Before, Step::Pending, Step::Running] {
        survive(Outage::LosesData, step).await;
    }
}
