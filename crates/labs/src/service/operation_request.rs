//! What an operation is to do, in the form in which replicas share it.

use std::{collections::BTreeSet, fmt};

use ludgate_model::secret::Secret;
use serde::{Deserialize, Serialize};

use super::spawn_plan::SpawnPlan;
use crate::{
    images::LabImage, options::LabSpecification, quantity::LabResources, state::LabState,
    tag::ImageTag, user::LabUser,
};

/// What an operation is to do.
#[derive(Clone, Debug, Default)]
pub(super) struct OperationRequest {
    /// Digest of the key of the client's request.
    pub(super) key: Option<String>,
    /// What a lab is made from. A spawn whose pod was found in the cluster has none.
    pub(super) plan: Option<StoredPlan>,
    /// UID of the pod, once it is made.
    pub(super) pod: Option<String>,
}

/// What a lab is made from.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct StoredPlan {
    user: LabUser,
    #[serde(with = "exposed")]
    token: Option<Secret>,
    specification: LabSpecification,
    image: StoredImage,
    resources: LabResources,
    is_replacement: bool,
}

/// The parts of an image that the objects of a lab name.
#[derive(Clone, Deserialize, Serialize)]
struct StoredImage {
    registry: String,
    repository: String,
    tag: String,
    display_name: String,
    digest: String,
}

/// It holds tokens.
impl fmt::Debug for StoredPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredPlan")
    }
}

impl From<&SpawnPlan> for StoredPlan {
    fn from(plan: &SpawnPlan) -> StoredPlan {
        let image = &plan.image;
        StoredPlan {
            user: plan.user.clone(),
            token: plan.token.clone(),
            specification: plan.specification.clone(),
            image: StoredImage {
                registry: image.registry.clone(),
                repository: image.repository.clone(),
                tag: image.tag.tag.clone(),
                display_name: image.tag.display_name.clone(),
                digest: image.digest.clone(),
            },
            resources: plan.resources,
            is_replacement: plan.is_replacement,
        }
    }
}

impl StoredPlan {
    /// The plan, for the process that goes on with it.
    pub(super) fn to_plan(&self) -> SpawnPlan {
        let image = &self.image;
        SpawnPlan {
            user: self.user.clone(),
            token: self.token.clone(),
            specification: self.specification.clone(),
            image: LabImage {
                tag: ImageTag {
                    display_name: image.display_name.clone(),
                    ..ImageTag::parse(&image.tag)
                },
                registry: image.registry.clone(),
                repository: image.repository.clone(),
                digest: image.digest.clone(),
                size: None,
                aliases: BTreeSet::new(),
                alias_target: None,
                nodes: BTreeSet::new(),
            },
            resources: self.resources,
            is_replacement: self.is_replacement,
        }
    }

    /// The state of the lab until it runs.
    pub(super) fn state(&self) -> LabState {
        self.to_plan().state()
    }
}

/// The token as text, inside of what is sealed.
mod exposed {
    use ludgate_model::secret::Secret;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        token: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        token.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        dialect::Dialect,
        quantity::{CpuCores, LabAmounts, MemoryBytes},
        size::NotebookQuota,
        user::LabGroup,
    };

    #[test]
    fn a_plan_is_the_same_after_it_was_stored() {
        let body = json!({
            "options": { "image_class": "recommended", "size": "small", "enable_debug": true },
            "env": { "JUPYTERHUB_SERVICE_PREFIX": "/nb/user/rachel/", "TOKEN": "of the hub" },
        });
        let amounts = LabAmounts {
            cpu: CpuCores::new(0.3).unwrap(),
            memory: MemoryBytes(1 << 30),
        };
        let plan = SpawnPlan {
            user: LabUser {
                username: "rachel".to_owned(),
                name: None,
                uid: 1101,
                gid: 1102,
                groups: vec![LabGroup {
                    name: "rachel".to_owned(),
                    id: 1102,
                }],
                quota: Some(NotebookQuota {
                    cpu: CpuCores::new(1.7).unwrap(),
                    memory: MemoryBytes(2 << 30),
                    may_spawn: true,
                }),
            },
            token: Some(Secret::new("of the person")),
            specification: LabSpecification::parse(&body, Dialect::Nublado).unwrap(),
            image: LabImage {
                tag: ImageTag {
                    display_name: "Recommended (Weekly 2077_43)".to_owned(),
                    ..ImageTag::parse("recommended")
                },
                registry: "registry.example.com".to_owned(),
                repository: "a/b".to_owned(),
                digest: "sha256:1234".to_owned(),
                size: Some(7),
                aliases: BTreeSet::new(),
                alias_target: None,
                nodes: BTreeSet::new(),
            },
            resources: LabResources {
                limits: amounts,
                requests: amounts,
            },
            is_replacement: true,
        };
        let stored = StoredPlan::from(&plan);
        assert!(!format!("{stored:?}").contains("person"));
        let text = serde_json::to_string(&stored).unwrap();
        let read: StoredPlan = serde_json::from_str(&text).unwrap();
        let read = read.to_plan();
        assert_eq!(read.state(), plan.state());
        assert_eq!(read.specification, plan.specification);
        assert_eq!(
            read.token.as_ref().map(Secret::expose),
            Some("of the person")
        );
        let image = &read.image;
        assert_eq!(image.pinned_reference(), plan.image.pinned_reference());
        assert_eq!(image.tag.display_name, plan.image.tag.display_name);
        assert!(read.is_replacement);
    }
}
