//! The state of a lab, read back from its objects: after a restart, and in another replica.

use serde_json::Value;

use crate::{
    config::LabConfig,
    dialect::Dialect,
    metadata::{GROUPS_ANNOTATION, NAME_ANNOTATION},
    names::LabNames,
    options::{ImageChoice, LabOptions, SERVICE_PREFIX, is_path},
    quantity::{CpuCores, LabAmounts, LabResources, MemoryBytes},
    size::LabSize,
    state::{LabState, LabStatus},
    user::LabUser,
};

/// Objects of a lab, as the cluster has them.
#[derive(Clone, Copy, Debug)]
pub struct FoundObjects<'o> {
    /// The ConfigMap of variables.
    pub env: &'o Value,
    /// The pod.
    pub pod: &'o Value,
    /// The ResourceQuota, if there is one.
    pub quota: Option<&'o Value>,
}

/// What is missing in the objects of a lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the objects of the lab have no {0}")]
pub struct NotRebuilt(pub &'static str);

/// The state of a person's lab.
///
/// # Errors
/// If the objects do not say something that they say in each lab.
pub fn rebuild(
    username: &str,
    objects: FoundObjects<'_>,
    config: &LabConfig,
    dialect: Dialect,
) -> Result<LabState, NotRebuilt> {
    let variables = objects.env["data"]
        .as_object()
        .ok_or(NotRebuilt("variables"))?;
    let variable = |name: &'static str| {
        let value = variables.get(name).and_then(Value::as_str);
        value.ok_or(NotRebuilt(name))
    };
    let cpu = |name| CpuCores::parse(variable(name)?).map_err(|_| NotRebuilt(name));
    let memory = |name| MemoryBytes::parse(variable(name)?).map_err(|_| NotRebuilt(name));
    let resources = LabResources {
        limits: LabAmounts {
            cpu: cpu("CPU_LIMIT")?,
            memory: memory("MEM_LIMIT")?,
        },
        requests: LabAmounts {
            cpu: cpu("CPU_GUARANTEE")?,
            memory: memory("MEM_GUARANTEE")?,
        },
    };
    let image = variable("JUPYTER_IMAGE_SPEC")?.to_owned();
    let is_set = |name| variable(name).is_ok_and(|value| value == "TRUE");
    let prefix = variable(SERVICE_PREFIX).ok().filter(|text| is_path(text));
    let names = LabNames::new(username, config, dialect);
    let texts = variables
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Ok(LabState {
        user: user(username, objects.pod)?,
        options: LabOptions {
            image: ImageChoice::List(image.clone()),
            size: size(&resources, config),
            enable_debug: is_set("DEBUG"),
            reset_user_env: is_set("RESET_USER_ENV"),
        },
        image,
        env: texts.collect(),
        status: status(objects.pod),
        has_pod: true,
        internal_url: Some(names.internal_url(prefix.unwrap_or_default())),
        resources,
        quota: objects.quota.map(quota).transpose()?,
    })
}

/// A pod that is being deleted has no phase of its own.
fn status(pod: &Value) -> LabStatus {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return LabStatus::Terminating;
    }
    LabStatus::from_phase(pod["status"]["phase"].as_str())
}

fn user(username: &str, pod: &Value) -> Result<LabUser, NotRebuilt> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut notebooks = containers.filter(|container| container["name"] == "notebook");
    let notebook = notebooks
        .next()
        .ok_or(NotRebuilt("container named notebook"))?;
    let security = &notebook["securityContext"];
    let id = |name| {
        let id = security[name]
            .as_u64()
            .and_then(|id| u32::try_from(id).ok());
        id.ok_or(NotRebuilt("UID or GID"))
    };
    let annotation = |name: &str| pod["metadata"]["annotations"][name].as_str();
    let groups = annotation(GROUPS_ANNOTATION).unwrap_or("[]");
    Ok(LabUser {
        username: username.to_owned(),
        name: annotation(NAME_ANNOTATION).map(str::to_owned),
        uid: id("runAsUser")?,
        gid: id("runAsGroup")?,
        groups: serde_json::from_str(groups).map_err(|_| NotRebuilt("readable groups"))?,
        quota: None,
    })
}

/// The size with these resources, if the configuration still has one.
fn size(resources: &LabResources, config: &LabConfig) -> LabSize {
    let mut sizes = config.sizes.iter();
    sizes
        .find(|definition| definition.resources == *resources)
        .map_or(LabSize::Custom, |definition| definition.size)
}

fn quota(object: &Value) -> Result<LabAmounts, NotRebuilt> {
    let hard = &object["spec"]["hard"];
    let missing = NotRebuilt("readable quota");
    let text = |name: &str| hard[name].as_str().unwrap_or_default();
    Ok(LabAmounts {
        cpu: CpuCores::parse(text("limits.cpu")).map_err(|_| missing.clone())?,
        memory: MemoryBytes::parse(text("limits.memory")).map_err(|_| missing)?,
    })
}
