//! Volumes and where they are mounted.

use serde_json::{Value, json};

use super::{
    decode::{Decode, Labels, Place, Section, decode_word},
    value::ConfigValue,
};

/// Paths that labs use themselves.
const RESERVED_PATHS: [&str; 3] = ["/etc/group", "/etc/passwd", "/tmp"];

/// What a persistent volume claim asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimTemplate {
    /// `ReadWriteMany` and its like.
    pub access_modes: Vec<String>,
    /// Amounts by resource.
    pub requests: Labels,
    /// The storage class.
    pub storage_class: String,
}

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeSource {
    /// A folder of the node.
    HostPath(String),
    /// An export of an NFS server.
    Nfs {
        /// Name or address of the server.
        server: String,
        /// Absolute path of the export.
        path: String,
        /// Whether all mounts are read-only.
        read_only: bool,
    },
    /// A claim that is made for each lab.
    Claim {
        /// The claim.
        template: ClaimTemplate,
        /// Whether all mounts are read-only.
        read_only: bool,
    },
}

/// A volume that containers can mount.
#[derive(Clone, Debug, PartialEq)]
pub struct LabVolume {
    /// Its name in pods.
    pub name: String,
    /// Where it comes from.
    pub source: VolumeSource,
}

/// A volume in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    /// Absolute path in the container.
    pub path: String,
    /// The part of the volume that is mounted, if not all.
    pub sub_path: Option<String>,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Name of the volume.
    pub volume: String,
}

impl LabVolume {
    /// The volume in a pod whose claims have names that start with `prefix`.
    pub(crate) fn to_pod(&self, prefix: &str) -> Value {
        let name = &self.name;
        match &self.source {
            VolumeSource::HostPath(path) => json!({ "name": name, "hostPath": { "path": path } }),
            VolumeSource::Nfs {
                server,
                path,
                read_only,
            } => json!({
                "name": name,
                "nfs": { "path": path, "readOnly": read_only, "server": server },
            }),
            VolumeSource::Claim { read_only, .. } => json!({
                "name": name,
                "persistentVolumeClaim": {
                    "claimName": self.claim_name(prefix),
                    "readOnly": read_only,
                },
            }),
        }
    }

    pub(crate) fn claim_name(&self, prefix: &str) -> String {
        format!("{prefix}-pvc-{}", self.name)
    }
}

impl VolumeMount {
    pub(crate) fn to_container(&self) -> Value {
        let mut mount = json!({
            "mountPath": self.path,
            "name": self.volume,
            "readOnly": self.read_only,
        });
        if let Some(sub_path) = &self.sub_path {
            mount["subPath"] = sub_path.as_str().into();
        }
        mount
    }
}

impl ClaimTemplate {
    pub(crate) fn to_spec(&self) -> Value {
        json!({
            "accessModes": self.access_modes,
            "resources": { "requests": self.requests },
            "storageClassName": self.storage_class,
        })
    }
}

impl Decode for VolumeMount {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<VolumeMount> {
        let mut section = Section::open(value, place)?;
        let path: Option<String> = section.required("containerPath");
        let sub_path = section.optional("subPath");
        let read_only = section.or("readOnly", false);
        let volume = section.required("volumeName");
        if let Some(path) = &path {
            check_path(&mut section.at("containerPath"), path);
        }
        section.finish();
        Some(VolumeMount {
            path: path?,
            sub_path,
            read_only,
            volume: volume?,
        })
    }
}

/// Every mount names a volume that there is.
pub(super) fn check_mounts(place: &mut Place<'_>, mounts: &[VolumeMount], volumes: &[LabVolume]) {
    for mount in mounts {
        if !volumes.iter().any(|volume| volume.name == mount.volume) {
            place.complain(format!("unknown volume {}", mount.volume));
        }
    }
}

/// A path in a container at which something may be mounted.
pub(super) fn check_path(place: &mut Place<'_>, path: &str) {
    if !path.starts_with('/') {
        place.complain("must be an absolute path");
    }
    if RESERVED_PATHS.contains(&path) {
        place.complain(format!("labs use {path} themselves"));
    }
}

impl Decode for LabVolume {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabVolume> {
        let mut section = Section::open(value, place)?;
        let name: Option<String> = section.required("name");
        let source = section.required("source");
        if let Some(name) = name.as_ref().filter(|name| !is_label(name)) {
            let problem = format!("\"{name}\" is no name of a volume: use a-z, 0-9 and hyphens");
            section.at("name").complain(problem);
        }
        section.finish();
        Some(LabVolume {
            name: name?,
            source: source?,
        })
    }
}

/// Whether a text is a label of RFC 1123.
pub(crate) fn is_label(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[derive(Clone, Copy)]
enum Kind {
    HostPath,
    Nfs,
    Claim,
}

impl Decode for VolumeSource {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<VolumeSource> {
        let mut section = Section::open(value, place)?;
        let kinds = [
            ("hostPath", Kind::HostPath),
            ("nfs", Kind::Nfs),
            ("persistentVolumeClaim", Kind::Claim),
        ];
        let Some(kind) = section.value("type") else {
            section.at("type").complain("is missing");
            return None;
        };
        let source = match decode_word(kind, section.at("type"), &kinds)? {
            Kind::HostPath => host_path(&mut section),
            Kind::Nfs => nfs(&mut section),
            Kind::Claim => claim(&mut section),
        };
        section.finish();
        source
    }
}

fn host_path(section: &mut Section<'_, '_>) -> Option<VolumeSource> {
    let path: Option<String> = section.required("path");
    check_absolute(section, "path", path.as_deref());
    path.map(VolumeSource::HostPath)
}

fn check_absolute(section: &mut Section<'_, '_>, name: &str, path: Option<&str>) {
    if path.is_some_and(|path| !path.starts_with('/')) {
        section.at(name).complain("must be an absolute path");
    }
}

fn nfs(section: &mut Section<'_, '_>) -> Option<VolumeSource> {
    let server = section.required("server");
    let path: Option<String> = section.required("serverPath");
    let read_only = section.or("readOnly", false);
    check_absolute(section, "serverPath", path.as_deref());
    Some(VolumeSource::Nfs {
        server: server?,
        path: path?,
        read_only,
    })
}

fn claim(section: &mut Section<'_, '_>) -> Option<VolumeSource> {
    let access_modes: Option<Vec<AccessMode>> = section.required("accessModes");
    let storage_class = section.required("storageClassName");
    let requests: Option<ClaimRequests> = section.required("resources");
    let read_only = section.or("readOnly", false);
    Some(VolumeSource::Claim {
        template: ClaimTemplate {
            access_modes: access_modes?.into_iter().map(|mode| mode.0).collect(),
            requests: requests?.0,
            storage_class: storage_class?,
        },
        read_only,
    })
}

struct AccessMode(String);

impl Decode for AccessMode {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<AccessMode> {
        let modes = [
            "ReadWriteOnce",
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOncePod",
        ];
        let mode = decode_word(value, place, &modes.map(|mode| (mode, mode)))?;
        Some(AccessMode(mode.to_owned()))
    }
}

struct ClaimRequests(Labels);

impl Decode for ClaimRequests {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<ClaimRequests> {
        let mut section = Section::open(value, place)?;
        let requests = section.required("requests");
        section.finish();
        requests.map(ClaimRequests)
    }
}
