//! A PhApplication, as the controller reads it.

use kube::{ResourceExt, api::DynamicObject};
use ludgate_cluster::crd::application::PhApplicationSpec;
use serde::Deserialize;

/// Annotation with which an app chooses how its pods are replaced.
pub const STRATEGY: &str = "phapplication.primehub.io/strategy";
/// Longest name: `app-<name>` is a Service, and a name of one is a DNS label.
const MAX_NAME: usize = 59;

/// An app that is to be made.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub id: String,
    /// Its identity: an object that is made again has another one.
    pub uid: String,
    /// Counts the changes of its spec.
    pub generation: i64,
    /// What its author asks for.
    pub spec: PhApplicationSpec,
    /// Replace pods one by one, which needs room for two.
    pub is_rolling: bool,
}

impl Application {
    /// Reads an object.
    ///
    /// # Errors
    /// The reason, for the app's status.
    pub fn read(object: &DynamicObject) -> Result<Application, String> {
        let id = object.name_any();
        let is_label = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if id.len() > MAX_NAME || !id.bytes().all(is_label) || id.ends_with('-') {
            return Err(format!(
                "the name of an app has lower-case letters, digits and inner dashes, at most {MAX_NAME}"
            ));
        }
        let spec = PhApplicationSpec::deserialize(&object.data["spec"])
            .map_err(|error| format!("spec: {error}"))?;
        let is_rolling = match object.annotations().get(STRATEGY).map(String::as_str) {
            None | Some("Recreate") => false,
            Some("RollingUpdate") => true,
            Some(_) => return Err(format!("{STRATEGY}: Recreate or RollingUpdate")),
        };
        Ok(Application {
            namespace: object.namespace().unwrap_or_default(),
            id,
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec,
            is_rolling,
        })
    }

    /// Whether its owner has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.spec.stop.unwrap_or(false)
    }

    /// The name of its children.
    pub fn child_name(&self) -> String {
        format!("app-{}", self.id)
    }
}
