//! Which apps may run by the quota of their group.
//!
//! Decisions are made one after the other. An app that was let in counts at once, before its
//! Deployment is seen: two apps that start together must not both get the last room.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use kube::{ResourceExt, api::DynamicObject};

use super::{
    app::Application,
    desired::GROUP,
    group_names,
    quota::Amounts,
    settings::GroupQuota,
    stores::{Stores, app_label},
};

/// The apps that were let in or wait, by uid.
#[derive(Debug, Default)]
pub struct Admission(Mutex<HashMap<String, Entry>>);

/// An app.
#[derive(Debug)]
struct Entry {
    group: String,
    child_name: String,
    /// `None`: it waits for room.
    amounts: Option<Amounts>,
}

impl Admission {
    /// Lets an app run with these amounts, if its group has room.
    ///
    /// # Errors
    /// The exceeded quota. The app then waits.
    pub fn admit(
        &self,
        app: &Application,
        quota: GroupQuota,
        amounts: Amounts,
        stores: &Stores,
    ) -> Result<(), String> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group = &app.spec.group_name;
        let running = running_amounts(stores, &app.child_name());
        // What runs keeps its room, also below a quota that was lowered.
        let keeps = running.is_some_and(|running| !amounts.exceeds(running));
        let decision = match keeps {
            true => Ok(()),
            false => quota.check(group, used_by_others(&entries, app, stores), amounts),
        };
        let entry = Entry {
            group: group.clone(),
            child_name: app.child_name(),
            amounts: decision.is_ok().then_some(amounts),
        };
        entries.insert(app.uid.clone(), entry);
        decision
    }

    /// The app is stopped or gone.
    pub fn release(&self, uid: &str) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(uid);
    }

    /// The names of the apps that wait for room.
    pub fn waiting(&self) -> Vec<String> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = entries.values().filter(|entry| entry.amounts.is_none());
        let names = waiting.filter_map(|entry| entry.child_name.strip_prefix("app-"));
        names.map(str::to_owned).collect()
    }
}

/// What the running Deployment of an app may use; `None`: it does not run.
fn running_amounts(stores: &Stores, child_name: &str) -> Option<Amounts> {
    let deployment = stores.find(&stores.deployments, &stores.kinds.deployments, child_name)?;
    deployment_amounts(&deployment)
}

fn deployment_amounts(deployment: &DynamicObject) -> Option<Amounts> {
    let spec = &deployment.data["spec"];
    (spec["replicas"].as_u64() != Some(0))
        .then(|| Amounts::from_containers(&spec["template"]["spec"]["containers"]))
}

/// The sum over the group's Deployments that run, its apps that were let in and have no Deployment
/// yet, and its other pods: of stopped apps that still end, and of no app.
fn used_by_others(entries: &HashMap<String, Entry>, app: &Application, stores: &Stores) -> Amounts {
    let group = &app.spec.group_name;
    let label = group_names::label(group);
    let mut counted = vec![app.child_name()];
    let mut used = Amounts::default();
    for deployment in stores.deployments.state() {
        let name = deployment.name_any();
        if deployment.labels().get(GROUP) != Some(&label) || counted.contains(&name) {
            continue;
        }
        if let Some(amounts) = deployment_amounts(&deployment) {
            used = used.plus(amounts);
            counted.push(name);
        }
    }
    for entry in entries.values() {
        let Some(amounts) = entry.amounts.filter(|_| entry.group == *group) else {
            continue;
        };
        if !counted.contains(&entry.child_name) && exists(stores, &entry.child_name) {
            used = used.plus(amounts);
            counted.push(entry.child_name.clone());
        }
    }
    let pods = stores.pods.state_filter(|pod| {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let is_counted = app_label(pod).is_some_and(|name| counted.iter().any(|it| it == name));
        pod.labels().get(GROUP) == Some(&label)
            && !is_counted
            && matches!(phase, Some("Pending" | "Running") | None)
    });
    let pods = pods.iter().map(|pod| Amounts::from_pod(pod));
    pods.fold(used, Amounts::plus)
}

fn exists(stores: &Stores, child_name: &str) -> bool {
    let id = child_name.strip_prefix("app-").unwrap_or_default();
    stores.find(&stores.apps, &stores.kinds.apps, id).is_some()
}
