//! Sizes of pods: `InstanceType` objects of the cluster, or `[instance_types]` of the
//! configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::quantity::{Memory, MilliCpu};

/// Resource of NVIDIA's GPUs; older instance types have it as a key.
const NVIDIA: &str = "nvidia.com/gpu";

/// The size of a pod, and the nodes it may run on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InstanceType {
    /// The name that an app refers to.
    pub name: String,
    /// CPU limit.
    pub cpu_limit: MilliCpu,
    /// CPU request; `None`: the limit.
    pub cpu_request: Option<MilliCpu>,
    /// Memory limit.
    pub memory_limit: Memory,
    /// Memory request; `None`: the limit.
    pub memory_request: Option<Memory>,
    /// GPUs.
    pub gpu: Option<Gpu>,
    /// Labels of the nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints of nodes, as a pod has them.
    pub tolerations: Vec<Value>,
}

/// GPUs of a pod.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// The resource, such as `nvidia.com/gpu`.
    pub resource: String,
    /// Their number.
    pub count: u64,
}

impl InstanceType {
    /// Some size, to make the objects of an app that no cluster gets.
    pub fn sample() -> InstanceType {
        InstanceType {
            name: "sample".into(),
            cpu_limit: MilliCpu(1000),
            cpu_request: None,
            memory_limit: Memory(1 << 30),
            memory_request: None,
            gpu: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
        }
    }

    /// Reads the spec of an `InstanceType`.
    ///
    /// # Errors
    /// The reason, for the app's status.
    pub fn from_spec(name: &str, spec: &Value) -> Result<InstanceType, String> {
        let limits = &spec["limits"];
        let bad = |what: &str| format!("instance type {name}: {what}");
        let cpu_limit = cpu(&limits["cpu"]).ok_or_else(|| bad("limits.cpu is no number"))?;
        let memory_limit = memory(&limits["memory"]);
        let memory_limit = memory_limit.ok_or_else(|| bad("limits.memory is no amount"))?;
        let texts = |value: &Value| -> BTreeMap<String, String> {
            let entries = value.as_object().into_iter().flatten();
            let texts =
                entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            texts.collect()
        };
        Ok(InstanceType {
            name: name.to_owned(),
            cpu_limit,
            cpu_request: cpu(&spec["requests"]["cpu"]),
            memory_limit,
            memory_request: memory(&spec["requests"]["memory"]),
            gpu: gpu(spec)
                .map(|gpu| match is_gpu(&gpu.resource) {
                    true => Ok(gpu),
                    false => Err(bad("gpuResourceName is no resource of GPUs")),
                })
                .transpose()?,
            node_selector: texts(&spec["nodeSelector"]),
            tolerations: spec["tolerations"].as_array().cloned().unwrap_or_default(),
        })
    }

    /// `resources` of the app's container.
    pub fn resources(&self) -> Value {
        let mut limits = json!({
            "cpu": self.cpu_limit.to_string(),
            "memory": self.memory_limit.to_string(),
        });
        if let Some(gpu) = &self.gpu {
            limits[&gpu.resource] = gpu.count.to_string().into();
        }
        let mut requests = Map::new();
        if let Some(cpu) = self.cpu_request {
            requests.insert("cpu".into(), cpu.to_string().into());
        }
        if let Some(memory) = self.memory_request {
            requests.insert("memory".into(), memory.to_string().into());
        }
        let mut resources = json!({ "limits": limits });
        if !requests.is_empty() {
            resources["requests"] = requests.into();
        }
        resources
    }
}

/// Whether an extended resource counts as GPUs: `nvidia.com/gpu`, parts of one such as
/// `nvidia.com/mig-1g.5gb`, and those of other makers.
pub fn is_gpu(resource: &str) -> bool {
    const MAKERS: [&str; 3] = ["nvidia.com/", "amd.com/", "gpu.intel.com/"];
    resource.ends_with("/gpu") || MAKERS.iter().any(|maker| resource.starts_with(maker))
}

fn cpu(value: &Value) -> Option<MilliCpu> {
    match value.as_str() {
        Some(text) => MilliCpu::parse(text),
        None => value.as_f64().and_then(MilliCpu::from_cores),
    }
}

fn memory(value: &Value) -> Option<Memory> {
    value.as_str().and_then(Memory::parse_instance_type)
}

fn gpu(spec: &Value) -> Option<Gpu> {
    let named = spec["gpuResourceName"]
        .as_str()
        .filter(|name| !name.is_empty());
    let limits = &spec["limits"];
    let (resource, count) = match named {
        Some(resource) => (resource, &limits["gpu"]),
        None if limits[NVIDIA].is_null() => (NVIDIA, &limits["gpu"]),
        None => (NVIDIA, &limits[NVIDIA]),
    };
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    (count > 0).then(|| Gpu {
        resource: resource.to_owned(),
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_becomes_the_resources_of_a_container() {
        let spec = json!({
            "limits": { "cpu": 1.5, "memory": "8G", "gpu": 2 },
            "requests": { "cpu": 0.5, "memory": "512M" },
            "gpuResourceName": "amd.com/gpu",
            "nodeSelector": { "disk": "ssd" },
            "tolerations": [{ "operator": "Exists" }],
        });
        let read = InstanceType::from_spec("big", &spec).expect("valid");
        assert_eq!(
            read.resources(),
            json!({
                "limits": { "cpu": "1500m", "memory": "8Gi", "amd.com/gpu": "2" },
                "requests": { "cpu": "500m", "memory": "512Mi" },
            })
        );
        assert_eq!(read.node_selector["disk"], "ssd");
        assert_eq!(read.tolerations.len(), 1);
    }

    #[test]
    fn the_older_key_of_gpus_counts() {
        let spec = json!({ "limits": { "cpu": 1, "memory": "1G", "nvidia.com/gpu": 1 } });
        let read = InstanceType::from_spec("gpu", &spec).expect("valid");
        assert_eq!(read.resources()["limits"]["nvidia.com/gpu"], "1");
        let none = json!({ "limits": { "cpu": 1, "memory": "1G", "gpu": 0 } });
        let none = InstanceType::from_spec("cpu", &none).expect("valid");
        assert_eq!(none.gpu, None);
    }

    #[test]
    fn an_incomplete_spec_is_named() {
        for (spec, wanted) in [
            (json!({}), "instance type x: limits.cpu is no number"),
            (
                json!({ "limits": { "cpu": 1 } }),
                "instance type x: limits.memory is no amount",
            ),
            (
                json!({ "limits": { "cpu": 1, "memory": "much" } }),
                "instance type x: limits.memory is no amount",
            ),
        ] {
            assert_eq!(InstanceType::from_spec("x", &spec), Err(wanted.to_owned()));
        }
    }
}
