//! The interval after which a release is applied again: a definition may set it for all of its
//! installations.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ludgate_cluster::crd::{
    definition::INTERVAL_ANNOTATION, installation::ApplicationInstallationSpec,
};
use ludgate_model::go_duration;

/// Shortest interval. A shorter one would apply releases without a pause.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// The interval that the definition's annotation sets, if the installation has another one. An
/// annotation that is no duration sets none.
pub fn wanted_interval<'d>(
    annotations: Option<&'d BTreeMap<String, String>>,
    spec: &ApplicationInstallationSpec,
) -> Option<&'d str> {
    let written = annotations?.get(INTERVAL_ANNOTATION)?;
    let wanted = go_duration::parse(written)?;
    let current = spec.reconciliation_interval.as_deref();
    let current = current.and_then(go_duration::parse).unwrap_or(0);
    (wanted != current).then_some(written.as_str())
}

/// When the release is due again; `None`: only after changes.
pub fn next_due(
    spec: &ApplicationInstallationSpec,
    applied: Option<Timestamp>,
) -> Option<Timestamp> {
    let written = spec.reconciliation_interval.as_deref()?;
    let interval = go_duration::parse_positive(written).filter(|interval| !interval.is_zero())?;
    let interval = SignedDuration::try_from(interval.max(MIN_INTERVAL)).ok()?;
    applied?.checked_add(interval).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(interval: Option<&str>) -> ApplicationInstallationSpec {
        ApplicationInstallationSpec {
            reconciliation_interval: interval.map(str::to_owned),
            ..Default::default()
        }
    }

    #[test]
    fn the_annotation_of_the_definition_sets_the_interval() {
        for (annotation, current, wanted) in [
            (None, Some("5m"), None),
            (Some("10m"), None, Some("10m")),
            (Some("10m"), Some("5m"), Some("10m")),
            (Some("5m"), Some("5m0s"), None),
            (Some("often"), Some("5m"), None),
        ] {
            let annotations: BTreeMap<String, String> = annotation
                .map(|interval: &str| (INTERVAL_ANNOTATION.to_owned(), interval.to_owned()))
                .into_iter()
                .collect();
            let found = wanted_interval(Some(&annotations), &spec(current));
            assert_eq!(found, wanted, "{annotation:?} {current:?}");
        }
        assert_eq!(wanted_interval(None, &spec(None)), None);
    }

    #[test]
    fn a_release_is_due_after_its_interval() {
        let noon: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        for (interval, wanted) in [
            (None, None),
            (Some("0"), None),
            (Some("-1m"), None),
            (Some("1m"), Some("2026-01-01T12:01:00Z")),
            (Some("1ns"), Some("2026-01-01T12:00:10Z")),
        ] {
            let due = next_due(&spec(interval), Some(noon)).map(|due| due.to_string());
            assert_eq!(due.as_deref(), wanted, "{interval:?}");
        }
        assert_eq!(next_due(&spec(Some("1m")), None), None);
    }
}
