//! Instance type, volumes and datasets of an app, pinned on its Deployment until the app changes: a
//! changed instance type or dataset must not restart a running app.

use kube::{ResourceExt, api::DynamicObject};
use serde::{Deserialize, Serialize};

use super::{
    app::Application,
    datasets::PinnedDataset,
    instance_type::InstanceType,
    settings::{ApplicationSettings, Group},
};

/// Annotation of a Deployment with the inputs of its pod.
pub const INPUTS_ANNOTATION: &str = "phapplication.primehub.io/inputs";

/// Instance type, volumes and datasets of an app's pod.
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
    /// The claim of PHFS.
    // Annotations of earlier versions have neither this field nor the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phfs: Option<String>,
    /// The datasets, sorted by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<PinnedDataset>,
    /// The pods are another controller's, and stay so until what they are made of has another hash
    /// (`adoption`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<String>,
}

impl PinnedInputs {
    /// The current ones of an app, without datasets: these are objects of the cluster.
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
            phfs: settings.phfs.clone(),
            datasets: Vec::new(),
            adopted: None,
        }
    }

    /// Those of the Deployment, if the app has not changed since.
    pub fn from_deployment(app: &Application, deployment: &DynamicObject) -> Option<PinnedInputs> {
        let written = deployment.annotations().get(INPUTS_ANNOTATION)?;
        let inputs = PinnedInputs::from_annotation(written)?;
        (inputs.generation == app.generation).then_some(inputs)
    }

    /// Reads the annotation's value.
    pub fn from_annotation(written: &str) -> Option<PinnedInputs> {
        serde_json::from_str(written).ok()
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
    /// Instance type, volumes and datasets.
    pub inputs: &'a PinnedInputs,
    /// What holds for all apps.
    pub settings: &'a ApplicationSettings,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::application::{dataset_grant::DatasetAccess, datasets::DatasetSource, samples};

    fn deployment(annotation: &str) -> DynamicObject {
        let annotations = json!({ INPUTS_ANNOTATION: annotation });
        let object = json!({ "metadata": { "name": "app-lab", "annotations": annotations } });
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn inputs_hold_for_one_generation_of_the_app() {
        let mut app = samples::app(json!({}));
        let dataset = PinnedDataset {
            name: "mnist".into(),
            access: DatasetAccess::ReadWrite,
            source: DatasetSource::Claim("dataset-mnist".into()),
        };
        let size = InstanceType::sample();
        let inputs = PinnedInputs {
            phfs: Some("phfs".into()),
            datasets: vec![dataset],
            ..PinnedInputs::resolve(&app, &Group::default(), &size, &samples::settings())
        };
        let deployment = deployment(&inputs.to_annotation());
        let read = PinnedInputs::from_deployment(&app, &deployment);
        assert_eq!(read, Some(inputs));
        app.generation += 1;
        assert_eq!(PinnedInputs::from_deployment(&app, &deployment), None);
    }

    #[test]
    fn an_app_without_datasets_has_the_annotation_of_earlier_versions() {
        let app = samples::app(json!({}));
        let size = InstanceType::sample();
        let inputs = PinnedInputs::resolve(&app, &Group::default(), &size, &samples::settings());
        let annotation = inputs.to_annotation();
        let written: Value = serde_json::from_str(&annotation).expect("JSON");
        for field in ["phfs", "datasets"] {
            assert_eq!(written.get(field), None, "{annotation}");
        }
        let read = PinnedInputs::from_deployment(&app, &deployment(&annotation));
        assert_eq!(read, Some(inputs));
    }
}
