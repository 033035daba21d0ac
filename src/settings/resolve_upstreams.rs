//! The upstreams of an app: one or several, how visitors are spread over them, and their health
//! check.

use std::{mem::discriminant, time::Duration};

use http::uri::PathAndQuery;

use super::{section::ConfigSection, values::upstream};
use crate::model::{app::Upstream, health_check::HealthCheck};

/// Maximum number of upstreams of one app: each choice looks at all of them.
const MAX_UPSTREAMS: usize = 32;
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// A check that hangs holds one of few places.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_FAILURES: u64 = 2;

/// The upstreams of one app.
pub struct AppUpstreams {
    /// The first address, which may be the only one.
    pub first: Upstream,
    /// The other addresses.
    pub further: Vec<Upstream>,
}

impl AppUpstreams {
    /// Whether a published port may be at the app's host. A unix socket has no other ports, and of
    /// several upstreams none stands for all.
    pub fn have_port(&self, port: u16) -> bool {
        self.further.is_empty() && self.first.at_port(port).is_some()
    }
}

/// Reads the key `upstream`. `None` only together with an error.
pub fn upstreams(section: &ConfigSection<'_>) -> Option<AppUpstreams> {
    let is_list = section.is_list("upstream");
    let upstreams = if is_list {
        list(section)
    } else {
        let first = section.required("upstream", upstream);
        first.map(|first| AppUpstreams {
            first,
            further: Vec::new(),
        })
    };
    if !is_list && section.switch("sticky") == Some(true) {
        let what = "is for an app with a list of upstreams";
        let suggestion = "write upstream = [\"…\", \"…\"], or remove sticky";
        section.wrong("sticky", what, Some(suggestion.to_owned()));
    }
    if let Some(several) = &upstreams
        && !several.further.is_empty()
        && section.switch("rewrite_host") == Some(true)
    {
        let what = "is for an app with one upstream; with several, no single authority is its Host";
        section.wrong("rewrite_host", what, None);
    }
    upstreams
}

fn list(section: &ConfigSection<'_>) -> Option<AppUpstreams> {
    let texts = section.texts("upstream")?;
    let wrong = |what: String| section.wrong("upstream", what, None);
    if !(1..=MAX_UPSTREAMS).contains(&texts.len()) {
        wrong(format!("must have from 1 to {MAX_UPSTREAMS} addresses"));
        return None;
    }
    let mut found: Vec<Upstream> = Vec::new();
    let mut is_valid = true;
    for text in &texts {
        let what = match upstream(text) {
            Ok(upstream) if found.contains(&upstream) => format!("{text:?} is given twice"),
            Ok(upstream) => {
                found.push(upstream);
                continue;
            }
            Err(what) => format!("{text:?}: {what}"),
        };
        wrong(what);
        is_valid = false;
    }
    let mut schemes = found.iter().map(|upstream| discriminant(&upstream.scheme));
    let first_scheme = schemes.next();
    if schemes.any(|scheme| Some(scheme) != first_scheme) {
        wrong("must have addresses of one scheme: all http, all https, or all unix".to_owned());
        is_valid = false;
    }
    let mut found = found.into_iter();
    let first = found.next().filter(|_| is_valid)?;
    Some(AppUpstreams {
        first,
        further: found.collect(),
    })
}

/// Reads the key `health`.
pub fn health_check(section: &ConfigSection<'_>) -> Option<HealthCheck> {
    section.inner("health", "apps.health", check).flatten()
}

fn check(table: ConfigSection<'_>) -> Option<HealthCheck> {
    let interval = table.duration("interval").unwrap_or(DEFAULT_INTERVAL);
    if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
        table.wrong("interval", "must be between 100ms and 1h", None);
    }
    let timeout = table.positive("timeout", DEFAULT_TIMEOUT);
    if timeout > MAX_TIMEOUT {
        table.wrong("timeout", "is longer than 1m", None);
    }
    let failures = table.number("failures").unwrap_or(DEFAULT_FAILURES);
    if !(1..=100).contains(&failures) {
        table.wrong("failures", "must be between 1 and 100", None);
    }
    Some(HealthCheck {
        path: table.required("path", path)?,
        interval,
        timeout,
        failures: u32::try_from(failures).unwrap_or(u32::MAX),
    })
}

/// Parses the target of a check.
fn path(text: &str) -> Result<PathAndQuery, String> {
    let parsed = text.parse::<PathAndQuery>().ok();
    let parsed = parsed.filter(|_| text.starts_with('/') && text.is_ascii());
    // The parser drops a fragment.
    let parsed = parsed.filter(|path| path.as_str() == text);
    parsed.ok_or_else(|| format!("{text:?} is no path: it begins with / and has no spaces"))
}
