//! The state of a lab, and how the API shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    dialect::Dialect,
    environment::is_secret,
    events::LabEvent,
    options::{ImageChoice, LabOptions},
    quantity::{LabAmounts, LabResources},
    size::LabSize,
    user::LabUser,
};

/// How a lab is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum LabStatus {
    /// It starts.
    Pending,
    /// It runs.
    Running,
    /// It is being deleted.
    Terminating,
    /// Its pod has ended, well or not.
    Terminated,
    /// An operation failed, or an object is missing.
    Failed,
}

impl LabStatus {
    /// The status of a lab whose pod is in a phase. A pod that is gone has none.
    pub fn from_phase(phase: Option<&str>) -> LabStatus {
        match phase {
            Some("Pending") => LabStatus::Pending,
            Some("Running") => LabStatus::Running,
            Some("Succeeded" | "Failed") => LabStatus::Terminated,
            _ => LabStatus::Failed,
        }
    }

    /// Whether a new lab may take its place.
    pub fn is_dead(self) -> bool {
        matches!(self, LabStatus::Terminated | LabStatus::Failed)
    }

    /// The word for it. The document has none for a pod that has ended.
    pub fn as_str(self, dialect: Dialect) -> &'static str {
        match self {
            LabStatus::Pending => "pending",
            LabStatus::Running => "running",
            LabStatus::Terminating => "terminating",
            LabStatus::Terminated if dialect == Dialect::Sqr066 => "failed",
            LabStatus::Terminated => "terminated",
            LabStatus::Failed => "failed",
        }
    }
}

/// The state of a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct LabState {
    /// Whose it is.
    pub user: LabUser,
    /// What was asked for. After a restart the choice of the image is its reference.
    pub options: LabOptions,
    /// Reference of the image, with tag and digest.
    pub image: String,
    /// Variables of the hub.
    pub env: BTreeMap<String, String>,
    /// How it is.
    pub status: LabStatus,
    /// Whether the pod is in the cluster.
    pub has_pod: bool,
    /// Where the hub reaches it.
    pub internal_url: Option<String>,
    /// Resources of the pod.
    pub resources: LabResources,
    /// Limits of the namespace.
    pub quota: Option<LabAmounts>,
}

impl LabState {
    /// The answer about the lab. The events are those of its last operation.
    pub fn to_json(&self, events: &[LabEvent], dialect: Dialect) -> Value {
        match dialect {
            Dialect::Nublado => self.nublado_json(),
            Dialect::Sqr066 => self.sqr066_json(events),
        }
    }

    fn nublado_json(&self) -> Value {
        let user = &self.user;
        json!({
            "user": {
                "username": user.username,
                "name": user.name,
                "uid": user.uid,
                "gid": user.gid,
                "groups": user.groups,
            },
            "options": {
                "image": self.image,
                "size": self.options.size.as_str(),
                "enable_debug": self.options.enable_debug,
                "reset_user_env": self.options.reset_user_env,
            },
            "status": self.status.as_str(Dialect::Nublado),
            "internal_url": self.internal_url,
            "resources": self.resources.to_json(),
            "quota": self.quota.map(LabAmounts::to_json),
        })
    }

    fn sqr066_json(&self, events: &[LabEvent]) -> Value {
        let user = &self.user;
        let env: BTreeMap<&String, &String> = self
            .env
            .iter()
            .filter(|(name, _)| !is_secret(name))
            .collect();
        let events: Vec<Value> = events.iter().flat_map(LabEvent::to_status).collect();
        let mut state = json!({
            "username": user.username,
            "status": self.status.as_str(Dialect::Sqr066),
            "pod": if self.has_pod { "present" } else { "missing" },
            "options": self.sqr066_options(),
            "env": env,
            "uid": user.uid,
            "gid": user.gid,
            "groups": user.groups,
            "quotas": self.resources.to_json(),
            "events": events,
        });
        let is_reachable = self.status == LabStatus::Running && self.has_pod;
        if let Some(url) = self.internal_url.as_ref().filter(|_| is_reachable) {
            state["internal_url"] = url.as_str().into();
        }
        state
    }

    fn sqr066_options(&self) -> Value {
        let LabOptions {
            image,
            size,
            enable_debug,
            reset_user_env,
        } = &self.options;
        let chosen = match image {
            ImageChoice::List(text) | ImageChoice::Dropdown(text) | ImageChoice::Tag(text) => {
                text.clone()
            }
            ImageChoice::Class(class) => class.to_string(),
        };
        let mut options = json!({
            "enable_debug": enable_debug,
            "reset_user_env": reset_user_env,
            "size": LabSize::as_str(*size),
        });
        options[image.field(Dialect::Sqr066)] = chosen.into();
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::LabSpecification,
        quantity::{CpuCores, MemoryBytes},
        user::LabGroup,
    };

    /// The example of the design document.
    #[test]
    fn the_document_shows_options_variables_and_events() {
        let body = json!({
            "options": {
                "enable_debug": ["false"],
                "image_list": ["lsstsqre/sciplat-lab:w_2022_37"],
                "reset_user_env": ["false"],
                "size": ["large"],
            },
            "env": {
                "JUPYTERHUB_API_URL": "http://hub.nublado2:8081/nb/hub/api",
                "JUPYTERHUB_API_TOKEN": "geheim",
            },
        });
        let specification = LabSpecification::parse(&body, Dialect::Sqr066).unwrap();
        let amounts = |memory| LabAmounts {
            cpu: CpuCores::new(4.0).unwrap(),
            memory: MemoryBytes(memory),
        };
        let group = |name: &str, id| LabGroup {
            name: name.to_owned(),
            id,
        };
        let state = LabState {
            user: LabUser {
                username: "rra".to_owned(),
                name: None,
                uid: 4_266_950,
                gid: 4_266_950,
                groups: vec![
                    group("lsst-data-management", 170_034),
                    group("rra", 4_266_950),
                ],
                quota: None,
            },
            options: specification.options,
            image: String::new(),
            env: specification.env,
            status: LabStatus::Running,
            has_pod: true,
            internal_url: Some("http://nb-rra.nublado-rra:8888".to_owned()),
            resources: LabResources {
                limits: amounts(12_884_901_888),
                requests: amounts(1_073_741_824),
            },
            quota: None,
        };
        let events = [
            LabEvent::spawn_started("rra", Dialect::Sqr066),
            LabEvent::spawn_complete("rra", Dialect::Sqr066),
        ];
        let expected = json!({
            "username": "rra",
            "status": "running",
            "pod": "present",
            "internal_url": "http://nb-rra.nublado-rra:8888",
            "options": {
                "enable_debug": false,
                "image_list": "lsstsqre/sciplat-lab:w_2022_37",
                "reset_user_env": false,
                "size": "large",
            },
            "env": { "JUPYTERHUB_API_URL": "http://hub.nublado2:8081/nb/hub/api" },
            "uid": 4_266_950,
            "gid": 4_266_950,
            "groups": [
                { "name": "lsst-data-management", "id": 170_034 },
                { "name": "rra", "id": 4_266_950 },
            ],
            "quotas": {
                "limits": { "cpu": 4.0, "memory": 12_884_901_888_u64 },
                "requests": { "cpu": 4.0, "memory": 1_073_741_824 },
            },
            "events": [
                { "event": "info", "data": "lab creation initiated for rra" },
                { "event": "progress", "data": "2" },
                { "event": "complete", "data": "Operation complete for rra" },
            ],
        });
        assert_eq!(state.to_json(&events, Dialect::Sqr066), expected);
        let failed = LabState {
            status: LabStatus::Terminated,
            has_pod: false,
            ..state
        };
        let answer = failed.to_json(&[], Dialect::Sqr066);
        assert_eq!(
            (&answer["status"], &answer["pod"]),
            (&json!("failed"), &json!("missing"))
        );
        assert_eq!(answer.get("internal_url"), None);
    }

    #[test]
    fn a_pod_that_has_ended_or_is_gone_is_dead() {
        assert_eq!(LabStatus::from_phase(Some("Pending")), LabStatus::Pending);
        for phase in [Some("Succeeded"), Some("Failed"), Some("Unknown"), None] {
            assert!(LabStatus::from_phase(phase).is_dead());
        }
    }
}
