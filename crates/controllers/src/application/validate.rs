//! Whether an app can run at all, and the defaults of absent fields, without the cluster: for the
//! admission webhook.

use ludgate_cluster::object::DeepObject;
use serde_json::Value;

use super::{
    app::Application,
    desired,
    inputs::{PinnedInputs, RenderContext},
    instance_type::InstanceType,
    service_ports,
    settings::ApplicationSettings,
};

/// Checks what the app's author can correct in the object. Its group, instance type and datasets
/// may be made later, so they are not looked for.
///
/// # Errors
/// The message that the status of the app would have.
pub fn validate(object: &DeepObject, settings: &ApplicationSettings) -> Result<(), String> {
    let app = Application::parse(object)?;
    if app.is_stopped() {
        return Ok(());
    }
    let group = settings.groups.get(&app.spec.group_name).cloned();
    let size = InstanceType::sample();
    let inputs = PinnedInputs::resolve(&app, &group.unwrap_or_default(), &size, settings);
    let context = RenderContext {
        app: &app,
        inputs: &inputs,
        settings,
    };
    desired::objects(context).map(|_| ())
}

/// An app's spec with the defaults that the controller uses. A part that is invalid stays as it
/// is.
pub fn with_defaults(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let ports = spec.pointer("/svcTemplate/spec");
    if let Some(Ok(ports)) = ports.map(service_ports::with_defaults)
        && !ports.is_empty()
    {
        spec["svcTemplate"]["spec"]["ports"] = ports.into();
    }
    spec
}
