//! File servers of people, and the pod for administrators of file systems.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{
    affinity::Affinity,
    decode::{Decode, Labels, Place, Section},
    value::ConfigValue,
    volumes::{LabVolume, VolumeMount},
};
use crate::{images::Toleration, quantity::LabResources};

/// WebDAV servers, one per person, all in one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct FileServers {
    /// Path at which a person asks for a server.
    pub path_prefix: String,
    /// Rules for nodes, as Kubernetes has them.
    pub affinity: Option<Value>,
    /// The Argo CD application that shows the objects.
    pub application: Option<String>,
    /// How long a start may take.
    pub creation_timeout: Duration,
    /// How long a stop may take.
    pub delete_timeout: Duration,
    /// Annotations of jobs and pods.
    pub extra_annotations: Labels,
    /// A server without requests for this time stops.
    pub idle_timeout: Duration,
    /// Namespace of all servers.
    pub namespace: String,
    /// Labels of the nodes on which servers run.
    pub node_selector: Labels,
    /// How often the servers are compared with the cluster.
    pub reconcile_interval: Duration,
    /// Resources of a server.
    pub resources: Option<LabResources>,
    /// Tolerations of a server.
    pub tolerations: Vec<Toleration>,
    /// What a server shows.
    pub volume_mounts: Vec<VolumeMount>,
}

/// The pod for administrators of file systems.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesystemAdmin {
    /// Whether the configuration has the section. Without it, the pod cannot be started.
    pub is_enabled: bool,
    /// Rules for nodes, as Kubernetes has them.
    pub affinity: Option<Value>,
    /// Annotations of the pod.
    pub extra_annotations: Labels,
    /// Volumes besides those of labs.
    pub extra_volumes: Vec<LabVolume>,
    /// Mounts besides those of labs.
    pub extra_volume_mounts: Vec<VolumeMount>,
    /// Folder in which all volumes are mounted.
    pub mount_prefix: String,
    /// Labels of the nodes on which the pod runs.
    pub node_selector: Labels,
    /// Name of the pod.
    pub pod_name: String,
    /// Resources of the pod.
    pub resources: Option<LabResources>,
    /// How long starting and stopping may take.
    pub timeout: Duration,
    /// Tolerations of the pod.
    pub tolerations: Vec<Toleration>,
}

impl Default for FilesystemAdmin {
    fn default() -> FilesystemAdmin {
        FilesystemAdmin {
            is_enabled: false,
            affinity: None,
            extra_annotations: BTreeMap::new(),
            extra_volumes: Vec::new(),
            extra_volume_mounts: Vec::new(),
            mount_prefix: String::new(),
            node_selector: BTreeMap::new(),
            pod_name: "fsadmin".to_owned(),
            resources: None,
            timeout: Duration::from_secs(120),
            tolerations: Vec::new(),
        }
    }
}

/// `None` also if the servers are switched off.
pub(super) fn decode_servers(value: &ConfigValue, place: Place<'_>) -> Option<FileServers> {
    let mut section = Section::open(value, place)?;
    // Older versions had an image of its own.
    section.ignore(&["image"]);
    let is_enabled = section.or("enabled", false);
    let path_prefix = section.or("pathPrefix", "/files".to_owned());
    let affinity: Option<Affinity> = section.optional("affinity");
    let application = section.optional("application");
    let creation_timeout = section.or("creationTimeout", Duration::from_secs(120));
    let delete_timeout = section.or("deleteTimeout", Duration::from_secs(60));
    let extra_annotations = section.or("extraAnnotations", Labels::new());
    let idle_timeout = section.or("idleTimeout", Duration::from_secs(3600));
    let namespace: Option<String> = section.optional("namespace");
    if is_enabled && namespace.is_none() {
        section.at("namespace").complain("is missing");
    }
    let node_selector = section.or("nodeSelector", Labels::new());
    let reconcile_interval = section.or("reconcileInterval", Duration::from_secs(3600));
    let resources = section.optional("resources");
    let tolerations = section.or("tolerations", Vec::new());
    let volume_mounts = section.or("volumeMounts", Vec::new());
    section.finish();
    is_enabled.then_some(())?;
    Some(FileServers {
        path_prefix,
        affinity: affinity.map(|affinity| affinity.0),
        application,
        creation_timeout,
        delete_timeout,
        extra_annotations,
        idle_timeout,
        namespace: namespace?,
        node_selector,
        reconcile_interval,
        resources,
        tolerations,
        volume_mounts,
    })
}

impl Decode for FilesystemAdmin {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<FilesystemAdmin> {
        let mut section = Section::open(value, place)?;
        // Older versions had an image of its own. The chart of Phalanx has an application.
        section.ignore(&["application", "command", "image"]);
        let affinity: Option<Affinity> = section.optional("affinity");
        let default = FilesystemAdmin::default();
        let mount_prefix: String = section.or("mountPrefix", String::new());
        let admin = FilesystemAdmin {
            is_enabled: true,
            affinity: affinity.map(|affinity| affinity.0),
            extra_annotations: section.or("extraAnnotations", Labels::new()),
            extra_volumes: section.or("extraVolumes", Vec::new()),
            extra_volume_mounts: section.or("extraVolumeMounts", Vec::new()),
            mount_prefix: mount_prefix.trim_end_matches('/').to_owned(),
            node_selector: section.or("nodeSelector", Labels::new()),
            pod_name: section.or("podName", default.pod_name),
            resources: section.optional("resources"),
            timeout: section.or("timeout", default.timeout),
            tolerations: section.or("tolerations", Vec::new()),
        };
        section.finish();
        Some(admin)
    }
}
