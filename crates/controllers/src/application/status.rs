//! The phase of an app and its message, from what the cluster shows.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerState, ContainerStatus, Pod},
};
use ludgate_cluster::{
    conditions::Condition,
    crd::application::{PhApplicationStatus, Phase},
};

use super::app::Application;

/// Condition of an app whose template has more containers than run. PrimeHub drops them too, so
/// this is no error.
const DROPPED: &str = "ContainersDropped";

/// What the cluster shows of an app.
#[derive(Clone, Copy, Default)]
pub struct Observed<'a> {
    /// Its Deployment.
    pub deployment: Option<&'a Deployment>,
    /// The Deployment is made of the app's current spec.
    pub is_applied: bool,
    /// Its pods that run or start, those that are being deleted included. Evicted pods stay for
    /// long and use nothing.
    pub pods: &'a [&'a Pod],
    /// The ReplicaSet of the Deployment's current revision, by uid.
    pub replica_set: Option<&'a str>,
}

/// The spec that a status is about.
#[derive(Clone, Debug, Default)]
pub struct ObservedSpec {
    /// Its generation.
    pub generation: i64,
    /// The Service of its app; `None`: the spec cannot be read.
    pub service_name: Option<String>,
    /// The containers of its template that do not run, such as `containers[second]`.
    pub dropped_containers: Vec<String>,
}

/// A phase and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseMessage {
    /// The phase.
    pub phase: Phase,
    /// The reason, for people.
    pub message: String,
    /// The reason that Kubernetes gives for a failure, such as `CrashLoopBackOff`.
    pub failure: Option<String>,
}

impl PhaseMessage {
    fn new(phase: Phase, message: impl Into<String>) -> PhaseMessage {
        PhaseMessage {
            phase,
            message: message.into(),
            failure: None,
        }
    }

    /// The phase of an app that cannot run.
    pub fn error(reason: &str) -> PhaseMessage {
        PhaseMessage::new(Phase::Error, reason)
    }

    /// The status, with the conditions' times of the earlier one where they did not change. `now`
    /// is in RFC 3339.
    pub fn to_status(
        &self,
        spec: &ObservedSpec,
        before: &PhApplicationStatus,
        now: &str,
    ) -> PhApplicationStatus {
        let condition = |kind: &str, is_true: bool, reason: &str, message: String| Condition {
            kind: kind.to_owned(),
            status: if is_true { "True" } else { "False" }.into(),
            reason: reason.to_owned(),
            message,
            observed_generation: Some(spec.generation),
            last_transition_time: String::new(),
        };
        let phase = self.phase.as_str();
        let is_ready = self.phase == Phase::Ready;
        let mut conditions = vec![condition("Ready", is_ready, phase, self.message.clone())];
        if !spec.dropped_containers.is_empty() {
            let message = format!("not started: {}", spec.dropped_containers.join(", "));
            conditions.push(condition(DROPPED, true, "OnlyFirstStarts", message));
        }
        let conditions = conditions.into_iter();
        PhApplicationStatus {
            phase: Some(phase.into()),
            message: Some(self.message.clone()),
            service_name: spec.service_name.clone(),
            observed_generation: Some(spec.generation),
            conditions: conditions
                .map(|condition| condition.since(&before.conditions, now))
                .collect(),
        }
    }
}

/// The phase of an app. `rejection` is the reason for which it cannot run.
///
/// The messages are PrimeHub's, which tests of consoles compare.
pub fn phase(app: &Application, rejection: Option<&str>, observed: Observed<'_>) -> PhaseMessage {
    if let Some(reason) = rejection {
        return PhaseMessage::error(reason);
    }
    if app.is_stopped() {
        // A pod that still ends uses its volume and its share of the quota, and a Deployment that
        // is not scaled down yet may make another one.
        let is_down = observed
            .deployment
            .map(Rollout::new)
            .is_none_or(|it| it.is_down());
        return match is_down && observed.pods.is_empty() {
            true => PhaseMessage::new(Phase::Stopped, "Deployment had stopped"),
            false => PhaseMessage::new(Phase::Stopping, "Deployment is stopping"),
        };
    }
    let Some(rollout) = observed.deployment.map(Rollout::new) else {
        return PhaseMessage::new(Phase::Starting, "Deployment is starting");
    };
    if let Some(failure) = failure(observed).filter(|_| observed.is_applied) {
        return failure.into();
    }
    // A pod that is being deleted gets no requests any more.
    let is_over = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let mut pods = observed.pods.iter();
    let mut all_current = || pods.all(|pod| is_over(pod) || is_current(pod, observed));
    if observed.is_applied && rollout.is_complete() && all_current() {
        PhaseMessage::new(Phase::Ready, "Deployment is ready")
    } else if rollout.ready > 0 {
        PhaseMessage::new(Phase::Updating, "Deployment is updating")
    } else {
        PhaseMessage::new(Phase::Starting, "Deployment is starting")
    }
}

/// The progress of a Deployment.
struct Rollout {
    is_observed: bool,
    wanted: i32,
    replicas: i32,
    updated: i32,
    ready: i32,
}

impl Rollout {
    fn new(deployment: &Deployment) -> Rollout {
        let spec = deployment.spec.as_ref();
        let status = deployment.status.clone().unwrap_or_default();
        Rollout {
            is_observed: status.observed_generation >= deployment.metadata.generation,
            wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
            replicas: status.replicas.unwrap_or(0),
            updated: status.updated_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
        }
    }

    fn is_down(&self) -> bool {
        self.is_observed && self.wanted == 0 && self.replicas == 0
    }

    fn is_complete(&self) -> bool {
        let counts = [self.replicas, self.updated, self.ready];
        self.is_observed && self.wanted > 0 && counts.iter().all(|count| *count == self.wanted)
    }
}

/// A failure that Kubernetes reports.
struct Failure {
    /// One word in PascalCase.
    reason: String,
    /// Details.
    message: String,
}

impl Failure {
    fn new(reason: &str, message: &str) -> Failure {
        Failure {
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl From<Failure> for PhaseMessage {
    fn from(failure: Failure) -> PhaseMessage {
        let Failure { reason, message } = failure;
        PhaseMessage {
            phase: Phase::Error,
            message: format!("{reason}: {message}"),
            failure: Some(reason),
        }
    }
}

/// Why the current pods cannot run. Pods of earlier revisions and pods that end do not count: what
/// was wrong with them may be mended.
fn failure(observed: Observed<'_>) -> Option<Failure> {
    let conditions = observed.deployment?.status.as_ref()?.conditions.as_ref();
    let failed_create = conditions.into_iter().flatten().find(|condition| {
        condition.status == "True" && condition.reason.as_deref() == Some("FailedCreate")
    });
    if let Some(condition) = failed_create {
        let message = condition.message.as_deref().unwrap_or_default();
        return Some(Failure::new("FailedCreate", message));
    }
    let current = observed.pods.iter().filter(|pod| is_current(pod, observed));
    current.filter_map(|pod| pod_failure(pod)).next()
}

fn is_current(pod: &Pod, observed: Observed<'_>) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_owner = |uid: &str| owners.any(|owner| owner.uid == uid);
    pod.metadata.deletion_timestamp.is_none() && observed.replica_set.is_some_and(is_owner)
}

fn pod_failure(pod: &Pod) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let unschedulable =
        conditions.find(|condition| condition.reason.as_deref() == Some("Unschedulable"));
    if let Some(condition) = unschedulable {
        let message = condition.message.as_deref().unwrap_or_default();
        return Some(Failure::new("Unschedulable", message));
    }
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    init.filter_map(|container| container_failure(container, ContainerKind::Init))
        .chain(main.filter_map(|container| container_failure(container, ContainerKind::Main)))
        .next()
}

/// The kind of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContainerKind {
    /// Ends before the others begin.
    Init,
    /// Must not end.
    Main,
}

fn container_failure(container: &ContainerStatus, kind: ContainerKind) -> Option<Failure> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("Waiting");
        // A container that fails again and again: the end of its log says more than the pause.
        let last = container.last_state.as_ref().and_then(end_of_log);
        let message = match (reason, last) {
            ("CrashLoopBackOff", Some(log)) => log,
            // A normal start has no message.
            _ => waiting.message.clone()?,
        };
        return Some(Failure::new(reason, &message));
    }
    let terminated = state.terminated.as_ref()?;
    if kind == ContainerKind::Init && terminated.exit_code == 0 {
        return None;
    }
    let reason = terminated.reason.as_deref().unwrap_or("Terminated");
    match terminated.message.as_deref().unwrap_or_default() {
        "" => {
            let message = format!("exit code {}", terminated.exit_code);
            Some(Failure::new(reason, &message))
        }
        message => Some(Failure::new(reason, message)),
    }
}

fn end_of_log(state: &ContainerState) -> Option<String> {
    let message = state.terminated.as_ref()?.message.clone()?;
    (!message.trim().is_empty()).then_some(message)
}

#[cfg(test)]
mod tests;
