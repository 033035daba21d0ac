//! A PhApplication, as the controller reads it.

use kube::{Resource, ResourceExt};
use ludgate_cluster::{
    crd::application::{PhApplicationSpec, SERVICE_PREFIX},
    object::DeepObject,
};
use serde::Deserialize;

/// Annotation with which an app chooses how its pods are replaced.
pub const STRATEGY_ANNOTATION: &str = "phapplication.primehub.io/strategy";
/// Longest name: `app-<name>` is a Service, and a name of one is a DNS label.
pub const MAX_NAME: usize = 59;

/// An app that is to be made.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its namespace.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Its identity: an object that is made again has another one.
    pub uid: String,
    /// Counts the changes of its spec.
    pub generation: i64,
    /// What its author asks for.
    pub spec: PhApplicationSpec,
    /// How pods are replaced, as written in the annotation.
    pub strategy: Option<String>,
}

impl Application {
    /// Reads an object.
    ///
    /// # Errors
    /// The reason, for the app's status.
    pub fn parse(object: &DeepObject) -> Result<Application, String> {
        let name = object.name_any();
        let is_label = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name.len() > MAX_NAME || !name.bytes().all(is_label) || name.ends_with('-') {
            return Err(format!(
                "the name of an app has lower-case letters, digits and inner dashes, at most {MAX_NAME}"
            ));
        }
        let spec = PhApplicationSpec::deserialize(&object.spec)
            .map_err(|error| format!("spec: {error}"))?;
        Ok(Application {
            namespace: object.namespace().unwrap_or_default(),
            name,
            uid: object.uid().unwrap_or_default(),
            generation: object.meta().generation.unwrap_or_default(),
            spec,
            strategy: object.annotations().get(STRATEGY_ANNOTATION).cloned(),
        })
    }

    /// Whether its owner has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.spec.stop.unwrap_or(false)
    }

    /// The name of its Deployment and Service.
    pub fn child_name(&self) -> String {
        child_name(&self.name)
    }
}

/// The name of the Deployment and Service of an app.
pub fn child_name(app: &str) -> String {
    format!("{SERVICE_PREFIX}{app}")
}

/// The app that a Deployment or Service of this name belongs to.
pub fn app_name(child: &str) -> Option<&str> {
    child.strip_prefix(SERVICE_PREFIX)
}
