//! Whether a viewer can run at all, without the cluster: for the admission webhook.

use ludgate_cluster::object::DeepObject;
use serde_json::Value;

use super::{parsed::Viewer, placement::Placement, pod, reserved_name, settings::ViewerSettings};

/// Checks what the viewer's author can correct in the object. Its claim may be made later, so it is
/// not looked for. `before` is the spec that the object replaces.
///
/// # Errors
/// The message that the condition of the viewer would have.
pub fn validate(
    object: &DeepObject,
    before: Option<&Value>,
    settings: &ViewerSettings,
) -> Result<(), String> {
    let viewer = Viewer::parse(object).map_err(|error| error.to_string())?;
    reserved_name::check(&viewer, settings).map_err(|error| error.to_string())?;
    // An API server with CEL refuses this with the same message.
    if before.is_some_and(|before| before["pvc"] != object.spec["pvc"]) {
        return Err("PVC name is immutable".to_owned());
    }
    let pod = pod::spec(&viewer, settings, &Placement::Anywhere);
    pod.map(|_| ()).map_err(|reason| reason.message())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::viewer::{samples, settings::DefaultPod};

    fn validated(
        spec: Value,
        before: Option<Value>,
        settings: &ViewerSettings,
    ) -> Result<(), String> {
        let metadata = json!({ "name": "v", "namespace": "team" });
        let object = json!({ "metadata": metadata, "spec": spec });
        let object = serde_json::from_value(object).expect("an object");
        validate(&object, before.as_ref(), settings)
    }

    fn own_pod(more: Value) -> Value {
        let claim = json!({ "name": "pvc", "persistentVolumeClaim": { "claimName": "data" } });
        let mut pod = json!({ "containers": [{ "name": "main" }], "volumes": [claim] });
        if let (Value::Object(pod), Value::Object(more)) = (&mut pod, more) {
            pod.extend(more);
        }
        json!({ "pvc": "data", "podSpec": pod })
    }

    #[test]
    fn an_invalid_viewer_has_the_message_of_its_condition() {
        let settings = samples::settings();
        for (spec, wanted) in [
            (json!({ "pvc": "data" }), None),
            (own_pod(json!({})), None),
            (json!({ "pvc": "" }), Some("PVC name must be specified")),
            (
                own_pod(json!({ "volumes": [] })),
                Some("PVC data must be used in the podSpec"),
            ),
            (
                own_pod(json!({ "hostPID": true })),
                Some("podSpec: not allowed: hostPID"),
            ),
        ] {
            let error = validated(spec.clone(), None, &settings).err();
            assert_eq!(error.as_deref(), wanted, "{spec}");
        }
        let unreadable = ViewerSettings {
            default_pod: DefaultPod::File(Value::Null),
            ..samples::settings()
        };
        let error = validated(json!({ "pvc": "data" }), None, &unreadable);
        assert_eq!(error, Err("PodSpec must be specified".into()));
        assert_eq!(validated(own_pod(json!({})), None, &unreadable), Ok(()));
    }

    #[test]
    fn the_claim_stays_and_all_else_can_change() {
        let settings = samples::settings();
        let before = || Some(json!({ "pvc": "data" }));
        let other = validated(json!({ "pvc": "other" }), before(), &settings);
        assert_eq!(other, Err("PVC name is immutable".into()));
        let changed = json!({ "pvc": "data", "rwoScheduling": true });
        assert_eq!(validated(changed, before(), &settings), Ok(()));
    }
}
