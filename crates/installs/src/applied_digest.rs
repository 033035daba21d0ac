//! A digest of what was applied. A release is applied again only if something in it changed.

use aws_lc_rs::digest::{SHA256, digest};
use ludgate_cluster::crd::definition::ApplicationVersion;
use ludgate_model::hex;
use serde_json::{Value, json};

use crate::{
    deploy_options::EffectiveOptions,
    values::{ChartValues, canonical},
};

/// The three parts of a digest: each changes for its own reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedDigest {
    /// Where the chart came from. A change needs a download, and applies nothing by itself.
    pub source: String,
    /// The values and the options.
    pub settings: String,
    /// The chart, by the digest of its download.
    pub chart: String,
}

/// The parts that are known before a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputDigest {
    /// See [`AppliedDigest::source`].
    pub source: String,
    /// See [`AppliedDigest::settings`].
    pub settings: String,
}

impl InputDigest {
    /// The digest of a version of an app, and of the settings of an installation.
    pub fn new(
        version: &ApplicationVersion,
        values: &ChartValues,
        options: EffectiveOptions,
    ) -> InputDigest {
        let source = json!([&version.version, &version.template]);
        let EffectiveOptions {
            wait,
            timeout,
            atomic,
            enable_dns,
        } = options;
        let options = json!([wait, timeout.as_secs_f64(), atomic, enable_dns]);
        InputDigest {
            source: sha256(&canonical(&source)),
            settings: sha256(&canonical(&json!([Value::Object(values.clone()), options]))),
        }
    }

    /// The digest with that of the downloaded chart.
    pub fn with_chart(self, chart: &str) -> AppliedDigest {
        AppliedDigest {
            source: self.source,
            settings: self.settings,
            chart: sha256(chart),
        }
    }
}

impl AppliedDigest {
    /// Reads the text of a status; `None` if an earlier version wrote it in another form.
    pub fn parse(text: &str) -> Option<AppliedDigest> {
        let mut parts = text.split(':').map(str::to_owned);
        let digest = AppliedDigest {
            source: parts.next()?,
            settings: parts.next()?,
            chart: parts.next()?,
        };
        parts.next().is_none().then_some(digest)
    }

    /// Whether it was made from these inputs.
    pub fn has_inputs(&self, inputs: &InputDigest) -> bool {
        self.source == inputs.source && self.settings == inputs.settings
    }

    /// Whether a release of this digest needs no upgrade to become one of the other.
    pub fn applies_same(&self, other: &AppliedDigest) -> bool {
        self.settings == other.settings && self.chart == other.chart
    }
}

impl std::fmt::Display for AppliedDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AppliedDigest {
            source,
            settings,
            chart,
        } = self;
        write!(f, "{source}:{settings}:{chart}")
    }
}

fn sha256(text: &str) -> String {
    hex::encode(digest(&SHA256, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::samples;

    fn inputs(version: &str, values: Value, options: EffectiveOptions) -> InputDigest {
        let Value::Object(values) = values else {
            unreachable!("an object")
        };
        InputDigest::new(&samples::version(version), &values, options)
    }

    #[test]
    fn each_part_changes_for_its_own_reason() {
        let options = EffectiveOptions::default();
        let first = inputs("1.0.0", json!({ "a": 1, "b": 2 }), options);
        let same = inputs("1.0.0", json!({ "b": 2, "a": 1 }), options);
        assert_eq!(first, same);
        let applied = first.clone().with_chart("sha256:x");
        assert!(applied.has_inputs(&same));
        assert!(applied.applies_same(&same.with_chart("sha256:x")));

        let version = inputs("1.0.1", json!({ "a": 1, "b": 2 }), options);
        assert!(!applied.has_inputs(&version));
        assert!(applied.applies_same(&version.with_chart("sha256:x")));

        let values = inputs("1.0.0", json!({ "a": 1 }), options);
        assert!(!applied.has_inputs(&values));
        assert!(!applied.applies_same(&values.with_chart("sha256:x")));

        let waiting = EffectiveOptions {
            wait: true,
            timeout: Duration::from_secs(1),
            ..options
        };
        let waiting = inputs("1.0.0", json!({ "a": 1, "b": 2 }), waiting);
        assert!(!applied.has_inputs(&waiting));
        assert!(!applied.applies_same(&first.with_chart("sha256:y")));
    }

    #[test]
    fn a_digest_is_read_as_it_was_written_and_other_texts_are_none() {
        let applied = inputs("1.0.0", json!({}), EffectiveOptions::default()).with_chart("c");
        assert_eq!(AppliedDigest::parse(&applied.to_string()), Some(applied));
        for text in ["", "a", "a:b", "a:b:c:d"] {
            assert_eq!(AppliedDigest::parse(text), None, "{text:?}");
        }
    }
}
