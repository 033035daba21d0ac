//! What a lab is made from.

use ludgate_model::secret::Secret;

use crate::{
    images::LabImage,
    options::LabSpecification,
    quantity::LabResources,
    state::{LabState, LabStatus},
    user::LabUser,
};

/// What a lab is made from.
pub(super) struct SpawnPlan {
    pub(super) user: LabUser,
    /// With which the lab acts for the person.
    pub(super) token: Option<Secret>,
    pub(super) specification: LabSpecification,
    pub(super) image: LabImage,
    pub(super) resources: LabResources,
    /// Whether a dead lab must be deleted before.
    pub(super) is_replacement: bool,
}

impl SpawnPlan {
    /// The state of the lab until it runs.
    pub(super) fn state(&self) -> LabState {
        let LabSpecification { options, env } = &self.specification;
        LabState {
            options: options.clone(),
            image: self.image.pinned_reference(),
            env: env.clone(),
            status: LabStatus::Pending,
            has_pod: false,
            internal_url: None,
            resources: self.resources,
            quota: self.user.quota.map(|quota| quota.amounts()),
            user: self.user.clone(),
        }
    }
}

/// What is left to do of a spawn.
pub(super) enum SpawnWork {
    /// All.
    Make(Box<SpawnPlan>),
    /// Another process made the objects. The pod has this uid, or is the one that the cluster has.
    Await(Option<String>),
}
