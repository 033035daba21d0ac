//! What the calls depend on.

use ludgate_cluster::Cluster;

use super::{cluster_user::ClusterNames, home_cluster::HomeCluster};

/// The settings of the REST API of applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallationsSettings {
    /// The names of people in the cluster.
    pub names: ClusterNames,
    /// The name of the cluster in the selectors of definitions.
    pub cluster_name: String,
}

/// What the calls depend on.
pub struct InstallationsApi {
    pub(super) home: HomeCluster,
    pub(super) names: ClusterNames,
    pub(super) cluster_name: String,
}

impl InstallationsApi {
    /// The API of a cluster.
    pub fn new(cluster: &Cluster, settings: InstallationsSettings) -> InstallationsApi {
        InstallationsApi {
            home: HomeCluster::new(cluster),
            names: settings.names,
            cluster_name: settings.cluster_name,
        }
    }
}
