//! Whether a group's pods leave room for an app: by their limits, as PrimeHub counts.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{
    instance_type::{InstanceType, is_gpu},
    quantity::{Memory, MilliCpu},
    settings::GroupQuota,
};

/// What pods use, or may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAmounts {
    /// CPU.
    pub cpu: MilliCpu,
    /// Memory.
    pub memory: Memory,
    /// GPUs.
    pub gpu: u64,
}

impl ResourceAmounts {
    /// The limits of an instance type.
    pub fn from_instance_type(instance_type: &InstanceType) -> ResourceAmounts {
        ResourceAmounts {
            cpu: instance_type.cpu_limit,
            memory: instance_type.memory_limit,
            gpu: instance_type.gpu.as_ref().map_or(0, |gpu| gpu.count),
        }
    }

    /// The limits of all containers of a pod's spec.
    pub fn from_containers(containers: &Value) -> ResourceAmounts {
        let containers = containers.as_array().map(Vec::as_slice).unwrap_or_default();
        let limits = containers
            .iter()
            .map(|container| &container["resources"]["limits"]);
        limits
            .map(limits_of)
            .fold(ResourceAmounts::default(), ResourceAmounts::plus)
    }

    /// The limits of a pod.
    pub fn from_pod(pod: &Pod) -> ResourceAmounts {
        let containers = pod.spec.as_ref().map(|spec| &spec.containers);
        containers.map_or_else(ResourceAmounts::default, |containers| {
            let value = serde_json::to_value(containers).unwrap_or_default();
            ResourceAmounts::from_containers(&value)
        })
    }

    /// The larger of each.
    pub fn max(self, other: ResourceAmounts) -> ResourceAmounts {
        ResourceAmounts {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            gpu: self.gpu.max(other.gpu),
        }
    }

    /// Both together.
    pub fn plus(self, other: ResourceAmounts) -> ResourceAmounts {
        ResourceAmounts {
            cpu: MilliCpu(self.cpu.0.saturating_add(other.cpu.0)),
            memory: Memory(self.memory.0.saturating_add(other.memory.0)),
            gpu: self.gpu.saturating_add(other.gpu),
        }
    }

    /// Whether some amount is larger than the other's.
    pub fn exceeds(self, other: ResourceAmounts) -> bool {
        self.cpu > other.cpu || self.memory > other.memory || self.gpu > other.gpu
    }
}

/// The API accepts only valid amounts. Forms that `quantity` does not know count as nothing.
fn limits_of(limits: &Value) -> ResourceAmounts {
    let text = |name: &str| limits[name].as_str();
    let entries = limits.as_object().into_iter().flatten();
    let gpus = entries.filter(|(name, _)| is_gpu(name));
    ResourceAmounts {
        cpu: text("cpu").and_then(MilliCpu::parse).unwrap_or_default(),
        memory: text("memory").and_then(Memory::parse).unwrap_or_default(),
        gpu: gpus
            .filter_map(|(_, count)| count.as_str()?.parse::<u64>().ok())
            .sum(),
    }
}

impl GroupQuota {
    /// Checks whether there is room for more beside what is used.
    ///
    /// # Errors
    /// The first quota that would be exceeded, in PrimeHub's words.
    pub fn check(
        &self,
        group: &str,
        used: ResourceAmounts,
        more: ResourceAmounts,
    ) -> Result<(), String> {
        let after = used.plus(more);
        let refusal = |what: &str, quota: String, requested: String| {
            Err(format!(
                "Group {group} exceeded {what} quota: {quota}, requesting {requested}"
            ))
        };
        if let Some(quota) = self.cpu.filter(|quota| after.cpu > *quota) {
            return refusal("cpu", quota.cores().to_string(), decimal(after.cpu.cores()));
        }
        if let Some(quota) = self.gpu.filter(|quota| after.gpu > *quota) {
            return refusal("gpu", quota.to_string(), after.gpu.to_string());
        }
        if let Some(quota) = self.memory.filter(|quota| after.memory > *quota) {
            return refusal("memory", quota.to_string(), after.memory.to_string());
        }
        Ok(())
    }
}

/// With a digit behind the point, as the words of PrimeHub have it.
fn decimal(number: f64) -> String {
    format!("{number:?}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const QUOTA: GroupQuota = GroupQuota {
        cpu: Some(MilliCpu(2000)),
        memory: Some(Memory(4 << 30)),
        gpu: Some(0),
    };

    fn amounts(cpu: u64, gib: u64, gpu: u64) -> ResourceAmounts {
        ResourceAmounts {
            cpu: MilliCpu(cpu),
            memory: Memory(gib << 30),
            gpu,
        }
    }

    #[test]
    fn the_first_exceeded_quota_is_named() {
        let check = |used, more| QUOTA.check("phusers", used, more);
        assert_eq!(check(amounts(1000, 1, 0), amounts(1000, 3, 0)), Ok(()));
        for (used, more, wanted) in [
            (
                amounts(1000, 1, 0),
                amounts(2000, 9, 1),
                "Group phusers exceeded cpu quota: 2, requesting 3.0",
            ),
            (
                amounts(0, 0, 0),
                amounts(1, 9, 1),
                "Group phusers exceeded gpu quota: 0, requesting 1",
            ),
            (
                amounts(0, 3, 0),
                amounts(1, 2, 0),
                "Group phusers exceeded memory quota: 4Gi, requesting 5Gi",
            ),
        ] {
            assert_eq!(check(used, more), Err(wanted.to_owned()));
        }
        let none = GroupQuota::default();
        assert_eq!(
            none.check("any", amounts(9, 9, 9), amounts(9, 9, 9)),
            Ok(())
        );
    }

    #[test]
    fn limits_of_all_containers_count() {
        let containers = json!([
            { "resources": { "limits": { "cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1" } } },
            { "resources": { "limits": { "cpu": "1", "memory": "512Mi" } } },
            { "resources": {} },
        ]);
        let wanted = ResourceAmounts {
            cpu: MilliCpu(1500),
            memory: Memory(1536 << 20),
            gpu: 1,
        };
        assert_eq!(ResourceAmounts::from_containers(&containers), wanted);
    }
}
