//! `Chart.yaml` and `Chart.lock`.

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{checksum::sha256_hex, error::SourceError, version::parse_version, yaml};

/// Longest name of a chart, in bytes.
const MAX_NAME: usize = 250;

/// What the download needs of `Chart.yaml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChartMetadata {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) app_version: Option<String>,
    pub(crate) dependencies: Option<Vec<Dependency>>,
}

/// One dependency. The order of the fields is that of Helm, since their digest depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    pub(crate) repository: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) condition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) enabled: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) import_values: Vec<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) alias: String,
}

/// What the download needs of `Chart.lock`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ChartLock {
    digest: String,
    dependencies: Option<Vec<Dependency>>,
}

impl ChartMetadata {
    /// Reads and checks a `Chart.yaml`.
    ///
    /// # Errors
    /// Permanent, if it is no such file, or its name or version are invalid.
    pub(crate) fn parse(text: &[u8]) -> Result<ChartMetadata, SourceError> {
        let metadata: ChartMetadata = yaml::parse("Chart.yaml", text)?;
        check_name(&metadata.name)?;
        if parse_version(&metadata.version).is_none() {
            let what = format!("Chart.yaml: {:?} is no semantic version", metadata.version);
            return Err(SourceError::permanent(what));
        }
        Ok(metadata)
    }

    /// The version, which [`ChartMetadata::parse`] has checked.
    pub(crate) fn parsed_version(&self) -> Option<Version> {
        parse_version(&self.version)
    }

    /// The file name of the chart's archive, as `helm package` gives it.
    pub(crate) fn archive_name(&self) -> String {
        format!("{}-{}.tgz", self.name, self.version)
    }

    /// The dependencies with the versions to load: those of the lock if there is one.
    ///
    /// # Errors
    /// Permanent, if the lock was made for other dependencies.
    pub(crate) fn locked_dependencies(
        &self,
        lock: Option<ChartLock>,
    ) -> Result<Vec<Dependency>, SourceError> {
        let wanted = self.dependencies.clone().unwrap_or_default();
        let Some(lock) = lock else {
            return Ok(wanted);
        };
        let locked = lock.dependencies.unwrap_or_default();
        if wanted.is_empty() && locked.is_empty() {
            return Ok(locked);
        }
        if lock_digest(&wanted, &locked)? != lock.digest {
            return Err(SourceError::permanent(
                "lock file is out of sync: Chart.lock was made for other dependencies",
            ));
        }
        Ok(locked)
    }
}

impl ChartLock {
    /// Reads a `Chart.lock`.
    ///
    /// # Errors
    /// Permanent, if it is no such file.
    pub(crate) fn parse(text: &[u8]) -> Result<ChartLock, SourceError> {
        yaml::parse("Chart.lock", text)
    }
}

/// Whether a text can be the name of a chart: it becomes the name of a file and of a folder.
///
/// # Errors
/// Permanent, with the text.
pub(crate) fn check_name(name: &str) -> Result<(), SourceError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_first = |c: char| c.is_ascii_alphanumeric();
    if name.len() > MAX_NAME || !name.starts_with(is_first) || !name.chars().all(is_allowed) {
        let what = format!("{name:?} is no name of a chart");
        return Err(SourceError::permanent(what));
    }
    Ok(())
}

/// Helm's digest of wanted and locked dependencies: SHA-256 of both lists as JSON, as Go writes it.
fn lock_digest(wanted: &[Dependency], locked: &[Dependency]) -> Result<String, SourceError> {
    let json = serde_json::to_string(&[wanted, locked])
        .map_err(|error| SourceError::local("cannot write the dependencies", error))?;
    let json = escape_for_html(&json);
    Ok(format!("sha256:{}", sha256_hex(json.as_bytes())))
}

/// Go's JSON can stand in HTML. These characters are in strings only.
fn escape_for_html(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(dependencies: &str) -> ChartMetadata {
        let text = format!("apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies: {dependencies}");
        ChartMetadata::parse(text.as_bytes()).expect("a chart")
    }

    fn lock(text: &str) -> ChartLock {
        ChartLock::parse(text.as_bytes()).expect("a lock")
    }

    #[test]
    fn name_versions_and_dependencies_are_read() {
        let text =
            "apiVersion: v2\nname: a-b.c\nversion: v1.2.3+x\nappVersion: \"1.27\"\nother: []";
        let metadata = ChartMetadata::parse(text.as_bytes()).expect("a chart");
        assert_eq!(metadata.archive_name(), "a-b.c-v1.2.3+x.tgz");
        assert_eq!(metadata.app_version.as_deref(), Some("1.27"));
        assert_eq!(metadata.locked_dependencies(None), Ok(Vec::new()));
    }

    #[test]
    fn invalid_charts_are_refused() {
        for (text, wanted) in [
            ("", "Chart.yaml is not as expected"),
            ("name: a", "Chart.yaml is not as expected"),
            ("name: [", "Chart.yaml is not as expected"),
            (
                "name: a\nversion: latest",
                "\"latest\" is no semantic version",
            ),
            ("name: a/b\nversion: 1.0.0", "\"a/b\" is no name of a chart"),
            ("name: ..\nversion: 1.0.0", "\"..\" is no name of a chart"),
            ("name: -a\nversion: 1.0.0", "\"-a\" is no name of a chart"),
            ("name: \"\"\nversion: 1.0.0", "\"\" is no name of a chart"),
        ] {
            let error = ChartMetadata::parse(text.as_bytes()).expect_err("refused");
            assert!(error.message().contains(wanted), "{text:?}: {error}");
        }
    }

    /// Digests that Helm wrote for published charts.
    #[test]
    fn the_digest_is_that_of_helm() {
        let repository = "https://cloudnative-pg.github.io/grafana-dashboards";
        let wanted = chart(&format!(
            "\n- alias: monitoring\n  condition: monitoring.grafanaDashboard.create\n  \
             name: cluster\n  repository: {repository}\n  version: \"0.0\"\n"
        ));
        let locked = lock(&format!(
            "dependencies:\n- name: cluster\n  repository: {repository}\n  version: 0.0.2\n\
             digest: sha256:fcf16ad357c17be3dd79c138723e78e9e101fecc5d07d9371299c32b9f85dbd9\n\
             generated: \"2024-04-25T12:32:36.61779032-04:00\"\n"
        ));
        let versions = |dependencies: Vec<Dependency>| -> Vec<String> {
            dependencies.into_iter().map(|it| it.version).collect()
        };
        let found = wanted.locked_dependencies(Some(locked)).expect("in sync");
        assert_eq!(versions(found), ["0.0.2"]);

        let entry = |name: &str, repository: &str, version: &str, condition: &str| {
            let condition = match condition {
                "" => String::new(),
                key => format!(", condition: {key}"),
            };
            let repository = format!("https://{repository}");
            format!("{{name: {name}, repository: '{repository}', version: '{version}'{condition}}}")
        };
        let (state, node, grafana) = (
            "kubernetes.github.io/kube-state-metrics",
            "prometheus-community.github.io/helm-charts",
            "grafana.github.io/helm-charts",
        );
        let wanted = chart(&format!(
            "[{}, {}, {}]",
            entry(
                "kube-state-metrics",
                state,
                "2.9.*",
                "kubeStateMetrics.enabled"
            ),
            entry(
                "prometheus-node-exporter",
                node,
                "1.12.*",
                "nodeExporter.enabled"
            ),
            entry("grafana", grafana, "6.1.*", "grafana.enabled"),
        ));
        let locked = lock(&format!(
            "dependencies: [{}, {}, {}]\n\
             digest: sha256:618d35aba8290330ef4c39438e6be271e17c68aed8806acd626ce8b844056415\n",
            entry("kube-state-metrics", state, "2.9.7", ""),
            entry("prometheus-node-exporter", node, "1.12.0", ""),
            entry("grafana", grafana, "6.1.17", ""),
        ));
        let found = wanted.locked_dependencies(Some(locked)).expect("in sync");
        assert_eq!(versions(found), ["2.9.7", "1.12.0", "6.1.17"]);
    }

    #[test]
    fn all_fields_count_and_html_is_escaped() {
        let found = chart(
            "[{name: b, version: '>=1 <2', repository: 'https://a.test/?x&y', tags: [t], \
             enabled: true, import-values: [{parent: p, child: c}, s], alias: z}]",
        );
        let found = found.locked_dependencies(None).expect("no lock");
        let json = escape_for_html(&serde_json::to_string(&found).expect("JSON"));
        let wanted = concat!(
            r#"[{"name":"b","version":"\u003e=1 \u003c2","repository":"https://a.test/?x\u0026y","#,
            r#""tags":["t"],"enabled":true,"import-values":[{"child":"c","parent":"p"},"s"],"#,
            r#""alias":"z"}]"#,
        );
        assert_eq!(json, wanted);
    }

    #[test]
    fn a_lock_for_other_dependencies_is_out_of_sync() {
        let wanted = chart("[{name: b, version: 1.0.0, repository: 'https://a.test'}]");
        for text in [
            "digest: sha256:00\ndependencies: [{name: b, version: 1.0.0, repository: x}]",
            "digest: ''\ndependencies: []",
            "digest: ''",
        ] {
            let error = wanted
                .locked_dependencies(Some(lock(text)))
                .expect_err("refused");
            assert!(
                error.message().starts_with("lock file is out of sync"),
                "{error}"
            );
        }
        let none = chart("[]").locked_dependencies(Some(lock("digest: x\ndependencies: []")));
        assert_eq!(none, Ok(Vec::new()));
    }
}
