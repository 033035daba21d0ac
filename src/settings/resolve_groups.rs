//! `[groups]` and `[instance_types]`: what the platform knows of them, where no object says it.

use std::collections::BTreeMap;

use super::{file::ConfigFile, section::ConfigSection, values::labels_of_all};
use crate::controllers::application::{
    group_names,
    instance_type::{Gpu, InstanceType},
    quantity::{Memory, MilliCpu},
    settings::{Group, GroupQuota},
};

/// The groups by name. `None` only together with an error.
pub(super) fn groups(file: &ConfigFile<'_>) -> Option<BTreeMap<String, Group>> {
    let mut groups = BTreeMap::new();
    let mut folders: BTreeMap<String, String> = BTreeMap::new();
    let mut is_valid = true;
    file.each_named("groups", |name, section| {
        let folder = group_names::directory(name);
        if let Some(other) = folders.insert(folder.clone(), name.to_owned()) {
            let what = format!("has the same folder as {other}: /project/{folder}");
            section.wrong("volume", what, None);
            is_valid = false;
        }
        let quota = if section.has("quota") {
            section.inner("quota", "groups.quota", |quota| read_quota(&quota))
        } else {
            Some(GroupQuota::default())
        };
        let volume = section.text("volume");
        match quota {
            Some(quota) => {
                groups.insert(name.to_owned(), Group { volume, quota });
            }
            None => is_valid = false,
        }
    });
    is_valid.then_some(groups)
}

fn read_quota(section: &ConfigSection<'_>) -> GroupQuota {
    GroupQuota {
        cpu: match section.decimal("cpu") {
            Some(0.0) => Some(MilliCpu(0)),
            Some(_) => processors(section, "cpu"),
            None => None,
        },
        memory: section.size("memory").map(Memory),
        gpu: section.number("gpu"),
    }
}

/// The instance types by name. `None` only together with an error.
pub(super) fn instance_types(file: &ConfigFile<'_>) -> Option<BTreeMap<String, InstanceType>> {
    let mut types = BTreeMap::new();
    let mut is_valid = true;
    file.each_named("instance_types", |name, section| {
        match instance_type(name, &section) {
            Some(read) => {
                types.insert(name.to_owned(), read);
            }
            None => is_valid = false,
        }
    });
    is_valid.then_some(types)
}

fn instance_type(name: &str, section: &ConfigSection<'_>) -> Option<InstanceType> {
    for key in ["cpu", "memory"] {
        if !section.has(key) {
            section.missing(key);
        }
    }
    let resource = section.text("gpu_resource");
    let gpu = section.number("gpu").filter(|count| *count > 0);
    let gpu = gpu.map(|count| Gpu {
        resource: resource.unwrap_or_else(|| "nvidia.com/gpu".to_owned()),
        count,
    });
    let labels = section.texts("node_labels").unwrap_or_default();
    let labels = labels_of_all(section, "node_labels", &labels)?;
    Some(InstanceType {
        name: name.to_owned(),
        cpu_limit: processors(section, "cpu")?,
        cpu_request: processors(section, "cpu_request"),
        memory_limit: Memory(section.size("memory")?),
        memory_request: section.size("memory_request").map(Memory),
        gpu,
        node_selector: labels.into_iter().flatten().collect(),
        tolerations: Vec::new(),
    })
}

fn processors(section: &ConfigSection<'_>, key: &'static str) -> Option<MilliCpu> {
    let written = section.decimal(key)?;
    let read = MilliCpu::from_cores(written);
    if read.is_none() {
        section.wrong(key, "must be more than nothing", None);
    }
    read
}
