//! The pod for administrators of file systems: root, with all volumes of labs.

use serde_json::{Value, json};

use crate::{
    config::{ContainerImage, FilesystemAdmin, LabConfig, LabVolume, VolumeMount, VolumeSource},
    images::Toleration,
    metadata::{ObjectMetadata, annotate},
};

/// The objects of the pod for administrators.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesystemAdminObjects {
    /// Claims of volumes.
    pub claims: Vec<Value>,
    /// The pod.
    pub pod: Value,
}

/// The objects in the namespace of the controller.
pub fn filesystem_admin(
    config: &FilesystemAdmin,
    lab: &LabConfig,
    image: &ContainerImage,
    namespace: &str,
) -> FilesystemAdminObjects {
    let metadata = ObjectMetadata {
        category: "fsadmin",
        username: None,
        application: None,
    };
    let name = &config.pod_name;
    let mounts = config.mounts(lab);
    let volumes: Vec<&LabVolume> = lab
        .volumes
        .iter()
        .chain(&config.extra_volumes)
        .filter(|volume| mounts.iter().any(|mount| mount.volume == volume.name))
        .collect();
    let claims = volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { template, .. } => Some(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata.named(&volume.claim_name(name), Some(namespace)),
            "spec": template.to_spec(),
        })),
        VolumeSource::HostPath(_) | VolumeSource::Nfs { .. } => None,
    });
    let mut pod_metadata = metadata.named(name, Some(namespace));
    annotate(&mut pod_metadata, &config.extra_annotations);
    let volumes = volumes.iter().map(|volume| volume.to_pod(name)).collect();
    FilesystemAdminObjects {
        claims: claims.collect(),
        pod: json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": pod_metadata,
            "spec": config.pod(image, &mounts, volumes),
        }),
    }
}

impl FilesystemAdmin {
    /// All mounts of labs and its own, below the prefix. All can be written.
    fn mounts(&self, lab: &LabConfig) -> Vec<VolumeMount> {
        let mounts = lab.volume_mounts.iter().chain(&self.extra_volume_mounts);
        let below_prefix = mounts.map(|mount| VolumeMount {
            path: format!("{}{}", self.mount_prefix, mount.path),
            read_only: false,
            ..mount.clone()
        });
        below_prefix.collect()
    }

    fn pod(&self, image: &ContainerImage, mounts: &[VolumeMount], volumes: Vec<Value>) -> Value {
        let mounts: Vec<Value> = mounts.iter().map(VolumeMount::to_container).collect();
        let tolerations: Vec<Value> = self.tolerations.iter().map(Toleration::to_object).collect();
        let mut container = json!({
            "command": ["tail", "-f", "/dev/null"],
            "image": format!("{}:{}", image.repository, image.tag),
            "imagePullPolicy": image.pull_policy.as_str(),
            "name": self.pod_name,
            "securityContext": {
                "privileged": true,
                "runAsGroup": 0,
                "runAsNonRoot": false,
                "runAsUser": 0,
            },
            "volumeMounts": mounts,
        });
        if let Some(resources) = self.resources {
            container["resources"] = resources.to_container();
        }
        let mut spec = json!({
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": { "runAsNonRoot": false },
            "tolerations": tolerations,
            "volumes": volumes,
        });
        if let Some(affinity) = &self.affinity {
            spec["affinity"] = affinity.clone();
        }
        if !self.node_selector.is_empty() {
            spec["nodeSelector"] = json!(self.node_selector);
        }
        spec
    }
}
