//! Which apps may run by the quota of their group.
//!
//! Decisions are made one after the other. An admitted app counts at once, before its Deployment is
//! seen: two apps that start together must not both get the last of a quota.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use kube::{ResourceExt, api::DynamicObject};

use super::{
    app::{Application, child_name},
    desired::GROUP_LABEL,
    group_names,
    quota::ResourceAmounts,
    settings::GroupQuota,
    stores::{Stores, app_label},
};
use crate::pods::is_active;

/// The decisions on the apps of a namespace, by their names.
#[derive(Debug, Default)]
pub struct QuotaAdmission(Mutex<HashMap<String, Admitted>>);

/// The decision on an app.
#[derive(Debug)]
enum Admitted {
    /// It may use these amounts.
    Running {
        group: String,
        amounts: ResourceAmounts,
    },
    /// It waits until its group uses less.
    Pending,
}

impl QuotaAdmission {
    /// Lets an app run with these amounts, if the quota of its group allows them.
    ///
    /// # Errors
    /// The exceeded quota. The app is then pending.
    pub fn admit(
        &self,
        app: &Application,
        quota: GroupQuota,
        amounts: ResourceAmounts,
        stores: &Stores,
    ) -> Result<(), String> {
        let mut apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group = &app.spec.group_name;
        let deployment = stores.deployment(&app.child_name());
        let label = group_names::label(group);
        let running = deployment
            .filter(|deployment| deployment.labels().get(GROUP_LABEL) == Some(&label))
            .and_then(|deployment| running_amounts(&deployment));
        // A running app is not stopped when its quota is lowered.
        let decision = if running.is_some_and(|running| !amounts.exceeds(running)) {
            Ok(())
        } else {
            quota.check(group, used_by_others(&apps, app, stores), amounts)
        };
        let admitted = match &decision {
            Ok(()) => Admitted::Running {
                group: group.clone(),
                amounts,
            },
            Err(_exceeded) => Admitted::Pending,
        };
        apps.insert(app.name.clone(), admitted);
        decision
    }

    /// The app is stopped or gone.
    pub fn release(&self, app: &str) {
        let mut apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        apps.remove(app);
    }

    /// The names of the pending apps.
    pub fn pending(&self) -> Vec<String> {
        let apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_pending = |admitted: &Admitted| matches!(admitted, Admitted::Pending);
        let pending = apps.iter().filter(|(_, admitted)| is_pending(admitted));
        pending.map(|(name, _)| name.clone()).collect()
    }
}

/// What a Deployment may use; `None`: it has no pods.
fn running_amounts(deployment: &DynamicObject) -> Option<ResourceAmounts> {
    let spec = &deployment.data["spec"];
    (spec["replicas"].as_u64() != Some(0))
        .then(|| ResourceAmounts::from_containers(&spec["template"]["spec"]["containers"]))
}

/// The limits of the group's other apps, running or admitted, and of its pods that belong to no
/// running app.
fn used_by_others(
    admitted: &HashMap<String, Admitted>,
    app: &Application,
    stores: &Stores,
) -> ResourceAmounts {
    let group = &app.spec.group_name;
    let label = group_names::label(group);
    let mut apps: BTreeMap<String, ResourceAmounts> = BTreeMap::new();
    for deployment in stores.deployments.state() {
        if deployment.labels().get(GROUP_LABEL) == Some(&label)
            && let Some(amounts) = running_amounts(&deployment)
        {
            apps.insert(deployment.name_any(), amounts);
        }
    }
    for (name, admitted) in admitted {
        if let Admitted::Running { group: of, amounts } = admitted
            && of == group
        {
            // While an app grows, its Deployment still has the smaller amounts.
            let used = apps.entry(child_name(name)).or_default();
            *used = used.max(*amounts);
        }
    }
    let own = app.child_name();
    let pods = stores.pods.state_filter(|pod| {
        let is_counted = app_label(pod).is_some_and(|name| name == own || apps.contains_key(name));
        pod.labels().get(GROUP_LABEL) == Some(&label) && !is_counted && is_active(pod)
    });
    apps.remove(&own);
    let pods = pods.iter().map(|pod| ResourceAmounts::from_pod(pod));
    apps.into_values()
        .chain(pods)
        .fold(ResourceAmounts::default(), ResourceAmounts::plus)
}
