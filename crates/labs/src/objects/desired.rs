//! All objects of a lab.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    config_maps, network,
    parts::{DesiredLabError, LabContext, LabParts, LabRequest},
    pod, secrets, volumes,
};
use crate::{config::render_annotation, metadata::annotate};

/// The objects of a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredLab {
    /// The namespace of all others.
    pub namespace: Value,
    /// Claims of volumes that are mounted.
    pub claims: Vec<Value>,
    /// The variables.
    pub env: Value,
    /// Files.
    pub config_maps: Vec<Value>,
    /// The token and other secrets.
    pub secrets: Vec<Value>,
    /// Limits of the namespace, if the person has a quota.
    pub quota: Option<Value>,
    /// Who may connect to the lab.
    pub network_policy: Value,
    /// The address of the lab.
    pub service: Value,
    /// The lab itself.
    pub pod: Value,
}

impl DesiredLab {
    /// All objects in the order in which they are created. Before the pod the ServiceAccount
    /// `default` must be there.
    pub fn in_order(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.namespace)
            .chain(self.before_pod())
            .chain([&self.pod])
    }

    /// Those between the namespace and the pod.
    pub fn before_pod(&self) -> impl Iterator<Item = &Value> {
        self.claims
            .iter()
            .chain([&self.env])
            .chain(&self.config_maps)
            .chain(&self.secrets)
            .chain(&self.quota)
            .chain([&self.network_policy, &self.service])
    }
}

/// The objects of a lab.
///
/// # Errors
/// If size or secrets are not there, or a name would be too long.
pub fn desired(
    context: LabContext<'_>,
    request: LabRequest<'_>,
) -> Result<DesiredLab, DesiredLabError> {
    let parts = LabParts::new(context, request)?;
    Ok(DesiredLab {
        namespace: namespace(&parts),
        claims: volumes::claims(&parts),
        env: config_maps::env(&parts),
        config_maps: config_maps::files(&parts),
        secrets: secrets::secrets(&parts)?,
        quota: quota(&parts),
        network_policy: network::policy(&parts),
        service: network::service(&parts),
        pod: pod::pod(&parts),
    })
}

fn namespace(parts: &LabParts<'_>) -> Value {
    let mut metadata = parts.metadata.named(&parts.names.namespace, None);
    let user = parts.request.user;
    let templates = parts.config().namespace_annotations.iter();
    // The configuration was read, so its templates have no errors.
    let rendered = templates.filter_map(|(name, template)| {
        let value = render_annotation(template, user.uid, user.gid).ok()?;
        Some((name.clone(), value))
    });
    annotate(
        &mut metadata,
        &rendered.collect::<BTreeMap<String, String>>(),
    );
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

fn quota(parts: &LabParts<'_>) -> Option<Value> {
    let quota = parts.request.user.quota?;
    Some(json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": parts.metadata(&parts.names.lab),
        "spec": {
            "hard": {
                "limits.cpu": quota.cpu.to_string(),
                "limits.memory": quota.memory.0.to_string(),
            },
        },
    }))
}
