//! `InstanceType`.

use async_graphql::{ID, Object, SimpleObject};
use ludgate_controllers::application::quantity::Memory;
use serde_json::Value;

use crate::platform::OfferedInstanceType;

/// An instance type.
pub(super) struct InstanceTypeNode {
    pub(super) offered: OfferedInstanceType,
    /// Whether it is for all groups.
    pub(super) is_global: bool,
}

/// A taint of nodes that pods tolerate.
#[derive(SimpleObject)]
struct Toleration {
    operator: String,
    key: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

/// An amount in GiB.
pub(super) fn gibibytes(memory: Memory) -> f64 {
    // Exact below 2^53 bytes.
    memory.0 as f64 / f64::from(1 << 30)
}

/// A size of pods, and the nodes that they may run on.
#[Object(name = "InstanceType", serial)]
impl InstanceTypeNode {
    async fn id(&self) -> ID {
        self.offered.size.name.as_str().into()
    }

    async fn name(&self) -> &str {
        &self.offered.size.name
    }

    async fn display_name(&self) -> &str {
        self.offered.display_name()
    }

    async fn description(&self) -> Option<&str> {
        self.offered.spec["description"].as_str()
    }

    /// In cores.
    async fn cpu_limit(&self) -> f64 {
        self.offered.size.cpu_limit.cores()
    }

    /// In cores.
    async fn cpu_request(&self) -> Option<f64> {
        self.offered.size.cpu_request.map(|cpu| cpu.cores())
    }

    /// In GiB.
    async fn memory_limit(&self) -> f64 {
        gibibytes(self.offered.size.memory_limit)
    }

    /// In GiB.
    async fn memory_request(&self) -> Option<f64> {
        self.offered.size.memory_request.map(gibibytes)
    }

    async fn gpu_limit(&self) -> i32 {
        let gpu = self.offered.size.gpu.as_ref();
        gpu.map_or(0, |gpu| i32::try_from(gpu.count).unwrap_or(i32::MAX))
    }

    async fn gpu_resource_name(&self) -> Option<&str> {
        let gpu = self.offered.size.gpu.as_ref();
        gpu.map(|gpu| gpu.resource.as_str())
    }

    /// Whether all groups may use it.
    async fn global(&self) -> bool {
        self.is_global
    }

    async fn spec(&self) -> &Value {
        &self.offered.spec
    }

    async fn tolerations(&self) -> Vec<Toleration> {
        let text = |it: &Value, field: &str| it[field].as_str().map(str::to_owned);
        let tolerations = self.offered.size.tolerations.iter();
        let toleration = |it: &Value| Toleration {
            operator: text(it, "operator").unwrap_or_else(|| "Equal".to_owned()),
            key: text(it, "key"),
            value: text(it, "value"),
            effect: text(it, "effect").or_else(|| Some("None".to_owned())),
        };
        tolerations.map(toleration).collect()
    }

    async fn node_selector(&self) -> Value {
        serde_json::json!(self.offered.size.node_selector)
    }
}
