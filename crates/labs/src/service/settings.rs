//! What the service of labs depends on besides the cluster.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::operation_store::OperationStoreSettings;
use crate::{
    config::{ContainerImage, LabsConfig},
    dialect::Dialect,
    environment::SiteUrls,
};

/// What the service depends on besides the cluster.
#[derive(Clone, Debug)]
pub struct LabServiceSettings {
    /// The configuration.
    pub config: Arc<LabsConfig>,
    /// Whose names the objects have.
    pub dialect: Dialect,
    /// Where the site is.
    pub urls: SiteUrls,
    /// The discovery document that labs find in a file.
    pub discovery: Option<Value>,
    /// Peers of NetworkPolicies that connect to labs besides the hub.
    pub peers: Vec<Value>,
    /// Image of the standard containers that run before a lab.
    pub helper_image: Option<ContainerImage>,
    /// Namespace of the Lease, and of the Secrets that labs get.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Of this process. Two of one name would both lead.
    pub identity: String,
    /// How replicas share operations; `None`: the one with the Lease has all of them.
    pub store: Option<OperationStoreSettings>,
    /// How long a watch lasts.
    pub watch: Duration,
    /// Maximum number of calls to the API server at the same time, of all operations.
    pub max_calls: usize,
}
