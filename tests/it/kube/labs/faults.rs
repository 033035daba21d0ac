//! The API server refuses what a lab needs, is busy, or is away.

use ludgate_labs::{events::LabEventKind, state::LabStatus};

use crate::support::{
    api_faults::Fault,
    labs::{Labs, caller, quota, specification},
};

/// All writes of a lab, with what an error says of each.
const WRITES: [(&str, &str); 7] = [
    ("namespaces", "creating namespace (Namespace LAB"),
    (
        "configmaps/rachel-nb-env",
        "creating object (ConfigMap LAB/rachel-nb-env",
    ),
    ("secrets/rachel-nb", "creating object (Secret LAB/rachel-nb"),
    (
        "resourcequotas/rachel-nb",
        "creating object (ResourceQuota LAB/rachel-nb",
    ),
    (
        "networkpolicies/rachel-nb",
        "creating object (NetworkPolicy LAB/rachel-nb",
    ),
    ("services/lab", "creating object (Service LAB/lab"),
    ("pods/rachel-nb", "creating object (Pod LAB/rachel-nb"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_kind_object_and_status_and_the_lab_has_failed() {
    let labs = Labs::start().await;
    let caller = caller(Some(quota()));
    for (write, named) in WRITES {
        labs.faults
            .plan(move |object, _| (object == write).then_some(Fault::Status(400)));
        let created = labs.service.create(&caller, specification(), None).await;
        created.expect("created");
        let events = labs.events().await;
        let [.., error, failed] = events.as_slice() else {
            panic!("too few events: {events:?}");
        };
        assert_eq!(failed.message, "Lab spawn failed");
        let named = named.replace("LAB", &labs.lab_namespace());
        let start = format!("Error {named}, status 400): ");
        assert_eq!(error.kind, LabEventKind::Error);
        assert!(
            error.message.starts_with(&start),
            "{} has no {start}",
            error.message
        );
        assert_eq!(labs.status(), Some(LabStatus::Failed), "{write}");
        labs.faults.plan(|_, _| None);
        assert_eq!(labs.delete().await, Ok(()), "{write}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_fails_for_a_while_is_done_later() {
    for fault in [
        Fault::Status(503),
        Fault::Status(429),
        Fault::CutBefore,
        Fault::CutAfter,
    ] {
        let labs = Labs::start().await;
        labs.faults
            .plan(move |_, count| (count < 3).then_some(fault));
        labs.create().await.expect("created");
        labs.until_pod().await;
        labs.set_phase("Running").await;
        let last = labs.messages().await.pop();
        let last = last.unwrap_or_default();
        assert_eq!(last, "Lab Kubernetes pod started for rachel", "{fault:?}");
        assert_eq!(labs.faults.writes("secrets/rachel-nb"), 4, "{fault:?}");
    }
}
