//! Instance type and volume of an app, pinned on its Deployment until the app changes: a changed
//! instance type must not restart a running app.

use kube::{ResourceExt, api::DynamicObject};
use serde::{Deserialize, Serialize};

use super::{
    app::Application,
    instance_type::InstanceType,
    settings::{ApplicationSettings, Group},
};

/// Annotation of a Deployment with the inputs of its pod.
pub const INPUTS_ANNOTATION: &str = "phapplication.primehub.io/inputs";

/// Instance type and volume of an app's pod.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedInputs {
    /// The generation of the app that they were read for.
    pub generation: i64,
    /// Size and nodes.
    pub instance_type: InstanceType,
    /// The claim of the group's volume.
    pub volume: Option<String>,
    /// The image that makes the app's folder. A new release of Ludgate must not restart all apps.
    pub folder_image: Option<String>,
}

impl PinnedInputs {
    /// The current ones of an app.
    pub fn resolve(
        app: &Application,
        group: &Group,
        instance_type: &InstanceType,
        settings: &ApplicationSettings,
    ) -> PinnedInputs {
        PinnedInputs {
            generation: app.generation,
            instance_type: instance_type.clone(),
            volume: group.volume.clone(),
            folder_image: settings.folder_image.clone(),
        }
    }

    /// Those of the Deployment, if the app has not changed since.
    pub fn from_deployment(app: &Application, deployment: &DynamicObject) -> Option<PinnedInputs> {
        let written = deployment.annotations().get(INPUTS_ANNOTATION)?;
        let inputs: PinnedInputs = serde_json::from_str(written).ok()?;
        (inputs.generation == app.generation).then_some(inputs)
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An app and all that its objects are made of.
#[derive(Clone, Copy)]
pub struct RenderContext<'a> {
    /// The app.
    pub app: &'a Application,
    /// Instance type and volume.
    pub inputs: &'a PinnedInputs,
    /// What holds for all apps.
    pub settings: &'a ApplicationSettings,
}
