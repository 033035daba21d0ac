//! `GET /activity?within=SECONDS`: the apps that were used lately, for the controller, which scales
//! idle ones to zero.

use std::{collections::BTreeMap, time::Duration};

use http::{StatusCode, Uri};
use serde_json::json;

use crate::{
    gateway::Gateway,
    ops::admin::{self, Reply, text},
};

/// How long this process has observed, and the apps that were used within the time.
pub(super) fn list(gateway: &Gateway, uri: &Uri) -> Reply {
    let Some(within) = within(uri) else {
        let known = "Expected ?within=SECONDS.\n";
        return text(StatusCode::BAD_REQUEST, known);
    };
    let snapshot = gateway.catalog.load();
    // Read after the snapshot, so that the uses of an app that was just added are not later.
    let now = gateway.clock.now();
    let mut used: BTreeMap<&str, Duration> = BTreeMap::new();
    for app in snapshot.published() {
        let unused = app.activity.unused(now);
        let Some(unused) = unused.filter(|unused| *unused <= within) else {
            continue;
        };
        let id = app.id().as_str();
        let id = match app.id().lab_username() {
            Some(_) => id,
            // A published port is a part of its app.
            None => id.split(':').next().unwrap_or(id),
        };
        let least = used.entry(id).or_insert(unused);
        *least = unused.min(*least);
    }
    let apps: Vec<_> = used
        .into_iter()
        .map(|(id, unused)| json!({ "id": id, "used_s": unused.as_secs_f64() }))
        .collect();
    let observed = Duration::from_millis(now.0.saturating_sub(gateway.started.0));
    admin::json(&json!({ "observed_s": observed.as_secs_f64(), "apps": apps }))
}

/// The time that the query names, which is its only parameter.
fn within(uri: &Uri) -> Option<Duration> {
    let seconds = uri.query()?.strip_prefix("within=")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_a_number_of_seconds() {
        for (query, wanted) in [
            ("within=60", Some(60_000)),
            ("within=0.5", Some(500)),
            ("within=0", Some(0)),
            ("within=-1", None),
            ("within=NaN", None),
            ("within=1m", None),
            ("within=", None),
            ("within=1&x=2", None),
            ("", None),
        ] {
            let uri = format!("/activity?{query}").parse().expect("a URI");
            let wanted = wanted.map(Duration::from_millis);
            assert_eq!(within(&uri), wanted, "{query:?}");
        }
    }
}
