//! What all requests share.

use ludgate_cluster::pod_logs::PodLogs;

use crate::{
    authentication::Authentication,
    operations::Operations,
    schema::{ApiSchema, schema},
};

/// What all requests share.
pub struct ApiState {
    pub(crate) authentication: Authentication,
    pub(crate) operations: Operations,
    pub(crate) logs: PodLogs,
    pub(crate) schema: ApiSchema,
}

impl ApiState {
    /// The state of a server of these operations.
    pub fn new(authentication: Authentication, operations: Operations, logs: PodLogs) -> ApiState {
        ApiState {
            authentication,
            operations,
            logs,
            schema: schema(),
        }
    }
}
