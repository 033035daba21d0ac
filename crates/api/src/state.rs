//! What all requests share.

use std::{sync::Arc, time::Duration};

use ludgate_cluster::pod_logs::PodLogs;
use ludgate_identity::oidc::Oidc;

use crate::{
    authentication::Authentication,
    installations::service::InstallationsApi,
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
    pub(crate) signs_in_by_device: bool,
    pub(crate) installations: Option<InstallationsApi>,
}

impl ApiState {
    /// The state of a server of these operations. `signs_in_by_device`: people may get API tokens
    /// by device codes. `installations`: the REST API of applications, if it is on.
    pub fn new(
        oidc: Arc<Oidc>,
        operations: Operations,
        logs: PodLogs,
        signs_in_by_device: bool,
        installations: Option<InstallationsApi>,
    ) -> ApiState {
        ApiState {
            authentication: Authentication::new(oidc.clone()),
            operations,
            logs,
            schema: schema(),
            oidc,
            signs_in_by_device,
            installations,
        }
    }
}
