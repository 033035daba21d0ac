//! `User` and `Group`.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result, SimpleObject};
use aws_lc_rs::digest;
use ludgate_controllers::application::settings::Group;
use ludgate_model::principal::Principal;
use serde_json::Value;

use super::{
    call::CallContext,
    instance_type::{InstanceTypeNode, gibibytes},
};
use crate::cluster_objects::DatasetRecord;

/// A person.
pub(super) struct User(pub(super) Arc<Principal>);

/// A person, as the identity provider describes them.
#[Object(serial)]
impl User {
    async fn id(&self) -> ID {
        (&*self.0.subject).into()
    }

    async fn username(&self) -> &str {
        self.0
            .preferred_username
            .as_deref()
            .unwrap_or(&self.0.subject)
    }

    async fn email(&self) -> Option<&str> {
        self.0.email.as_deref()
    }

    /// The whole name: not every name has two parts.
    async fn first_name(&self) -> Option<&str> {
        let has_name = self.0.has_display_name();
        has_name.then_some(&*self.0.display_name)
    }

    async fn last_name(&self) -> Option<&str> {
        None
    }

    async fn is_admin(&self) -> bool {
        self.0.is_admin
    }

    /// The groups of the platform that the person is in.
    async fn groups(&self, context: &Context<'_>) -> Result<Vec<GroupNode>> {
        self.own_groups(context)
    }

    /// The same as `groups`.
    async fn effective_groups(&self, context: &Context<'_>) -> Result<Vec<GroupNode>> {
        self.own_groups(context)
    }
}

impl User {
    fn own_groups(&self, context: &Context<'_>) -> Result<Vec<GroupNode>> {
        let call = context.data::<CallContext>()?;
        let groups = call.platform.groups_of(&self.0);
        Ok(groups
            .map(|(name, group)| GroupNode::new(name, group))
            .collect())
    }
}

/// A group of the platform.
pub(super) struct GroupNode {
    name: String,
    group: Group,
}

/// An image for notebooks. The platform has none.
#[derive(SimpleObject)]
struct Image {
    id: ID,
    name: String,
    display_name: Option<String>,
    description: Option<String>,
    use_image_pull_secret: Option<String>,
    spec: Option<Value>,
}

/// A dataset.
#[derive(SimpleObject)]
struct Dataset {
    id: ID,
    name: String,
    display_name: Option<String>,
    description: Option<String>,
    #[graphql(name = "type")]
    kind: Option<String>,
}

impl Dataset {
    fn new(record: &DatasetRecord) -> Dataset {
        let text = |field: &str| record.spec[field].as_str().map(str::to_owned);
        Dataset {
            id: record.name.as_str().into(),
            name: record.name.clone(),
            display_name: text("displayName").or_else(|| Some(record.name.clone())),
            description: text("description"),
            kind: text("type"),
        }
    }
}

/// Where a group's experiments are tracked. The platform has no such setting.
#[derive(SimpleObject)]
struct MLflow {
    tracking_uri: Option<String>,
    ui_url: Option<String>,
    tracking_envs: Vec<super::application::EnvVar>,
    artifact_envs: Vec<super::application::EnvVar>,
}

impl GroupNode {
    /// A group by its name.
    pub(super) fn new(name: &str, group: &Group) -> GroupNode {
        GroupNode {
            name: name.to_owned(),
            group: group.clone(),
        }
    }

    /// The same for each process and for all time: made of the name. Identity providers need not
    /// tell more than names.
    pub(super) fn id_of(name: &str) -> String {
        let hash = digest::digest(&digest::SHA256, format!("ludgate group {name}").as_bytes());
        let hex: String = hash
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        parts.join("-")
    }
}

/// A group of the platform.
#[Object(name = "Group", serial)]
impl GroupNode {
    async fn id(&self) -> ID {
        GroupNode::id_of(&self.name).into()
    }

    async fn name(&self) -> &str {
        &self.name
    }

    async fn display_name(&self) -> &str {
        self.group.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Quotas of a single person: there are none.
    async fn quota_cpu(&self) -> Option<f64> {
        None
    }

    /// Quotas of a single person: there are none.
    async fn quota_gpu(&self) -> Option<i32> {
        None
    }

    /// Quotas of a single person: there are none.
    async fn quota_memory(&self) -> Option<f64> {
        None
    }

    /// In cores; null: unlimited.
    async fn project_quota_cpu(&self) -> Option<f64> {
        self.group.quota.cpu.map(|cpu| cpu.cores())
    }

    /// Null: unlimited.
    async fn project_quota_gpu(&self) -> Option<i32> {
        let count = |gpu| i32::try_from(gpu).unwrap_or(i32::MAX);
        self.group.quota.gpu.map(count)
    }

    /// In GiB; null: unlimited.
    async fn project_quota_memory(&self) -> Option<f64> {
        self.group.quota.memory.map(gibibytes)
    }

    async fn enabled_shared_volume(&self) -> bool {
        self.group.volume.is_some()
    }

    async fn shared_volume_capacity(&self) -> Option<i32> {
        None
    }

    /// Administrators of the group: there are none.
    async fn admins(&self) -> &str {
        ""
    }

    /// The members that are known: the person who calls. Only the identity provider knows all.
    async fn users(&self, context: &Context<'_>) -> Result<Vec<User>> {
        let call = context.data::<CallContext>()?;
        let own = call.platform.groups_of(&call.person);
        let is_member = own.into_iter().any(|(name, _)| name == self.name);
        Ok(is_member
            .then(|| User(call.person.clone()))
            .into_iter()
            .collect())
    }

    /// The instance types that its apps may have.
    async fn instance_types(&self, context: &Context<'_>) -> Result<Vec<InstanceTypeNode>> {
        let call = context.data::<CallContext>()?;
        let offered = call.instance_types().await?.clone();
        let own = call.platform.of_group(&self.name, offered);
        let node = |offered: crate::platform::OfferedInstanceType| InstanceTypeNode {
            is_global: call.platform.is_global(&offered.size.name),
            offered,
        };
        Ok(own.into_iter().map(node).collect())
    }

    async fn images(&self, mode: Option<String>) -> Vec<Image> {
        let _ = mode;
        Vec::new()
    }

    /// The datasets that its apps get, of those that exist.
    async fn datasets(&self, context: &Context<'_>, mode: Option<String>) -> Result<Vec<Dataset>> {
        let _ = mode;
        let call = context.data::<CallContext>()?;
        let granted = call.platform.datasets(&self.group);
        if granted.is_empty() {
            return Ok(Vec::new());
        }
        let records = call.datasets().await?;
        let find = |name: &&str| records.iter().find(|record| record.name == *name);
        Ok(granted.keys().filter_map(find).map(Dataset::new).collect())
    }

    async fn mlflow(&self) -> Option<MLflow> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_group_never_changes() {
        let id = GroupNode::id_of("phusers");
        assert_eq!(id.len(), 36);
        assert_ne!(id, GroupNode::id_of("phuser"));
        // Clients store it: a new version must not make another one.
        assert_eq!(id, "71fe955c-1349-56f4-74dd-767a2fc09bcb");
    }
}
