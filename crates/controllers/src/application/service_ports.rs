//! The ports of an app's Service.

use serde_json::Value;

/// The ports of a service template, with Kubernetes' defaults: server-side apply needs the
/// protocol, and the policies need the pod's port.
///
/// # Errors
/// The reason why these are no ports, for the app's status.
pub fn with_defaults(template: &Value) -> Result<Vec<Value>, String> {
    let ports = &template["ports"];
    if ports.is_null() {
        return Ok(Vec::new());
    }
    let Value::Array(ports) = ports else {
        return Err("svcTemplate.spec.ports must be a list".into());
    };
    let with_defaults = |port: &Value| {
        let Some(number) = port["port"].as_u64() else {
            return Err("svcTemplate.spec.ports has an entry without a port".to_owned());
        };
        let mut port = port.clone();
        if port["targetPort"].is_null() {
            port["targetPort"] = number.into();
        }
        if port["protocol"].is_null() {
            port["protocol"] = "TCP".into();
        }
        Ok(port)
    };
    ports.iter().map(with_defaults).collect()
}
