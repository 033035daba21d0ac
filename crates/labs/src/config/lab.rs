//! What a lab gets.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use super::{
    affinity::Affinity,
    containers::InitContainer,
    decode::{Decode, Labels, Place, Section, TextList, decode_word},
    egress::EgressLimits,
    home::{HomeLayout, decode_home},
    value::ConfigValue,
    volumes::{LabVolume, VolumeMount, check_mounts, check_path, is_label},
};
use crate::{
    error::LabError,
    images::Toleration,
    options::LabOptions,
    size::{LabSize, NotebookQuota, SizeDefinition},
};

/// Variables that the controller or the hub sets.
const RESERVED_VARIABLES: [&str; 15] = [
    "ACCESS_TOKEN",
    "CONTAINER_SIZE",
    "CPU_GUARANTEE",
    "CPU_LIMIT",
    "DEBUG",
    "EXTERNAL_INSTANCE_URL",
    "IMAGE_DESCRIPTION",
    "IMAGE_DIGEST",
    "JPY_API_TOKEN",
    "JUPYTER_IMAGE",
    "JUPYTER_IMAGE_SPEC",
    "KUBERNETES_NODE_NAME",
    "MEM_GUARANTEE",
    "MEM_LIMIT",
    "RESET_USER_ENV",
];

/// Volumes that each lab has.
const OWN_VOLUMES: [&str; 7] = [
    "env",
    "group",
    "lab-startup",
    "passwd",
    "runtime",
    "secrets",
    "tmp",
];

/// Key of the person's token in the Secret of a lab.
pub(crate) const TOKEN_KEY: &str = "token";
/// Key of the discovery document in the ConfigMap of files.
pub(crate) const DISCOVERY_KEY: &str = "discovery-v1-json";

/// Where the space of `/tmp` comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyDirMedium {
    /// The memory of the pod.
    #[default]
    Memory,
    /// The disk of the node.
    Disk,
}

/// A key of a Secret of the controller that each lab gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSecret {
    /// The Secret, in the namespace of the controller.
    pub secret: String,
    /// The key there and in the lab.
    pub key: String,
    /// The variable that has it.
    pub variable: Option<String>,
    /// The file that has it.
    pub path: Option<String>,
}

/// The start of `/etc/passwd` and `/etc/group` in labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServiceFiles {
    /// Of `/etc/passwd`.
    pub passwd: String,
    /// Of `/etc/group`.
    pub group: String,
}

/// What a lab gets.
#[derive(Clone, Debug, PartialEq)]
pub struct LabConfig {
    /// How often a lab tells the hub that it is used.
    pub activity_interval: Duration,
    /// The Argo CD application that shows the objects.
    pub application: Option<String>,
    /// Rules for nodes, as Kubernetes has them.
    pub affinity: Option<Value>,
    /// The size that the form proposes. Without it, the first that the person may choose.
    pub default_size: Option<LabSize>,
    /// How long deleting a lab may take.
    pub delete_timeout: Duration,
    /// Where a lab may connect to.
    pub egress: EgressLimits,
    /// Where the space of `/tmp` comes from.
    pub empty_dir: EmptyDirMedium,
    /// Variables of each lab.
    pub env: Labels,
    /// Annotations of pods.
    pub extra_annotations: Labels,
    /// Files by path, in the order of the configuration.
    pub files: Vec<(String, String)>,
    /// Home directories.
    pub home: HomeLayout,
    /// Containers that run before each lab.
    pub init_containers: Vec<InitContainer>,
    /// Folder of the configuration of JupyterLab.
    pub jupyterlab_config_dir: String,
    /// What a lab runs.
    pub start_command: Vec<String>,
    /// Annotations of namespaces. `{{ uid }}` and `{{ gid }}` are replaced.
    pub namespace_annotations: Labels,
    /// What the names of namespaces start with. Without it, the dialect's own.
    pub namespace_prefix: Option<String>,
    /// Labels of the nodes on which labs run.
    pub node_selector: Labels,
    /// Users and groups of the image.
    pub name_service: NameServiceFiles,
    /// Secret for pulling images, in the namespace of the controller.
    pub pull_secret: Option<String>,
    /// How often labs are compared with the cluster.
    pub reconcile_interval: Duration,
    /// Folder in which labs find token, variables and resources.
    pub runtime_dir: String,
    /// What each lab gets of the controller's Secrets.
    pub secrets: Vec<LabSecret>,
    /// Sizes, in the order of the form.
    pub sizes: Vec<SizeDefinition>,
    /// How long a start may take.
    pub spawn_timeout: Duration,
    /// Whether a container makes home directories.
    pub standard_inithome: bool,
    /// Tolerations of pods.
    pub tolerations: Vec<Toleration>,
    /// Volumes.
    pub volumes: Vec<LabVolume>,
    /// Where labs mount them.
    pub volume_mounts: Vec<VolumeMount>,
}

impl LabConfig {
    /// The definition of a size.
    pub fn size(&self, size: LabSize) -> Option<&SizeDefinition> {
        self.sizes.iter().find(|definition| definition.size == size)
    }

    /// The definition of the size that was asked for.
    ///
    /// # Errors
    /// [`LabError::InvalidSize`] if there is none, [`LabError::SpawnNotAllowed`] or
    /// [`LabError::InsufficientQuota`] if the quota forbids it.
    pub fn checked_size(
        &self,
        options: &LabOptions,
        quota: Option<&NotebookQuota>,
    ) -> Result<&SizeDefinition, LabError> {
        let unknown = || LabError::InvalidSize(options.size.to_string());
        let definition = self.size(options.size).ok_or_else(unknown)?;
        match quota {
            Some(quota) if !quota.may_spawn => Err(LabError::SpawnNotAllowed),
            Some(quota) if !quota.allows(&definition.resources) => Err(LabError::InsufficientQuota),
            _ => Ok(definition),
        }
    }
}

impl Decode for LabConfig {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabConfig> {
        let mut section = Section::open(value, place)?;
        let affinity: Option<Affinity> = section.optional("affinity");
        let sizes: Option<Vec<SizeDefinition>> = section.required("sizes");
        if sizes.as_ref().is_some_and(Vec::is_empty) {
            section.at("sizes").complain("at least one size is needed");
        }
        let config = LabConfig {
            activity_interval: section.or("activityInterval", Duration::from_secs(3600)),
            application: section.optional("application"),
            affinity: affinity.map(|affinity| affinity.0),
            default_size: section.optional("defaultSize"),
            delete_timeout: section.or("deleteTimeout", Duration::from_secs(60)),
            egress: section
                .optional("egress")
                .unwrap_or_else(EgressLimits::private),
            empty_dir: empty_dir(&mut section),
            env: section.or("env", Labels::new()),
            extra_annotations: section.or("extraAnnotations", Labels::new()),
            files: section.or("files", TextList::new()),
            home: decode_home(&mut section),
            init_containers: section.or("initContainers", Vec::new()),
            jupyterlab_config_dir: section.or("jupyterlabConfigDir", JUPYTERLAB_DIR.to_owned()),
            start_command: section.or(
                "labStartCommand",
                vec![format!("{JUPYTERLAB_DIR}/runlab.sh")],
            ),
            namespace_annotations: section.or("namespaceAnnotations", Labels::new()),
            namespace_prefix: section.optional("namespacePrefix"),
            node_selector: section.or("nodeSelector", Labels::new()),
            name_service: section.or("nss", NameServiceFiles::default()),
            pull_secret: section.optional("pullSecret"),
            reconcile_interval: section.or("reconcileInterval", Duration::from_secs(300)),
            runtime_dir: section.or("runtimeMountsDir", "/etc/nublado".to_owned()),
            secrets: section.or("secrets", Vec::new()),
            sizes: sizes.unwrap_or_default(),
            spawn_timeout: section.or("spawnTimeout", Duration::from_secs(600)),
            standard_inithome: section.or("standardInithome", false),
            tolerations: section.or("tolerations", Vec::new()),
            volumes: section.or("volumes", Vec::new()),
            volume_mounts: section.or("volumeMounts", Vec::new()),
        };
        check(&config, &mut section);
        section.finish();
        Some(config)
    }
}

const JUPYTERLAB_DIR: &str = "/opt/lsst/software/jupyterlab";

fn check(config: &LabConfig, section: &mut Section<'_, '_>) {
    check_names(config, section);
    check_secrets(&config.secrets, section);
    check_sizes(config, section);
    check_mounts(
        &mut section.at("volumeMounts"),
        &config.volume_mounts,
        &config.volumes,
    );
    for container in &config.init_containers {
        let mut place = section.at("initContainers");
        check_mounts(&mut place, &container.volume_mounts, &config.volumes);
    }
    let names = config
        .init_containers
        .iter()
        .map(|container| &container.name);
    complain_of_twins(&mut section.at("initContainers"), names);
    check_volume_names(config, section);
    let home = &config.home.volume;
    if !config.volumes.iter().any(|volume| volume.name == *home) {
        let problem = format!("a volume for home directories is needed, named {home}");
        section.at("volumes").complain(problem);
    }
}

fn check_names(config: &LabConfig, section: &mut Section<'_, '_>) {
    for name in config.env.keys() {
        if RESERVED_VARIABLES.contains(&name.as_str()) || name.starts_with("JUPYTERHUB_") {
            let mut place = section.at("env");
            place
                .at(name)
                .complain("the controller or the hub sets this variable");
        }
    }
    if let Some(prefix) = config
        .namespace_prefix
        .as_ref()
        .filter(|prefix| !is_label(prefix))
    {
        let problem = format!("\"{prefix}\" is no start of a name: use a-z, 0-9 and hyphens");
        section.at("namespacePrefix").complain(problem);
    }
    let mut keys = BTreeSet::from([DISCOVERY_KEY.to_owned()]);
    for (path, _) in &config.files {
        let mut place = section.at("files");
        let mut place = place.at(path);
        check_path(&mut place, path);
        let key = file_key(path);
        if !is_label(&key.to_lowercase()) {
            place.complain("the name of the file has other letters than a-z, 0-9, _, . and -");
        } else if !keys.insert(key.to_lowercase()) {
            place.complain("another file has this name");
        }
    }
    for (name, value) in &config.namespace_annotations {
        if let Err(problem) = render_annotation(value, 0, 0) {
            section
                .at("namespaceAnnotations")
                .at(name)
                .complain(problem);
        }
    }
}

/// Volumes of the configuration and of its files are beside those that each lab has.
fn check_volume_names(config: &LabConfig, section: &mut Section<'_, '_>) {
    let is_own = |name: &str| OWN_VOLUMES.contains(&name);
    let names = config.volumes.iter().map(|volume| &volume.name);
    complain_of_twins(&mut section.at("volumes"), names.clone());
    for name in names.filter(|name| is_own(name)) {
        section
            .at("volumes")
            .complain(format!("labs have a volume named {name} themselves"));
    }
    for (path, _) in &config.files {
        let name = file_key(path).to_lowercase();
        if is_own(&name) || config.volumes.iter().any(|volume| volume.name == name) {
            let problem = format!("there is a volume named {name}; give the file another name");
            section.at("files").at(path).complain(problem);
        }
    }
}

/// The key of a file in a ConfigMap.
pub(crate) fn file_key(path: &str) -> String {
    file_name(path).replace(['_', '.'], "-")
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Replaces `{{ uid }}` and `{{ gid }}`.
///
/// # Errors
/// If there is another variable.
pub(crate) fn render_annotation(template: &str, uid: u32, gid: u32) -> Result<String, String> {
    let mut rendered = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (variable, after) = after.split_once("}}").ok_or("{{ has no }}")?;
        rendered += before;
        rendered += &match variable.trim() {
            "uid" => uid.to_string(),
            "gid" => gid.to_string(),
            other => return Err(format!("unknown variable {other}; there are uid and gid")),
        };
        rest = after;
    }
    Ok(rendered + rest)
}

fn check_secrets(secrets: &[LabSecret], section: &mut Section<'_, '_>) {
    if secrets.iter().any(|secret| secret.key == TOKEN_KEY) {
        let problem = "the key \"token\" is reserved for the token of the person";
        section.at("secrets").complain(problem);
    }
    complain_of_twins(
        &mut section.at("secrets"),
        secrets.iter().map(|secret| &secret.key),
    );
}

fn check_sizes(config: &LabConfig, section: &mut Section<'_, '_>) {
    let names: Vec<String> = config
        .sizes
        .iter()
        .map(|size| size.size.to_string())
        .collect();
    complain_of_twins(&mut section.at("sizes"), names.iter());
    if let Some(size) = config
        .default_size
        .filter(|size| config.size(*size).is_none())
    {
        section
            .at("defaultSize")
            .complain(format!("{size} is not among the sizes"));
    }
}

fn complain_of_twins<'n>(place: &mut Place<'_>, names: impl Iterator<Item = &'n String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            place.complain(format!("{name} is there twice"));
        }
    }
}

fn empty_dir(section: &mut Section<'_, '_>) -> EmptyDirMedium {
    let media = [
        ("memory", EmptyDirMedium::Memory),
        ("disk", EmptyDirMedium::Disk),
    ];
    // The second is the older name.
    for name in ["emptyDirSource", "tmpSource"] {
        if let Some(value) = section.value(name) {
            return decode_word(value, section.at(name), &media).unwrap_or_default();
        }
    }
    EmptyDirMedium::default()
}

impl Default for NameServiceFiles {
    fn default() -> NameServiceFiles {
        NameServiceFiles {
            passwd: "root:x:0:0:root:/root:/bin/bash\n".to_owned(),
            group: "root:x:0\n".to_owned(),
        }
    }
}

impl Decode for NameServiceFiles {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<NameServiceFiles> {
        let mut section = Section::open(value, place)?;
        let default = NameServiceFiles::default();
        let files = NameServiceFiles {
            passwd: section.or("basePasswd", default.passwd),
            group: section.or("baseGroup", default.group),
        };
        section.finish();
        Some(files)
    }
}

impl Decode for LabSecret {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabSecret> {
        let mut section = Section::open(value, place)?;
        let secret = section.required("secretName");
        let key = section.required("secretKey");
        let variable = section.optional("env");
        let path = section.optional("path");
        section.finish();
        Some(LabSecret {
            secret: secret?,
            key: key?,
            variable,
            path,
        })
    }
}

impl Decode for LabSize {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabSize> {
        decode_word(
            value,
            place,
            &LabSize::CHOICES.map(|size| (size.as_str(), size)),
        )
    }
}

impl Decode for SizeDefinition {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<SizeDefinition> {
        let mut section = Section::open(value, place)?;
        let size = section.required("size");
        let resources = section.required("resources");
        section.finish();
        Some(SizeDefinition {
            size: size?,
            resources: resources?,
        })
    }
}
