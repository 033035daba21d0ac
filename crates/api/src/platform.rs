//! What the configuration says of the platform: its site, groups and instance types.

use std::collections::BTreeMap;

use ludgate_controllers::application::{
    dataset_grant::{self, DatasetAccess, DatasetGrant},
    instance_type::InstanceType,
    settings::{Group, is_for_all},
};
use ludgate_model::{access::GroupName, principal::Principal};
use serde_json::{Map, Value, json};

/// The settings that operations depend on.
#[derive(Clone, Debug)]
pub struct PlatformSettings {
    /// The origin of the site, without a slash at the end.
    pub site_url: String,
    /// The path of all apps, such as `/apps`.
    pub apps_prefix: String,
    /// The groups by name.
    pub groups: BTreeMap<String, Group>,
    /// Instance types besides those of the cluster, by name.
    pub instance_types: BTreeMap<String, InstanceType>,
    /// Datasets of all apps.
    pub datasets: Vec<DatasetGrant>,
}

/// An instance type that people can choose.
#[derive(Clone, Debug)]
pub struct OfferedInstanceType {
    /// The size.
    pub size: InstanceType,
    /// The spec of its object, or one with the same content.
    pub spec: Value,
}

impl PlatformSettings {
    /// Whether a person may see and change the apps of a group.
    pub fn may_manage(person: &Principal, group: &str) -> bool {
        person.is_admin || GroupName::new(group).is_some_and(|group| person.is_in(&group))
    }

    /// The groups that a person is in.
    pub fn groups_of<'a>(
        &'a self,
        person: &'a Principal,
    ) -> impl Iterator<Item = (&'a str, &'a Group)> {
        let is_member = |name: &str| GroupName::new(name).is_some_and(|group| person.is_in(&group));
        let groups = self.groups.iter();
        groups
            .filter(move |(name, _)| is_member(name))
            .map(|(name, group)| (name.as_str(), group))
    }

    /// Whether an instance type is for all groups: no group lists it as its own.
    pub fn is_global(&self, instance_type: &str) -> bool {
        is_for_all(&self.groups, instance_type)
    }

    /// Those of the instance types that the apps of a group may have: its own, and the global ones.
    pub fn of_group(
        &self,
        group: &str,
        offered: Vec<OfferedInstanceType>,
    ) -> Vec<OfferedInstanceType> {
        let group = self.groups.get(group);
        let is_own = |name: &str| group.is_some_and(|group| group.instance_types.contains(name));
        let mut offered = offered;
        offered.retain(|it| is_own(&it.size.name) || self.is_global(&it.size.name));
        offered
    }

    /// The datasets that the apps of a group get, by their names.
    pub fn datasets<'a>(&'a self, group: &'a Group) -> BTreeMap<&'a str, DatasetAccess> {
        dataset_grant::granted(&group.datasets, &self.datasets)
    }

    /// The path of an app, without a slash at the end.
    pub fn app_path(&self, id: &str) -> String {
        format!("{}/{id}", self.apps_prefix)
    }
}

impl OfferedInstanceType {
    /// One of the cluster.
    ///
    /// # Errors
    /// The spec is incomplete.
    pub fn from_object(name: &str, spec: &Value) -> Result<OfferedInstanceType, String> {
        Ok(OfferedInstanceType {
            size: InstanceType::from_spec(name, spec)?,
            spec: spec.clone(),
        })
    }

    /// One of the configuration. Its spec is written as an object would have it.
    pub fn from_settings(size: &InstanceType) -> OfferedInstanceType {
        let mut limits = json!({
            "cpu": size.cpu_limit.cores(),
            "memory": memory_text(size.memory_limit.0),
        });
        let mut spec = json!({ "displayName": size.name });
        if let Some(gpu) = &size.gpu {
            limits["gpu"] = gpu.count.into();
            spec["gpuResourceName"] = gpu.resource.as_str().into();
        }
        spec["limits"] = limits;
        let mut requests = Map::new();
        if let Some(cpu) = size.cpu_request {
            requests.insert("cpu".into(), cpu.cores().into());
        }
        if let Some(memory) = size.memory_request {
            requests.insert("memory".into(), memory_text(memory.0).into());
        }
        if !requests.is_empty() {
            spec["requests"] = requests.into();
        }
        if !size.node_selector.is_empty() {
            spec["nodeSelector"] = json!(size.node_selector);
        }
        OfferedInstanceType {
            size: size.clone(),
            spec,
        }
    }

    /// The name for people.
    pub fn display_name(&self) -> &str {
        let written = self.spec["displayName"].as_str();
        written.unwrap_or(&self.size.name)
    }
}

/// An amount as instance types have it: `G`, `M` and `K` mean the binary units.
fn memory_text(bytes: u64) -> String {
    for (unit, size) in [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)] {
        if bytes.is_multiple_of(size) {
            return format!("{}{unit}", bytes / size);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{instance_type, person, platform};

    #[test]
    fn an_instance_type_that_no_group_lists_is_for_all() {
        let platform = platform();
        let offered = || {
            let mut gpu = instance_type();
            gpu.size.name = "gpu-1".to_owned();
            vec![instance_type(), gpu]
        };
        let names = |group: &str| -> Vec<String> {
            let own = platform.of_group(group, offered());
            own.into_iter().map(|it| it.size.name).collect()
        };
        assert_eq!(names("phusers"), ["cpu-1"]);
        assert_eq!(names("others"), ["cpu-1", "gpu-1"]);
        assert_eq!(names("nowhere"), ["cpu-1"]);
    }

    #[test]
    fn the_groups_of_a_person_are_those_of_the_platform() {
        let platform = platform();
        let person = person(&["phusers", "elsewhere"]);
        let groups: Vec<&str> = platform.groups_of(&person).map(|(name, _)| name).collect();
        assert_eq!(groups, ["phusers"]);
        assert!(PlatformSettings::may_manage(&person, "phusers"));
        assert!(!PlatformSettings::may_manage(&person, "others"));
        assert!(!PlatformSettings::may_manage(&person, ""));
    }

    #[test]
    fn an_instance_type_of_the_configuration_reads_back_as_it_is() {
        let written = instance_type();
        assert_eq!(written.spec["limits"]["memory"], "512M");
        let read = OfferedInstanceType::from_object("cpu-1", &written.spec).expect("valid");
        assert_eq!(read.size, written.size);
        assert_eq!(read.display_name(), "cpu-1");
    }
}
