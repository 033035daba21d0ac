//! The query of a list of routes: those without activity since a time.

use chrono::{DateTime, NaiveDate, NaiveTime};

/// The names of the parameter, the newer one first.
const NAMES: [&str; 2] = ["inactiveSince", "inactive_since"];

/// A time that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid datestamp '{0}' must be ISO8601.")]
pub(super) struct NoTime(String);

/// The time that a query names, in milliseconds since 1970; `None`: all routes are listed.
pub(super) fn inactive_since(query: Option<&str>) -> Result<Option<i64>, NoTime> {
    let query = query.unwrap_or_default();
    let value = NAMES.iter().find_map(|name| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let (_, value) = pairs.find(|(found, _)| found == name)?;
        (!value.is_empty()).then_some(value)
    });
    match value {
        None => Ok(None),
        Some(text) => match millis(&text) {
            Some(time) => Ok(Some(time)),
            None => Err(NoTime(text.into_owned())),
        },
    }
}

/// A date and time with its offset, or a date of UTC.
fn millis(text: &str) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_millis());
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_from_either_parameter() {
        for (query, wanted) in [
            ("", None),
            ("other=1", None),
            ("inactive_since=", None),
            ("inactive_since=1970-01-01T00:00:01Z", Some(1000)),
            ("inactive_since=1970-01-01T00:00:00.250Z", Some(250)),
            ("inactiveSince=1970-01-02", Some(86_400_000)),
            ("inactive_since=1970-01-01T01%3A00%3A00%2B01%3A00", Some(0)),
            (
                "inactive_since=1970-01-02&inactiveSince=1970-01-01",
                Some(0),
            ),
            ("inactiveSince=&inactive_since=1970-01-02", Some(86_400_000)),
        ] {
            assert_eq!(inactive_since(Some(query)), Ok(wanted), "{query}");
        }
        assert_eq!(inactive_since(None), Ok(None));
    }

    #[test]
    fn what_is_no_time_is_named() {
        for text in ["yesterday", "1970-13-01", "1970-01-01T00:00:00"] {
            let query = format!("inactive_since={text}");
            let error = inactive_since(Some(&query)).expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
