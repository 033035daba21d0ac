//! The volumes that an app shares with others: datasets, and PHFS, of which each group has a
//! folder.

use serde_json::{Value, json};

use super::{group_names, inputs::RenderContext};

/// The volume of PHFS.
const PHFS: &str = "phfs";

/// The volumes that a pod has besides the app's data.
pub struct SharedVolumes {
    /// The volumes.
    pub volumes: Vec<Value>,
    /// Where containers have them.
    pub mounts: Vec<Value>,
}

impl SharedVolumes {
    /// Those of an app.
    pub fn new(context: RenderContext<'_>) -> SharedVolumes {
        let mut shared = SharedVolumes {
            volumes: Vec::new(),
            mounts: Vec::new(),
        };
        if let Some(claim) = &context.inputs.phfs {
            let claim = json!({ "claimName": claim });
            let volume = json!({ "name": PHFS, "persistentVolumeClaim": claim });
            let folder = group_names::directory(&context.app.spec.group_name);
            let folder = format!("groups/{folder}");
            let mount = json!({ "name": PHFS, "mountPath": "/phfs", "subPath": folder });
            shared.volumes.push(volume);
            shared.mounts.push(mount);
        }
        for dataset in &context.inputs.datasets {
            shared.volumes.extend(dataset.volume());
            shared.mounts.extend(dataset.mounts());
        }
        shared
    }

    /// Refuses a template with the names of these volumes. A mount of the template's own could
    /// write to a read-only dataset, and show the folders that other groups have on PHFS.
    ///
    /// # Errors
    /// The field, for the app's status.
    pub fn check_template(&self, template: &Value) -> Result<(), String> {
        for volume in entries(&template["volumes"]) {
            let name = &volume["name"];
            if self.has(name) {
                return Err(format!(
                    "podTemplate.spec.volumes: {name} is the name of a volume that the controller adds"
                ));
            }
        }
        for kind in ["initContainers", "containers"] {
            for container in entries(&template[kind]) {
                let mounts = entries(&container["volumeMounts"]);
                let devices = entries(&container["volumeDevices"]);
                let mut names = mounts.chain(devices).map(|it| &it["name"]);
                if let Some(name) = names.find(|name| self.has(name)) {
                    return Err(format!(
                        "podTemplate.spec.{kind}: the volume {name} is mounted by the controller only"
                    ));
                }
            }
        }
        Ok(())
    }

    fn has(&self, name: &Value) -> bool {
        self.volumes.iter().any(|volume| volume["name"] == *name)
    }
}

/// The entries of a list that may be absent.
fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
