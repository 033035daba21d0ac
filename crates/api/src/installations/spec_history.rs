//! Earlier versions and values of an installation, in an annotation of the object.
//!
//! Helm keeps two revisions at most, so the object itself has the history: each change by the API
//! adds the version and the values from before. Changes by other programs are seen with the next
//! one.

use kube::ResourceExt;
use ludgate_cluster::crd::installation::{ApplicationInstallation, ApplicationInstallationSpec};
use ludgate_installs::values::{installation_values, to_block};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The annotation: a JSON list, oldest first.
const ANNOTATION: &str = "ludgate.dev/earlier-specs";
/// Maximum number of entries.
const MAX_ENTRIES: usize = 10;
/// Longest annotation, in bytes. All annotations of an object together have at most 256 KiB.
const MAX_BYTES: usize = 96 * 1024;

/// A version with values.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct EarlierSpec {
    /// From 1; each change has the next one.
    number: u64,
    /// The version of the app.
    version: String,
    /// The values, as YAML.
    values_block: String,
    /// The revision of the release that was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<i64>,
    /// When it was replaced, in RFC 3339.
    replaced_at: String,
}

/// Adds the stored version and values to the history of the changed object, if they are others
/// there. Clients cannot change the history.
pub(super) fn record(
    stored: &ApplicationInstallation,
    changed: &mut ApplicationInstallation,
    now: &str,
) {
    let mut earlier = read(stored);
    if version_and_values(&stored.spec) != version_and_values(&changed.spec) {
        earlier.push(entry(stored, next_number(&earlier), now));
    }
    let text = shortened(earlier);
    let annotations = changed.metadata.annotations.get_or_insert_default();
    match text {
        Some(text) => annotations.insert(ANNOTATION.to_owned(), text),
        None => annotations.remove(ANNOTATION),
    };
}

/// The form of an object without its history, which has a path of its own.
pub(super) fn hide(shown: &mut Value) {
    let Some(shown) = shown.as_object_mut() else {
        return;
    };
    let Some(Value::Object(annotations)) = shown.get_mut("annotations") else {
        return;
    };
    annotations.remove(ANNOTATION);
    if annotations.is_empty() {
        shown.remove("annotations");
    }
}

/// All known versions and values, oldest first. The last one is in force.
pub(super) fn list(installation: &ApplicationInstallation) -> Value {
    let earlier = read(installation);
    let current = entry(installation, next_number(&earlier), "");
    let status = installation.status.as_ref();
    let release = status.and_then(|status| status.helm_release.as_ref());
    let info = release.and_then(|release| release.info.as_ref());
    let mut shown: Vec<Value> = earlier.iter().map(|entry| json!(entry)).collect();
    let mut last = json!({
        "number": current.number,
        "version": current.version,
        "valuesBlock": current.values_block,
        "current": true,
    });
    if let Some(revision) = current.release {
        last["release"] = revision.into();
    }
    if let Some(status) = info.and_then(|info| info.status.as_deref()) {
        last["releaseStatus"] = status.into();
    }
    shown.push(last);
    Value::Array(shown)
}

/// An annotation that cannot be read counts as none.
fn read(installation: &ApplicationInstallation) -> Vec<EarlierSpec> {
    let text = installation.annotations().get(ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn next_number(earlier: &[EarlierSpec]) -> u64 {
    earlier
        .last()
        .map_or(0, |entry| entry.number)
        .saturating_add(1)
}

fn entry(installation: &ApplicationInstallation, number: u64, now: &str) -> EarlierSpec {
    let (version, values_block) = version_and_values(&installation.spec);
    let status = installation.status.as_ref();
    let release = status.and_then(|status| status.helm_release.as_ref());
    EarlierSpec {
        number,
        version,
        values_block,
        release: release.map(|release| release.version),
        replaced_at: now.to_owned(),
    }
}

fn version_and_values(spec: &ApplicationInstallationSpec) -> (String, String) {
    let block = spec.values_block.clone().filter(|it| !it.is_empty());
    let values = block.unwrap_or_else(|| {
        let values = installation_values(spec).unwrap_or_default();
        to_block(&values).unwrap_or_default()
    });
    (spec.application_ref.version.clone(), values)
}

/// The newest entries that fit, as JSON; `None`: none.
fn shortened(mut earlier: Vec<EarlierSpec>) -> Option<String> {
    let too_many = earlier.len().saturating_sub(MAX_ENTRIES);
    earlier.drain(..too_many);
    loop {
        if earlier.is_empty() {
            return None;
        }
        match serde_json::to_string(&earlier) {
            Ok(text) if text.len() <= MAX_BYTES => return Some(text),
            Ok(_) | Err(_) => earlier.remove(0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(version: &str, block: &str) -> ApplicationInstallation {
        let object = json!({
            "metadata": { "name": "app-1", "namespace": "apps" },
            "spec": {
                "applicationRef": { "name": "example", "version": version },
                "valuesBlock": block,
            },
            "status": { "helmRelease": { "version": 4, "info": { "status": "deployed" } } },
        });
        serde_json::from_value(object).expect("an installation")
    }

    #[test]
    fn each_change_adds_what_was_before() {
        let first = installation("1.0.0", "a: 1\n");
        let mut second = installation("2.0.0", "a: 1\n");
        record(&first, &mut second, "t1");
        let mut same = second.clone();
        record(&second, &mut same, "t2");
        assert_eq!(same, second, "no change");
        let mut third = installation("2.0.0", "a: 2\n");
        record(&second, &mut third, "t3");
        let shown = list(&third);
        let wanted = json!([
            { "number": 1, "version": "1.0.0", "valuesBlock": "a: 1\n", "release": 4, "replacedAt": "t1" },
            { "number": 2, "version": "2.0.0", "valuesBlock": "a: 1\n", "release": 4, "replacedAt": "t3" },
            {
                "number": 3, "version": "2.0.0", "valuesBlock": "a: 2\n", "release": 4,
                "releaseStatus": "deployed", "current": true,
            },
        ]);
        assert_eq!(shown, wanted);
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let mut stored = installation("0", "");
        for version in 1..=MAX_ENTRIES + 2 {
            let mut changed = installation(&version.to_string(), "");
            record(&stored, &mut changed, "t");
            stored = changed;
        }
        let shown = list(&stored);
        assert_eq!(shown.as_array().map(Vec::len), Some(MAX_ENTRIES + 1));
        assert_eq!(shown[0]["number"], 3);
        let large = installation("x", &"a".repeat(MAX_BYTES));
        let mut changed = installation("y", "");
        record(&large, &mut changed, "t");
        assert!(!changed.annotations().contains_key(ANNOTATION));
    }

    #[test]
    fn clients_neither_see_nor_change_it() {
        let mut forged = installation("2.0.0", "");
        forged.metadata.annotations = Some([(ANNOTATION.to_owned(), "[]".to_owned())].into());
        let stored = installation("1.0.0", "");
        record(&stored, &mut forged, "t");
        assert_eq!(list(&forged)[0]["version"], "1.0.0");
        let mut shown = json!({ "annotations": { ANNOTATION: "x" }, "name": "a" });
        hide(&mut shown);
        assert_eq!(shown, json!({ "name": "a" }));
        let mut shown = json!({ "annotations": { ANNOTATION: "x", "b": "c" } });
        hide(&mut shown);
        assert_eq!(shown, json!({ "annotations": { "b": "c" } }));
        let mut shown = json!({ "name": "a" });
        hide(&mut shown);
        assert_eq!(shown, json!({ "name": "a" }));
        let mut broken = installation("1.0.0", "");
        broken.metadata.annotations = Some([(ANNOTATION.to_owned(), "{".to_owned())].into());
        assert_eq!(list(&broken).as_array().map(Vec::len), Some(1));
    }
}
