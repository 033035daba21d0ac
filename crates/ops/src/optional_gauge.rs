//! A gauge that is absent until it has a value: an alert on `== 0` must not fire for a feature that
//! is not configured.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::MetricType,
};

/// Marks the absent value; no gauge of ours is ever so low.
const ABSENT: i64 = i64::MIN;

/// The gauge. Clones share their value.
#[derive(Clone, Debug)]
pub struct OptionalGauge(Arc<AtomicI64>);

impl Default for OptionalGauge {
    fn default() -> Self {
        OptionalGauge(Arc::new(AtomicI64::new(ABSENT)))
    }
}

impl OptionalGauge {
    /// Sets the value. The gauge is exported from now on.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }
}

impl EncodeMetric for OptionalGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&self.0.load(Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == ABSENT
    }
}
