//! Texts of Helm 3 and Helm 4, and their classes.

use std::process::ExitStatus;

use ludgate_model::secret::Secret;

use super::*;

fn output(end: ProcessEnd, status: i32, stderr: &str) -> ProcessOutput {
    ProcessOutput {
        end,
        status: ExitStatus::from_raw(status),
        stdout: Vec::new(),
        stderr: stderr.as_bytes().to_vec(),
        is_stderr_cut: false,
    }
}

/// Exit code 1, as `wait` reports it.
const FAILED: i32 = 1 << 8;

fn error(stderr: &str) -> HelmError {
    let output = output(ProcessEnd::Exited, FAILED, stderr);
    HelmError::from_process(&output, &Redactor::default()).expect("an error")
}

#[test]
fn texts_have_classes() {
    use FailureClass::{AnotherOperation, Forbidden, NoDeployedReleases, Other};
    for (stderr, class) in [
        (
            "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress",
            AnotherOperation,
        ),
        (
            "Error: UPGRADE FAILED: create: failed to create: secrets \"sh.helm.release.v1.a.v2\" \
             already exists",
            AnotherOperation,
        ),
        (
            "Error: cannot re-use a name that is still in use",
            AnotherOperation,
        ),
        (
            "Error: UPGRADE FAILED: \"a\" has no deployed releases",
            NoDeployedReleases,
        ),
        (
            "Error: UPGRADE FAILED: Unable to continue with update: could not get information \
             about the resource ClusterRole \"x\" in namespace \"\": \
             clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: User \
             \"system:serviceaccount:target:ludgate-installs\" cannot get resource \
             \"clusterroles\" in API group \"rbac.authorization.k8s.io\" at the cluster scope",
            Forbidden,
        ),
        (
            "Error: roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"a\" \
             (groups=[\"b\"]) is attempting to grant RBAC permissions not currently held",
            Forbidden,
        ),
        (
            "Error: pods \"x\" is forbidden: exceeded quota: q, requested: pods=1",
            Other,
        ),
        ("Error: configmaps \"testcm\" already exists", Other),
        (
            "Error: template: a/templates/b.yaml:3:14: executing \"b\" at <fail>: error",
            Other,
        ),
    ] {
        assert_eq!(error(stderr).class, class, "{stderr}");
    }
}

#[test]
fn texts_of_a_slow_or_absent_server_have_classes() {
    use FailureClass::{Timeout, Unavailable};
    for (stderr, class) in [
        (
            "Error: UPGRADE FAILED: release a failed, and has been rolled back due to atomic \
             being set: timed out waiting for the condition",
            Timeout,
        ),
        (
            "level=WARN msg=\"upgrade failed\"\nError: UPGRADE FAILED: resource \
             PersistentVolumeClaim/t/c not ready. status: InProgress, message: PVC is not \
             Bound\ncontext deadline exceeded",
            Timeout,
        ),
        (
            "Error: Kubernetes cluster unreachable: Get \"https://10.0.0.1/version\": dial tcp \
             10.0.0.1:443: connect: connection refused",
            Unavailable,
        ),
        (
            "Error: UPGRADE FAILED: Get \"https://a/api\": net/http: request canceled \
             (Client.Timeout exceeded while awaiting headers)",
            Unavailable,
        ),
        (
            "Error: query: failed to query with labels: etcdserver: request timed out",
            Unavailable,
        ),
        (
            "Error: Operation cannot be fulfilled on services \"a\": the object has been \
             modified; please apply your changes to the latest version and try again",
            Unavailable,
        ),
    ] {
        assert_eq!(error(stderr).class, class, "{stderr}");
    }
}

#[test]
fn a_message_is_what_stands_behind_the_last_mark() {
    for (stderr, message) in [
        ("Error: one\n", "one"),
        ("WARNING: x\nError: one\ntwo\n", "one\ntwo"),
        ("Error: one\nError: two", "two"),
        ("panic: Error: one", "panic: Error: one"),
        ("  unknown flag: --x\n", "unknown flag: --x"),
        ("", "helm failed without a message: exit status: 1"),
    ] {
        assert_eq!(error(stderr).message, message, "{stderr:?}");
    }
    let killed = output(ProcessEnd::Exited, 9, "Error: before");
    let killed = HelmError::from_process(&killed, &Redactor::default());
    assert_eq!(
        killed.expect("an error").message,
        "helm was ended by a signal: 9 (SIGKILL)"
    );
}

#[test]
fn the_end_decides_before_the_text_and_success_before_both() {
    let refused = "Error: connection refused";
    for (end, status, class) in [
        (ProcessEnd::Cancelled, FAILED, Some(FailureClass::Cancelled)),
        (ProcessEnd::TimedOut, 9, Some(FailureClass::Timeout)),
        (ProcessEnd::Exited, FAILED, Some(FailureClass::Unavailable)),
        (ProcessEnd::Cancelled, 0, None),
        (ProcessEnd::Exited, 0, None),
    ] {
        let output = output(end, status, refused);
        let error = HelmError::from_process(&output, &Redactor::default());
        assert_eq!(error.map(|error| error.class), class, "{end:?}");
    }
}

#[test]
fn a_message_is_short_and_without_secrets() {
    let redactor = Redactor::new([&Secret::new("s3cret")]);
    let stderr = format!("Error: s3cret {} s3cret", "ä".repeat(2000));
    let output = output(ProcessEnd::Exited, FAILED, &stderr);
    let message = HelmError::from_process(&output, &redactor)
        .expect("an error")
        .message;
    assert!(message.starts_with("[redacted] ä"), "{message}");
    assert!(message.len() <= 1024 && message.ends_with('…'), "{message}");
}

#[test]
fn a_line_that_was_cut_at_its_beginning_is_not_shown() {
    let redactor = Redactor::new([&Secret::new("password-of-a-registry")]);
    let mut output = output(ProcessEnd::Exited, FAILED, "a-registry failed\nthe rest");
    output.is_stderr_cut = true;
    let message = HelmError::from_process(&output, &redactor)
        .expect("an error")
        .message;
    assert_eq!(message, "the rest");
}
