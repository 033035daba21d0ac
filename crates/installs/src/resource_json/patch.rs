//! Merge patches of the form that a resource has in the API.

use ludgate_cluster::merge_patch;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ResourceError;

/// The shown form after a merge patch (RFC 7396). `kind` names the resource in errors.
///
/// # Errors
/// The patch is no JSON object, or changes a name.
pub(super) fn patched(
    shown: Value,
    patch: &str,
    kind: &str,
    fixed: &[&str],
) -> Result<Value, ResourceError> {
    let patch: Value = serde_json::from_str(patch)
        .map_err(|error| ResourceError::bad_request(format!("invalid merge patch: {error}")))?;
    if !patch.is_object() {
        let text = "invalid merge patch: it is no object";
        return Err(ResourceError::bad_request(text));
    }
    let mut patched = shown.clone();
    merge_patch::apply(&mut patched, &patch);
    for field in fixed {
        let (before, after) = (text(&shown, field), text(&patched, field));
        if before != after {
            return Err(ResourceError::bad_request(format!(
                "Changing {kind} {field} is not allowed: \"{before}\" to \"{after}\""
            )));
        }
    }
    Ok(patched)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Reads a part of a body. `path` names it in the error.
///
/// # Errors
/// The part has another form.
pub(super) fn read<T: DeserializeOwned>(value: Value, path: &str) -> Result<T, ResourceError> {
    serde_json::from_value(value)
        .map_err(|error| ResourceError::bad_request(format!("{path}: {error}")))
}

/// Labels or annotations; absent ones are none.
///
/// # Errors
/// They are no texts.
pub(super) fn texts(
    body: &Value,
    field: &str,
) -> Result<Option<std::collections::BTreeMap<String, String>>, ResourceError> {
    read(body[field].clone(), field)
}
