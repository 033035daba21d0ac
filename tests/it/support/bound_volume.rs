//! Volumes on a cluster's node, which is this machine.

use serde_json::json;
use tempfile::TempDir;

use super::{
    kube_namespace::{KubeNamespace, kubectl},
    until::until_async,
};

/// A claim that is bound to a folder of this machine.
pub struct BoundVolume {
    /// The volume's name. It belongs to no namespace.
    name: String,
    folder: TempDir,
}

impl BoundVolume {
    /// Makes a volume with this access mode for a claim that is made later, without a class.
    pub async fn offer(namespace: &KubeNamespace, claim: &str, mode: &str) -> BoundVolume {
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("{}-{claim}", namespace.name);
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": name },
            "spec": {
                "accessModes": [mode],
                "capacity": { "storage": "1Gi" },
                "claimRef": { "namespace": namespace.name, "name": claim },
                "hostPath": { "path": folder.path(), "type": "Directory" },
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
            },
        });
        let apply = ["apply", "-f", "-"];
        kubectl(&apply, &volume.to_string()).await;
        BoundVolume { name, folder }
    }

    /// Makes a claim with this access mode, and its volume.
    pub async fn bind(namespace: &KubeNamespace, claim: &str, mode: &str) -> BoundVolume {
        let volume = BoundVolume::offer(namespace, claim, mode).await;
        let object = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": claim },
            "spec": {
                "accessModes": [mode],
                "resources": { "requests": { "storage": "1Gi" } },
                "storageClassName": "",
                "volumeName": volume.name,
            },
        });
        let apply = ["apply", "-f", "-"];
        namespace.kubectl(&apply, &object.to_string()).await;
        let phase = ["get", "pvc", claim, "-o", "jsonpath={.status.phase}"];
        until_async("the claim is bound", async || {
            namespace.kubectl(&phase, "").await == "Bound"
        })
        .await;
        volume
    }

    /// The folder with its files.
    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Deletes the volume.
    pub async fn delete(self) {
        let name = format!("persistentvolume/{}", self.name);
        kubectl(&["delete", "--wait=false", &name], "").await;
    }
}
