//! What the controller of installations knows besides the objects.

use std::{collections::BTreeSet, path::PathBuf};

use crate::{
    helm::command::ServerSideApply,
    placement::{NamespacePattern, PlacementRules},
    source::SourceSettings,
    validation::source::SourceRules,
};

/// The name of the cluster that the controller runs in.
pub const HOME_TARGET: &str = "self";

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct InstallationSettings {
    /// The program `helm`, as an absolute path.
    pub helm: PathBuf,
    /// The `PATH` of Helm.
    pub path: String,
    /// The folder for charts and for the files of operations. Only this program's user may write to
    /// it, and no other process may use it. `None`: that of the system for temporary files.
    pub folder: Option<PathBuf>,
    /// Whether all namespaces are watched for installations, or those of the cluster's settings.
    pub all_namespaces: bool,
    /// The namespace of the Secrets with credentials and of the Secrets of targets.
    pub home_namespace: String,
    /// The name of this cluster in the selectors of definitions.
    pub cluster_name: String,
    /// The namespace of default and enforced installations; `None`: one for each, with its name.
    pub default_namespace: Option<String>,
    /// The ClusterRole whose rights each target namespace's account has, in that namespace.
    pub cluster_role: String,
    /// Namespaces that no app is installed in, on any cluster.
    pub protected_namespaces: BTreeSet<String>,
    /// The names of namespaces that installations may create.
    pub new_namespaces: Vec<NamespacePattern>,
    /// Whether apps are installed only while the cluster has a node.
    pub needs_nodes: bool,
    /// Where objects of releases are computed.
    pub server_side: ServerSideApply,
    /// How charts are downloaded.
    pub source: SourceSettings,
    /// The rules of addresses in definitions.
    pub source_rules: SourceRules,
}

impl InstallationSettings {
    /// The folder for charts and for the files of operations.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Where installations may have their apps.
    pub fn placement_rules(&self) -> PlacementRules<'_> {
        PlacementRules {
            home_namespace: &self.home_namespace,
            protected_namespaces: &self.protected_namespaces,
            new_namespaces: &self.new_namespaces,
        }
    }
}
