//! Volumes of a lab: those of the configuration, and those with its files.

use serde_json::{Value, json};

use super::{config_maps, parts::LabParts};
use crate::config::{
    DISCOVERY_KEY, EmptyDirMedium, LabVolume, VolumeMount, VolumeSource, file_key, file_name,
};

/// Part of the memory of a lab that `/tmp` may take.
const TMP_PART: u64 = 4;
/// Bytes of the volume with which the container before the lab tells it how to start.
const STARTUP_BYTES: u64 = 640 * 1024;
/// Mode of files: all may read them, their owner may write.
const FILE_MODE: u32 = 0o644;

/// A volume of a pod with its mount in the lab.
pub(super) struct MountedVolume {
    pub(super) volume: Value,
    pub(super) mount: Value,
}

/// Claims of the volumes that are mounted.
pub(super) fn claims(parts: &LabParts<'_>) -> Vec<Value> {
    let volumes = mounted(parts);
    let claims = volumes
        .into_iter()
        .filter_map(|volume| match &volume.source {
            VolumeSource::Claim { template, .. } => Some(json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": parts.metadata(&volume.claim_name(&parts.names.lab)),
                "spec": template.to_spec(),
            })),
            VolumeSource::HostPath(_) | VolumeSource::Nfs { .. } => None,
        });
    claims.collect()
}

/// Volumes of the configuration that a container of the pod mounts.
fn mounted<'p>(parts: &'p LabParts<'_>) -> Vec<&'p LabVolume> {
    let config = parts.config();
    let inits = config
        .init_containers
        .iter()
        .filter(|_| runs_configured_containers(parts));
    let mounts: Vec<&VolumeMount> = config
        .volume_mounts
        .iter()
        .chain(inits.flat_map(|container| &container.volume_mounts))
        .collect();
    let is_mounted = |volume: &&LabVolume| {
        // The standard containers mount it in any case.
        volume.name == config.home.volume || mounts.iter().any(|m| m.volume == volume.name)
    };
    config.volumes.iter().filter(is_mounted).collect()
}

/// The document runs them for a person's first lab only.
pub(super) fn runs_configured_containers(parts: &LabParts<'_>) -> bool {
    let is_document = parts.context.dialect == crate::dialect::Dialect::Sqr066;
    !(is_document && parts.request.is_provisioned)
}

/// All volumes of the pod.
pub(super) fn of_pod(parts: &LabParts<'_>, own: &[MountedVolume]) -> Vec<Value> {
    let configured = mounted(parts).into_iter();
    let configured = configured.map(|volume| volume.to_pod(&parts.names.lab));
    configured
        .chain(own.iter().map(|own| own.volume.clone()))
        .collect()
}

/// All mounts of the lab's container.
pub(super) fn mounts(parts: &LabParts<'_>, own: &[MountedVolume]) -> Vec<Value> {
    let config = parts.config();
    let configured = config.volume_mounts.iter().map(VolumeMount::to_container);
    let secrets = config.secrets.iter().filter_map(|secret| {
        let path = secret.path.as_deref()?;
        Some(json!({
            "mountPath": path,
            "name": "secrets",
            "readOnly": true,
            "subPath": secret.key,
        }))
    });
    configured
        .chain(own.iter().map(|own| own.mount.clone()))
        .chain(secrets)
        .collect()
}

/// The mounts of home directories.
pub(super) fn home_mounts(parts: &LabParts<'_>) -> Vec<Value> {
    let config = parts.config();
    let is_home = |mount: &&VolumeMount| mount.volume == config.home.volume;
    let homes: Vec<Value> = config
        .volume_mounts
        .iter()
        .filter(is_home)
        .map(VolumeMount::to_container)
        .collect();
    if homes.is_empty() {
        let (path, name) = (&config.home.prefix, &config.home.volume);
        return vec![json!({ "mountPath": path, "name": name, "readOnly": false })];
    }
    homes
}

/// The volumes that each lab has: files, secrets, variables, `/tmp` and its resources.
pub(super) fn own(parts: &LabParts<'_>) -> Vec<MountedVolume> {
    let names = &parts.names;
    let runtime = &parts.config().runtime_dir;
    let mut volumes = vec![
        file(&names.name_service, "/etc/passwd", "passwd"),
        file(&names.name_service, "/etc/group", "group"),
    ];
    for (path, _) in &parts.config().files {
        volumes.push(file(&names.files, path, &file_key(path)));
    }
    if config_maps::discovery(parts).is_some() {
        volumes.push(file(
            &names.files,
            "/etc/nublado/discovery/v1.json",
            DISCOVERY_KEY,
        ));
    }
    volumes.push(folder(
        json!({ "name": "secrets", "secret": { "secretName": names.lab } }),
        &format!("{runtime}/secrets"),
    ));
    volumes.push(folder(
        json!({ "name": "env", "configMap": { "name": names.env } }),
        &format!("{runtime}/environment"),
    ));
    volumes.push(tmp(parts));
    volumes.push(folder(resources(), &format!("{runtime}/runtime")));
    if parts.context.helper_image.is_some() {
        let startup = json!({ "medium": "Memory", "sizeLimit": STARTUP_BYTES.to_string() });
        volumes.push(folder(
            json!({ "name": STARTUP_VOLUME, "emptyDir": startup }),
            &format!("{runtime}/startup"),
        ));
    }
    volumes
}

/// Name of the volume that the container before the lab fills.
pub(super) const STARTUP_VOLUME: &str = "lab-startup";

/// A file of a ConfigMap. Names of volumes have no capitals.
fn file(config_map: &str, path: &str, key: &str) -> MountedVolume {
    let (name, file) = (key.to_lowercase(), file_name(path));
    MountedVolume {
        volume: json!({
            "name": name,
            "configMap": {
                "name": config_map,
                "items": [{ "key": key, "mode": FILE_MODE, "path": file }],
            },
        }),
        mount: json!({ "mountPath": path, "name": name, "readOnly": true, "subPath": file }),
    }
}

fn folder(volume: Value, path: &str) -> MountedVolume {
    let mount = json!({ "mountPath": path, "name": volume["name"], "readOnly": true });
    MountedVolume { volume, mount }
}

fn tmp(parts: &LabParts<'_>) -> MountedVolume {
    let bytes = parts.size.resources.limits.memory.0 / TMP_PART;
    let mut empty_dir = json!({ "sizeLimit": bytes.to_string() });
    if parts.config().empty_dir == EmptyDirMedium::Memory {
        empty_dir["medium"] = "Memory".into();
    }
    MountedVolume {
        volume: json!({ "name": "tmp", "emptyDir": empty_dir }),
        mount: json!({ "mountPath": "/tmp", "name": "tmp", "readOnly": false }),
    }
}

/// The resources of the lab, as files.
fn resources() -> Value {
    let fields = [
        "limits.cpu",
        "requests.cpu",
        "limits.memory",
        "requests.memory",
    ];
    let items = fields.map(|field| {
        json!({
            "path": field.replace('.', "_"),
            "resourceFieldRef": { "containerName": "notebook", "resource": field },
        })
    });
    json!({ "name": "runtime", "downwardAPI": { "items": items } })
}
