//! `[groups]` and `[instance_types]`: what the platform knows of them, where no object says it.

use std::collections::BTreeMap;

use super::{file::ConfigFile, resolve_datasets, section::ConfigSection, values::labels_of_all};
use crate::controllers::application::{
    group_names,
    instance_type::{Gpu, InstanceType, is_gpu},
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
        let other = section
            .has("volume")
            .then(|| folders.insert(folder.clone(), name.to_owned()));
        if let Some(Some(other)) = other {
            let what = format!("would be mounted at /project/{folder}, as that of {other}");
            section.wrong("volume", what, None);
            is_valid = false;
        }
        let quota = if section.has("quota") {
            section.inner("quota", "groups.quota", |quota| read_quota(&quota))
        } else {
            Some(GroupQuota::default())
        };
        let volume = section.text("volume");
        let datasets = resolve_datasets::grants(&section);
        match (quota, datasets) {
            (Some(quota), Some(datasets)) => {
                let instance_types = section.texts("instance_types").unwrap_or_default();
                let group = Group {
                    volume,
                    quota,
                    display_name: section.text("display_name"),
                    instance_types: instance_types.into_iter().collect(),
                    datasets,
                };
                groups.insert(name.to_owned(), group);
            }
            (None, _) | (_, None) => is_valid = false,
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
    let (cpu, memory) = (processors(section, "cpu")?, section.size("memory")?);
    let cpu_request = processors(section, "cpu_request");
    if cpu_request.is_some_and(|request| request > cpu) {
        section.wrong("cpu_request", "is more than cpu", None);
    }
    let memory_request = section.size("memory_request");
    if memory_request.is_some_and(|request| request > memory) {
        section.wrong("memory_request", "is more than memory", None);
    }
    if memory == 0 {
        section.wrong("memory", "must be more than nothing", None);
    }
    if gpu.as_ref().is_some_and(|gpu| !is_gpu(&gpu.resource)) {
        section.wrong("gpu_resource", "is no resource of GPUs", None);
    }
    let labels = section.texts("node_labels").unwrap_or_default();
    let labels = labels_of_all(section, "node_labels", &labels)?;
    Some(InstanceType {
        name: name.to_owned(),
        cpu_limit: cpu,
        cpu_request,
        memory_limit: Memory(memory),
        memory_request: memory_request.map(Memory),
        gpu,
        node_selector: labels.into_iter().flatten().collect(),
        tolerations: Vec::new(),
    })
}

fn processors(section: &ConfigSection<'_>, key: &'static str) -> Option<MilliCpu> {
    let written = section.decimal(key)?;
    let read = MilliCpu::from_cores(written);
    if read.is_none() {
        section.wrong(key, "must be at least 0.001", None);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_groups_whose_volumes_have_one_folder_one_is_refused_and_both_are_named() {
        let read = |text: &str| {
            let read = ConfigFile::read(text, std::iter::empty(), groups);
            read.map_err(|errors| errors.to_string())
        };
        for (one, other) in [("a_b", "a-b"), ("A-B", "a-b"), ("A_B", "a_b")] {
            let both =
                format!("[groups.{one}]\nvolume = \"x\"\n[groups.{other}]\nvolume = \"y\"\n");
            let errors = read(&both).expect_err("refused");
            let is_named = |of: &str, other: &str| {
                let what = "would be mounted at /project/a-b, as that of";
                errors.contains(&format!("groups.{of}.volume: {what} {other}\n"))
            };
            assert!(is_named(one, other) || is_named(other, one), "{errors}");
            let one_volume = format!("[groups.{one}]\nvolume = \"x\"\n[groups.{other}]\n");
            assert_eq!(read(&one_volume).expect("valid").len(), 2);
        }
    }
}
