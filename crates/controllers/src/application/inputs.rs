//! What a pod is made of besides its app: instance type and volume.
//!
//! They are written on the Deployment and hold until the app itself changes: a changed instance
//! type must not restart a running app.

use kube::{ResourceExt, api::DynamicObject};
use serde::{Deserialize, Serialize};

use super::{app::Application, instance_type::InstanceType, settings::Group};

/// Annotation of a Deployment with the inputs of its pod.
pub const INPUTS: &str = "phapplication.primehub.io/inputs";

/// Instance type and volume of an app's pod.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// The generation of the app that they were read for.
    pub generation: i64,
    /// Size and nodes.
    pub instance_type: InstanceType,
    /// The claim of the group's volume.
    pub volume: Option<String>,
}

impl Inputs {
    /// The current ones of an app.
    pub fn current(app: &Application, group: &Group, instance_type: &InstanceType) -> Inputs {
        Inputs {
            generation: app.generation,
            instance_type: instance_type.clone(),
            volume: group.volume.clone(),
        }
    }

    /// Those of the Deployment, if the app has not changed since.
    pub fn in_use(app: &Application, deployment: &DynamicObject) -> Option<Inputs> {
        let written = deployment.annotations().get(INPUTS)?;
        let inputs: Inputs = serde_json::from_str(written).ok()?;
        (inputs.generation == app.generation).then_some(inputs)
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
