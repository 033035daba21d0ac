//! Values of the configuration that are written as one text or number.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use super::{
    decode::{Decode, Place, Section},
    value::ConfigValue,
};
use crate::{
    quantity::{CpuCores, LabAmounts, LabResources, MemoryBytes},
    tag::TagVersion,
};

/// Longest duration, about a century. A longer one is a mistake.
const MAX_SECONDS: f64 = 3.2e9;

/// Seconds of each unit, the longest spelling first.
const UNITS: [(&str, f64); 20] = [
    ("weeks", 604_800.0),
    ("week", 604_800.0),
    ("w", 604_800.0),
    ("days", 86400.0),
    ("day", 86400.0),
    ("d", 86400.0),
    ("hours", 3600.0),
    ("hour", 3600.0),
    ("hr", 3600.0),
    ("h", 3600.0),
    ("minutes", 60.0),
    ("minute", 60.0),
    ("mins", 60.0),
    ("min", 60.0),
    ("m", 60.0),
    ("seconds", 1.0),
    ("second", 1.0),
    ("secs", 1.0),
    ("sec", 1.0),
    ("s", 1.0),
];

impl Decode for Duration {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<Duration> {
        let number = value.as_number().and_then(serde_json::Number::as_f64);
        let seconds = number.or_else(|| {
            let text = value.as_text()?;
            text.parse().ok().or_else(|| seconds(text))
        });
        let duration = seconds
            .filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds))
            .map(Duration::from_secs_f64);
        if duration.is_none() {
            let found = value.describe();
            place.complain(format!(
                "expected a duration such as 90, 5m or 1h 30m, found {found}"
            ));
        }
        duration
    }
}

fn seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, unit) = rest.split_at(end);
        let unit = unit.trim_start();
        let (name, length) = UNITS.iter().find(|(name, _)| unit.starts_with(name))?;
        total += number.parse::<f64>().ok()? * length;
        rest = unit.get(name.len()..)?.trim_start();
    }
    Some(total)
}

impl Decode for CpuCores {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<CpuCores> {
        let parsed = match value.as_number() {
            Some(number) => CpuCores::new(number.as_f64().unwrap_or(-1.0)),
            None => CpuCores::parse(value.as_text().unwrap_or_default()),
        };
        parsed
            .map_err(|error| place.complain(error.to_string()))
            .ok()
    }
}

impl Decode for MemoryBytes {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<MemoryBytes> {
        let parsed = match value.as_number() {
            Some(number) => MemoryBytes::parse(&number.to_string()),
            None => MemoryBytes::parse(value.as_text().unwrap_or_default()),
        };
        parsed
            .map_err(|error| place.complain(error.to_string()))
            .ok()
    }
}

impl Decode for LabAmounts {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabAmounts> {
        let mut section = Section::open(value, place)?;
        let cpu = section.required("cpu");
        let memory = section.required("memory");
        section.finish();
        Some(LabAmounts {
            cpu: cpu?,
            memory: memory?,
        })
    }
}

impl Decode for LabResources {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<LabResources> {
        let mut section = Section::open(value, place)?;
        let limits: Option<LabAmounts> = section.required("limits");
        let requests: Option<LabAmounts> = section.required("requests");
        if let (Some(limits), Some(requests)) = (limits, requests) {
            if requests.cpu > limits.cpu {
                let problem = "requests.cpu must be less than or equal to limits.cpu";
                section.place().complain(problem);
            }
            if requests.memory > limits.memory {
                let problem = "requests.memory must be less than or equal to limits.memory";
                section.place().complain(problem);
            }
        }
        section.finish();
        Some(LabResources {
            limits: limits?,
            requests: requests?,
        })
    }
}

impl Decode for DateTime<Utc> {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<DateTime<Utc>> {
        let parsed = value.as_text().and_then(date);
        if parsed.is_none() {
            let found = value.describe();
            place.complain(format!("expected a date such as 2025-02-07, found {found}"));
        }
        parsed
    }
}

fn date(text: &str) -> Option<DateTime<Utc>> {
    let with_zone = DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1));
    if let Ok(date) = with_zone {
        return Some(date.to_utc());
    }
    let day = |text: &str| text.parse::<NaiveDate>().ok();
    let without_zone = text
        .parse::<NaiveDateTime>()
        .ok()
        .or_else(|| Some(day(text)?.and_time(NaiveTime::MIN)));
    without_zone.map(|date| date.and_utc())
}

impl Decode for TagVersion {
    fn decode(value: &ConfigValue, mut place: Place<'_>) -> Option<TagVersion> {
        let parsed = value.as_text().and_then(version);
        if parsed.is_none() {
            let found = value.describe();
            place.complain(format!("expected a version such as 28.0.1, found {found}"));
        }
        parsed
    }
}

fn version(text: &str) -> Option<TagVersion> {
    let (numbers, candidate) = match text.split_once("-rc") {
        Some((numbers, candidate)) => (numbers, Some(candidate.parse().ok()?)),
        None => (text, None),
    };
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let version = TagVersion {
        major: numbers.next()??,
        minor: numbers.next()??,
        patch: numbers.next()??,
        candidate,
    };
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<T: Decode>(text: &str) -> Option<T> {
        let mut problems = Vec::new();
        let place = Place {
            path: String::new(),
            problems: &mut problems,
        };
        T::decode(&ConfigValue::Text(text.to_owned()), place)
    }

    #[test]
    fn durations_are_seconds_or_have_units() {
        for (text, seconds) in [
            ("300", 300),
            ("5m", 300),
            ("6h", 21600),
            ("1h 30m", 5400),
            ("2 weeks 1day", 1_296_000),
            ("90s", 90),
        ] {
            assert_eq!(decoded(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "5 parsecs", "-5m", "5m5", "99999999999h"] {
            assert_eq!(decoded::<Duration>(text), None, "{text}");
        }
    }

    #[test]
    fn dates_may_have_a_time_and_a_zone() {
        let expected = decoded::<DateTime<Utc>>("2025-02-07").unwrap();
        for text in [
            "2025-02-07T00:00:00Z",
            "2025-02-07 01:00:00+01:00",
            "2025-02-07T00:00:00",
        ] {
            assert_eq!(decoded::<DateTime<Utc>>(text), Some(expected), "{text}");
        }
        assert_eq!(decoded::<DateTime<Utc>>("yesterday"), None);
    }

    #[test]
    fn versions_have_three_numbers() {
        let version = decoded::<TagVersion>("28.0.1-rc2").unwrap();
        assert_eq!((version.major, version.candidate), (28, Some(2)));
        assert_eq!(decoded::<TagVersion>("28.0"), None);
        assert_eq!(decoded::<TagVersion>("28.0.1.2"), None);
    }
}
