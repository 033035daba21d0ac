//! The cluster of the API. It has the definitions, and the installations on all targets: a label
//! names the target of each.

use kube::Client;
use ludgate_cluster::{Cluster, writer::Writer};

/// Owner of the fields that the API writes.
const FIELD_MANAGER: &str = "ludgate-api";

/// The cluster with all definitions and installations.
#[derive(Clone)]
pub(super) struct HomeCluster {
    /// Reads objects.
    pub(super) client: Client,
    /// Writes objects.
    pub(super) writer: Writer,
}

impl HomeCluster {
    /// The cluster of the API.
    pub(super) fn new(cluster: &Cluster) -> HomeCluster {
        let client = cluster.client().clone();
        HomeCluster {
            writer: Writer::new(client.clone(), FIELD_MANAGER),
            client,
        }
    }
}
