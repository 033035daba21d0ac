//! Bundles: lists of installations that can be made elsewhere, with their names and annotations.

use kube::ResourceExt;
use ludgate_cluster::crd::installation::ApplicationInstallation;
use ludgate_installs::{defaults::LAST_APPLIED_ANNOTATION, resource_json::error::ResourceError};
use serde_json::{Value, json};

use super::reserved_keys;

/// Maximum number of installations of a bundle: each is checked with calls of its own.
const MAX_ENTRIES: usize = 50;

/// The bundle of these installations. Each has the form of a new one.
pub(super) fn export(installations: &[ApplicationInstallation]) -> Value {
    let entries = installations.iter().map(|installation| {
        let mut entry = json!({
            "name": installation.name_any(),
            "namespace": installation.namespace(),
            "spec": installation.spec,
        });
        let mut annotations = installation.annotations().clone();
        annotations.remove(LAST_APPLIED_ANNOTATION);
        reserved_keys::remove(&mut annotations);
        let mut labels = installation.labels().clone();
        reserved_keys::remove(&mut labels);
        for (field, texts) in [("labels", &labels), ("annotations", &annotations)] {
            if !texts.is_empty() {
                entry[field] = json!(texts);
            }
        }
        entry
    });
    json!({ "applications": entries.collect::<Vec<Value>>() })
}

/// The entries of a bundle.
///
/// # Errors
/// It has another form, or too many entries.
pub(super) fn entries(bundle: &Value) -> Result<&[Value], ResourceError> {
    let entries = bundle["applications"].as_array();
    let entries = entries.ok_or_else(|| {
        ResourceError::bad_request("applications must be a list of installations")
    })?;
    match entries.len() {
        0..=MAX_ENTRIES => Ok(entries),
        _ => Err(ResourceError::bad_request(format!(
            "applications has more than {MAX_ENTRIES} entries"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installations::preparation::read_installation;

    #[test]
    fn what_is_exported_is_imported_as_it_was() {
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "1",
                "labels": { "x": "y", "ludgate.dev/target": "edge" },
                "annotations": {
                    "c": "d", LAST_APPLIED_ANNOTATION: "{}", "ludgate.dev/earlier-specs": "[]",
                },
            },
            "spec": {
                "namespace": { "name": "t", "create": true },
                "applicationRef": { "name": "example", "version": "1.0.0" },
                "values": {}, "valuesBlock": "# c\na: 1\n",
            },
            "status": { "failures": 1 },
        });
        let installation: ApplicationInstallation =
            serde_json::from_value(object).expect("an installation");
        let bundle = export(std::slice::from_ref(&installation));
        let [entry] = entries(&bundle).expect("a bundle") else {
            panic!("not one entry: {bundle}")
        };
        let read = read_installation(entry).expect("an installation");
        assert_eq!(read.spec, installation.spec);
        assert_eq!(json!(read.labels()), json!({ "x": "y" }));
        assert_eq!(json!(read.annotations()), json!({ "c": "d" }));
        assert_eq!(export(&[read]), bundle);
    }

    #[test]
    fn a_bundle_is_a_list_of_some_installations() {
        for bad in [
            json!({}),
            json!({ "applications": {} }),
            json!({ "applications": vec![json!({}); MAX_ENTRIES + 1] }),
        ] {
            assert_eq!(entries(&bad).map_err(|error| error.code), Err(400));
        }
    }
}
