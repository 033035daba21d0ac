//! What all requests share.

use std::sync::Arc;

use ludgate_cluster::pod_logs::PodLogs;
use ludgate_identity::oidc::Oidc;

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
    pub(crate) oidc: Arc<Oidc>,
}

impl ApiState {
    /// The state of a server of these operations.
    pub fn new(oidc: Arc<Oidc>, operations: Operations, logs: PodLogs) -> ApiState {
        ApiState {
            authentication: Authentication::new(oidc.clone()),
            operations,
            logs,
            schema: schema(),
            oidc,
        }
    }
}
