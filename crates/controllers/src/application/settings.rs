//! What the controller of apps knows besides the objects.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    dataset_grant::DatasetGrant,
    quantity::{Memory, MilliCpu},
};
use crate::pod_policy::PodPolicy;

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct ApplicationSettings {
    /// The origin of the site, without a slash at the end.
    pub site_url: String,
    /// The path of all apps, such as `/apps`.
    pub apps_prefix: String,
    /// Put before the names of images that do not contain it, for clusters with a registry of
    /// their own.
    pub image_prefix: Option<String>,
    /// The image that makes an app's folder on the group's volume: Ludgate's own. `None`: kubelet
    /// makes the folder, with the permissions of the volume's root.
    pub folder_image: Option<String>,
    /// Size of the volume of an app whose group has none.
    pub ephemeral_size: Memory,
    /// The claim of PHFS, of which each group has a folder.
    pub phfs: Option<String>,
    /// Datasets of all apps.
    pub datasets: Vec<DatasetGrant>,
    /// Labels of the pods that may send requests to every app: the gateway's, and PrimeHub's.
    pub proxies: Vec<BTreeMap<String, String>>,
    /// Labels of further namespaces whose proxies may do so, besides the app's own namespace.
    pub proxy_namespaces: Vec<BTreeMap<String, String>>,
    /// The rights that apps' pods may ask for.
    pub pods: PodPolicy,
    /// The groups of the platform.
    pub groups: BTreeMap<String, Group>,
    /// Instance types besides those of the cluster, by name.
    pub instance_types: BTreeMap<String, super::instance_type::InstanceType>,
}

impl ApplicationSettings {
    /// Whether the apps of this group may have the instance type: one that the group lists, or one
    /// that no group lists.
    pub fn may_have(&self, group: &Group, instance_type: &str) -> bool {
        group.instance_types.contains(instance_type) || is_for_all(&self.groups, instance_type)
    }
}

/// Whether an instance type is for all groups, since none lists it.
pub fn is_for_all(groups: &BTreeMap<String, Group>, instance_type: &str) -> bool {
    let lists = |group: &Group| group.instance_types.contains(instance_type);
    !groups.values().any(lists)
}

/// A group, as far as its apps are concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The claim of the volume that its apps share.
    pub volume: Option<String>,
    /// What its pods may use together.
    pub quota: GroupQuota,
    /// The name for people; `None`: the group's name.
    pub display_name: Option<String>,
    /// Instance types that only its apps, and those of other groups with them, may have.
    pub instance_types: BTreeSet<String>,
    /// Datasets of its apps, besides those of all apps.
    pub datasets: Vec<DatasetGrant>,
}

/// What all pods of a group may use together; `None`: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupQuota {
    /// CPU.
    pub cpu: Option<MilliCpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// GPUs.
    pub gpu: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::samples;

    #[test]
    fn an_instance_type_that_a_group_lists_is_for_such_groups_only() {
        let mut settings = samples::settings();
        let group = |types: &[&str]| Group {
            instance_types: types.iter().map(|name| (*name).to_owned()).collect(),
            ..Group::default()
        };
        let (ml, web) = (group(&["gpu-8"]), group(&[]));
        settings.groups.insert("ml".to_owned(), ml.clone());
        settings.groups.insert("web".to_owned(), web.clone());
        assert!(settings.may_have(&ml, "gpu-8") && !settings.may_have(&web, "gpu-8"));
        assert!(settings.may_have(&ml, "cpu-1") && settings.may_have(&web, "cpu-1"));
    }
}
