//! What all requests share.

use std::{sync::Arc, time::Duration};

use ludgate_cluster::pod_logs::PodLogs;
use ludgate_identity::oidc::Oidc;

use crate::{
    authentication::Authentication,
    operations::Operations,
    schema::{ApiSchema, schema},
};

/// Deadline of a call; clients give up after ten seconds.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(9);

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
