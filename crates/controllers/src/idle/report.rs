//! What a gateway reports on its admin listener, `GET /activity`.

use std::time::Duration;

use serde::Deserialize;

/// Largest report, in bytes: the uses of about 100,000 apps.
pub(super) const MAX_REPORT: usize = 8 << 20;

/// The uses that one gateway reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GatewayReport {
    /// How long its process has observed.
    pub(super) observed: Duration,
    /// The apps that were used in the time that was asked for.
    pub(super) uses: Vec<ReportedUse>,
}

/// The last use of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedUse {
    pub(super) app: String,
    pub(super) age: Duration,
}

/// Why a report is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidReport {
    #[error("the report has another form")]
    Form(#[from] serde_json::Error),
    #[error("{field} is {value}, which is no time")]
    Time { field: &'static str, value: f64 },
}

/// Unknown fields are ignored, so that gateways can be updated first.
#[derive(Deserialize)]
struct WrittenReport {
    observed_s: f64,
    apps: Vec<WrittenUse>,
}

#[derive(Deserialize)]
struct WrittenUse {
    id: String,
    used_s: f64,
}

/// Parses a report. One bad number refuses it as a whole: the others are not to be trusted then.
pub(super) fn parse(body: &[u8]) -> Result<GatewayReport, InvalidReport> {
    let written: WrittenReport = serde_json::from_slice(body)?;
    let uses = written.apps.into_iter().map(parse_use);
    Ok(GatewayReport {
        observed: time("observed_s", written.observed_s)?,
        uses: uses.collect::<Result<_, InvalidReport>>()?,
    })
}

fn parse_use(written: WrittenUse) -> Result<ReportedUse, InvalidReport> {
    Ok(ReportedUse {
        age: time("used_s", written.used_s)?,
        app: written.id,
    })
}

fn time(field: &'static str, value: f64) -> Result<Duration, InvalidReport> {
    Duration::try_from_secs_f64(value).map_err(|_| InvalidReport::Time { field, value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_report_is_read_and_unknown_fields_are_ignored() {
        let body = br#"{"observed_s": 3600.5, "version": 2,
            "apps": [{"id": "team/v", "used_s": 0.5, "open": 3}, {"id": "wiki", "used_s": 0}]}"#;
        let report = parse(body).expect("a report");
        assert_eq!(report.observed, Duration::from_millis(3_600_500));
        let uses: Vec<(&str, Duration)> = report
            .uses
            .iter()
            .map(|reported| (reported.app.as_str(), reported.age))
            .collect();
        let wanted = [
            ("team/v", Duration::from_millis(500)),
            ("wiki", Duration::ZERO),
        ];
        assert_eq!(uses, wanted);
    }

    #[test]
    fn bad_numbers_and_other_forms_are_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"observed_s": 1}"#,
            r#"{"observed_s": -1, "apps": []}"#,
            r#"{"observed_s": 1e30, "apps": []}"#,
            r#"{"observed_s": 1e999, "apps": []}"#,
            r#"{"observed_s": NaN, "apps": []}"#,
            r#"{"observed_s": "1", "apps": []}"#,
            r#"{"observed_s": 1, "apps": [{"id": "a"}]}"#,
            r#"{"observed_s": 1, "apps": [{"id": "a", "used_s": -0.1}]}"#,
            r#"{"observed_s": 1, "apps": [{"id": "a", "used_s": null}]}"#,
            r#"{"observed_s": 1, "apps": [{"id": "a", "used_s": 1}]"#,
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(observed: f64, used: f64, text in "\\PC{0,20}") {
            let _ = parse(text.as_bytes());
            let apps = format!("[{{\"id\": \"a\", \"used_s\": {used:?}}}]");
            let _ = parse(format!("{{\"observed_s\": {observed:?}, \"apps\": {apps}}}").as_bytes());
        }
    }
}
