//! Where the pod of a viewer may run, from the claim's access mode and the pods that use it.
//!
//! Invariants: finished pods and the pods of viewers do not count, and the order of pods does not
//! matter. If viewers counted, two of one claim would restart each other for ever.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use ludgate_cluster::crd::viewer::{INSTANCE_LABEL, PART_OF, PART_OF_LABEL};

use super::{
    parsed::Viewer,
    settings::{AffinityMode, ViewerSettings},
};
use crate::pods::is_active;

/// A claim, and what the cluster shows of its use.
#[derive(Clone, Copy)]
pub struct ClaimUse<'a> {
    /// `spec.accessModes`; `None`: there is no such claim.
    pub access_modes: Option<&'a [String]>,
    /// The pods of the namespace, with those of viewers.
    pub pods: &'a [&'a Pod],
}

/// Where the pod of a viewer may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On each node.
    Anywhere,
    /// On this node, where other pods use the volume.
    Node(String),
    /// On none: other pods use the volume, so that the viewer could not mount it.
    InUse(Vec<ClaimUser>),
    /// On none: these pods wait for the volume, which the viewer has, or would get first.
    Yield(Vec<ClaimUser>),
}

/// A pod that uses a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimUser {
    /// Its name.
    pub pod: String,
    /// Its node; `None`: the scheduler has not chosen one.
    pub node: Option<String>,
}

impl fmt::Display for ClaimUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{} on {node}", self.pod),
            None => f.write_str(&self.pod),
        }
    }
}

impl Placement {
    /// The placement of a viewer, as of now. A claim with several modes counts as shared.
    pub fn new(viewer: &Viewer, settings: &ViewerSettings, claim: ClaimUse<'_>) -> Placement {
        let Some([mode]) = claim.access_modes else {
            return Placement::Anywhere;
        };
        let pods = claim.pods.iter().copied();
        let users: Vec<&Pod> = pods
            .filter(|pod| is_active(pod) && mounts(pod, &viewer.claim))
            .collect();
        match mode.as_str() {
            "ReadWriteOnce" => read_write_once(viewer, settings, &users),
            "ReadWriteOncePod" => read_write_once_pod(settings, &users),
            _ => Placement::Anywhere,
        }
    }
}

/// Whether a volume of the pod is this claim.
pub fn mounts(pod: &Pod, claim: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.any(|source| source.claim_name == claim)
}

/// All pods of such a claim must be on one node.
fn read_write_once(viewer: &Viewer, settings: &ViewerSettings, users: &[&Pod]) -> Placement {
    let others = || users.iter().copied().filter(|pod| !is_of_viewer(pod));
    let nodes: BTreeSet<&str> = others().filter_map(node).collect();
    if viewer.rwo_scheduling && nodes.len() > 1 {
        return Placement::InUse(sorted(others().filter(|pod| node(pod).is_some())));
    }
    if settings.yields {
        let own = users.iter().copied().filter(|pod| is_own(pod, viewer));
        let own_nodes: BTreeSet<&str> = own.filter_map(node).collect();
        let is_pinned = viewer.rwo_scheduling && settings.affinity == AffinityMode::Required;
        let is_blocked = |pod: &Pod| match own_nodes.is_empty() {
            false => own_nodes.iter().any(|own| Some(*own) != node(pod)),
            // A viewer that may start on another node would take the volume again, and yield again.
            true => !is_pinned,
        };
        let blocked = sorted(others().filter(|pod| waits_for_volumes(pod) && is_blocked(pod)));
        if !blocked.is_empty() {
            return Placement::Yield(blocked);
        }
    }
    match nodes.first() {
        Some(node) if viewer.rwo_scheduling => Placement::Node((*node).to_owned()),
        Some(_) | None => Placement::Anywhere,
    }
}

/// Such a claim has one pod. Without a node, another pod waits until the viewer is gone.
fn read_write_once_pod(settings: &ViewerSettings, users: &[&Pod]) -> Placement {
    let others = users.iter().copied().filter(|pod| !is_of_viewer(pod));
    let others = sorted(others.filter(|pod| settings.yields || node(pod).is_some()));
    match others.is_empty() {
        true => Placement::Anywhere,
        false => Placement::InUse(others),
    }
}

fn sorted<'p>(pods: impl Iterator<Item = &'p Pod>) -> Vec<ClaimUser> {
    let mut users: Vec<ClaimUser> = pods
        .map(|pod| ClaimUser {
            pod: pod.name_any(),
            node: node(pod).map(str::to_owned),
        })
        .collect();
    users.sort();
    users
}

fn is_of_viewer(pod: &Pod) -> bool {
    pod.labels().get(PART_OF_LABEL).map(String::as_str) == Some(PART_OF)
}

fn is_own(pod: &Pod, viewer: &Viewer) -> bool {
    is_of_viewer(pod) && pod.labels().get(INSTANCE_LABEL) == Some(&viewer.child_name())
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Whether kubelet still has to mount the pod's volumes: it does so before it pulls an image or
/// starts any container. A pod that is being deleted waits for nothing.
fn waits_for_volumes(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let init = status.init_container_statuses.iter().flatten();
    let mut containers = init.chain(status.container_statuses.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && node(pod).is_some()
        && status.phase.as_deref() == Some("Pending")
        && containers.all(is_creating)
}

/// `PodInitializing` is the reason if the pod has init containers.
fn is_creating(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    matches!(reason, Some("ContainerCreating" | "PodInitializing"))
}

#[cfg(test)]
mod tests;
