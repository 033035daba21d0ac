//! Labels and annotations of installations that only the API and the controller set, such as the
//! name of the target. Without IO.

use std::collections::BTreeMap;

use kube::ResourceExt;
use ludgate_cluster::crd::installation::ApplicationInstallation;
use ludgate_installs::resource_json::error::ResourceError;
use serde_json::Value;

/// What these keys begin with.
const PREFIX: &str = "ludgate.dev/";

/// Checks a body, or a merge patch. A body may have a reserved key with the stored value, as GET
/// shows it.
///
/// # Errors
/// It sets, changes or removes a reserved key.
pub(super) fn check(
    body: &Value,
    stored: Option<&ApplicationInstallation>,
) -> Result<(), ResourceError> {
    let labels = stored.map(ResourceExt::labels);
    let annotations = stored.map(ResourceExt::annotations);
    for (field, stored) in [("labels", labels), ("annotations", annotations)] {
        let written = body[field].as_object().into_iter().flatten();
        for (key, value) in written.filter(|(key, _)| is_reserved(key)) {
            let kept = stored.and_then(|stored| stored.get(key));
            if kept.is_none() || kept.map(String::as_str) != value.as_str() {
                let text = format!("{field}: \"{key}\" cannot be set by the API");
                return Err(ResourceError::bad_request(text));
            }
        }
    }
    Ok(())
}

/// Gives a changed installation the reserved keys of the stored one, and no other ones.
pub(super) fn keep(stored: &ApplicationInstallation, changed: &mut ApplicationInstallation) {
    let metadata = &mut changed.metadata;
    for (stored, changed) in [
        (stored.labels(), &mut metadata.labels),
        (stored.annotations(), &mut metadata.annotations),
    ] {
        let mut texts = changed.take().unwrap_or_default();
        remove(&mut texts);
        let kept = stored.iter().filter(|(key, _)| is_reserved(key));
        texts.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        *changed = (!texts.is_empty()).then_some(texts);
    }
}

/// Removes the reserved ones.
pub(super) fn remove(texts: &mut BTreeMap<String, String>) {
    texts.retain(|key, _| !is_reserved(key));
}

fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored() -> ApplicationInstallation {
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "n",
                "labels": { "ludgate.dev/target": "edge", "team": "a" },
                "annotations": { "ludgate.dev/bound-target": "edge" },
            },
            "spec": { "applicationRef": { "name": "example", "version": "1.0.0" } },
        });
        serde_json::from_value(object).expect("an installation")
    }

    #[test]
    fn a_body_changes_no_reserved_key() {
        let target = |value: Value| json!({ "labels": { "ludgate.dev/target": value } });
        let bound = |value: &str| json!({ "annotations": { "ludgate.dev/bound-target": value } });
        for (body, is_new_accepted, is_change_accepted) in [
            (json!({}), true, true),
            (
                json!({ "labels": null, "annotations": { "a": "b" } }),
                true,
                true,
            ),
            (target(json!("edge")), false, true),
            (target(json!("other")), false, false),
            (target(json!(null)), false, false),
            (bound("edge"), false, true),
            (bound("self"), false, false),
            (json!({ "labels": { "ludgate.dev/x": 1 } }), false, false),
        ] {
            let new = check(&body, None).map_err(|error| error.code);
            assert_eq!(
                new,
                if is_new_accepted { Ok(()) } else { Err(400) },
                "{body}"
            );
            let change = check(&body, Some(&stored()));
            assert_eq!(change.is_ok(), is_change_accepted, "{body}");
        }
    }

    #[test]
    fn a_change_keeps_the_stored_reserved_keys() {
        let mut changed = stored();
        changed.metadata.labels = Some([("team".to_owned(), "b".to_owned())].into());
        changed.metadata.annotations = Some(
            [
                ("ludgate.dev/bound-target".to_owned(), "self".to_owned()),
                ("ludgate.dev/abandon-release".to_owned(), "true".to_owned()),
            ]
            .into(),
        );
        keep(&stored(), &mut changed);
        let labels = json!({ "ludgate.dev/target": "edge", "team": "b" });
        assert_eq!(json!(changed.labels()), labels);
        assert_eq!(changed.annotations(), stored().annotations());
        let mut plain = stored();
        plain.metadata.labels = None;
        plain.metadata.annotations = None;
        let mut changed = stored();
        keep(&plain, &mut changed);
        assert_eq!(json!(changed.labels()), json!({ "team": "a" }));
        assert_eq!(changed.metadata.annotations, None);
    }
}
