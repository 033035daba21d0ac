//! Tests of the merged uses.

use super::*;
use crate::idle::report::ReportedUse;

const HOUR: Duration = Duration::from_secs(3600);

/// A moment that is long after `Moment(0)`.
fn at(seconds: u64) -> Moment {
    Moment((1 << 40) + seconds * 1000)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn gateway(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9090))
}

fn answer(now: Moment, observed: Duration, uses: &[(&str, u64)]) -> Answer {
    let uses = uses.iter().map(|(app, age)| ReportedUse {
        app: (*app).to_owned(),
        age: seconds(*age),
    });
    Answer {
        sent: now,
        received: now,
        report: GatewayReport {
            observed,
            uses: uses.collect(),
        },
    }
}

/// A table with these gateways, none of which has answered.
fn table(hosts: &[u8], now: Moment) -> ActivityTable {
    let mut table = ActivityTable::new();
    set(&mut table, hosts, now);
    table
}

fn set(table: &mut ActivityTable, hosts: &[u8], now: Moment) {
    let addresses = hosts.iter().map(|host| gateway(*host)).collect();
    table.set_gateways(&addresses, true, now);
}

fn observed(table: &ActivityTable, now: Moment) -> Option<Duration> {
    table.use_of("any", now).observed
}

#[test]
fn the_last_use_at_any_gateway_counts() {
    let mut table = table(&[1, 2], at(0));
    table.merge(
        gateway(1),
        answer(at(0), HOUR, &[("team/v", 40), ("wiki", 5)]),
    );
    table.merge(gateway(2), answer(at(0), 2 * HOUR, &[("team/v", 3)]));
    let app_use = table.use_of("team/v", at(5));
    assert_eq!(app_use.last_use, Some(seconds(8)));
    assert_eq!(app_use.observed, Some(HOUR + seconds(5)), "the shorter one");
    assert_eq!(table.use_of("wiki", at(10)).last_use, Some(seconds(15)));
    assert_eq!(table.use_of("team/w", at(10)).last_use, None);
    // An older use does not replace a younger one.
    table.merge(gateway(1), answer(at(10), HOUR, &[("team/v", 50)]));
    assert_eq!(table.use_of("team/v", at(10)).last_use, Some(seconds(13)));
}

#[test]
fn observation_needs_an_answer_of_every_gateway_now() {
    let mut table = table(&[1, 2], at(0));
    assert_eq!(observed(&ActivityTable::new(), at(0)), None, "no gateways");
    table.merge(gateway(1), answer(at(0), HOUR, &[]));
    assert_eq!(observed(&table, at(0)), None, "the other has not answered");
    table.merge(gateway(2), answer(at(0), HOUR, &[]));
    assert_eq!(observed(&table, at(0)), Some(HOUR));
    table.poll_failed(gateway(2));
    assert_eq!(observed(&table, at(1)), None);
    table.merge(gateway(2), answer(at(2), HOUR + seconds(2), &[]));
    assert_eq!(observed(&table, at(2)), Some(HOUR + seconds(2)));
    assert_eq!(observed(&table, at(20)), None, "the polls stopped");
    table.merge(gateway(1), answer(at(20), HOUR + seconds(20), &[]));
    table.merge(gateway(2), answer(at(20), HOUR + seconds(20), &[]));
    table.set_gateways(&BTreeSet::from([gateway(1), gateway(2)]), false, at(21));
    assert_eq!(observed(&table, at(21)), None, "a name is not resolved");
}

#[test]
fn a_gateway_that_started_again_at_its_address_has_forgotten_uses() {
    let mut table = table(&[1], at(0));
    table.merge(gateway(1), answer(at(0), HOUR, &[]));
    table.poll_failed(gateway(1));
    table.merge(gateway(1), answer(at(60), seconds(20), &[]));
    assert_eq!(observed(&table, at(60)), Some(seconds(20)));
    table.merge(gateway(1), answer(at(61), seconds(21), &[]));
    assert_eq!(observed(&table, at(61)), Some(seconds(21)));
}

#[test]
fn a_new_gateway_loses_nothing_and_one_that_left_unheard_does() {
    let mut table = table(&[1], at(0));
    table.merge(gateway(1), answer(at(0), HOUR, &[]));
    set(&mut table, &[1, 2], at(5));
    assert_eq!(observed(&table, at(5)), None, "it has not answered");
    table.merge(gateway(2), answer(at(5), seconds(3), &[]));
    assert_eq!(observed(&table, at(5)), Some(HOUR + seconds(5)));
    // It answered its last poll.
    set(&mut table, &[2], at(6));
    assert_eq!(observed(&table, at(6)), Some(HOUR + seconds(6)));
    set(&mut table, &[2, 3], at(7));
    table.poll_failed(gateway(2));
    table.merge(gateway(3), answer(at(8), seconds(4), &[]));
    set(&mut table, &[3], at(9));
    assert_eq!(observed(&table, at(9)), Some(Duration::ZERO));
    assert_eq!(observed(&table, at(12)), Some(seconds(3)));
}

#[test]
fn a_poll_asks_for_the_time_since_the_last_answer() {
    let mut table = table(&[1], at(0));
    assert_eq!(table.within(gateway(1), at(0)), FIRST_WITHIN);
    table.merge(gateway(1), answer(at(0), HOUR, &[]));
    table.poll_failed(gateway(1));
    assert_eq!(table.within(gateway(1), at(30)), seconds(35));
    assert_eq!(table.within(gateway(1), at(8 * 24 * 3600)), FIRST_WITHIN);
}

#[test]
fn a_watched_app_is_named_once_and_only_for_a_later_use() {
    let mut table = table(&[1, 2], at(0));
    table.watch("team/v", at(0));
    table.watch("team/w", at(0));
    table.unwatch("team/w");
    let used = |age| [("team/v", age), ("team/w", age), ("wiki", age)];
    let woken = table.merge(gateway(1), answer(at(3), HOUR, &used(4)));
    assert!(woken.is_empty(), "{woken:?}");
    // The other gateway does not answer, and that does not matter.
    let woken = table.merge(gateway(1), answer(at(4), HOUR, &used(1)));
    assert_eq!(woken, ["team/v"]);
    let woken = table.merge(gateway(1), answer(at(5), HOUR, &used(0)));
    assert!(woken.is_empty(), "{woken:?}");
}

#[test]
fn old_uses_are_dropped_and_nothing_looks_older() {
    let mut table = table(&[1], at(0));
    table.merge(gateway(1), answer(at(0), HOUR, &[("team/v", 0)]));
    let later = |after: Duration| at((RETENTION + after).as_secs());
    for (now, wanted) in [
        (later(Duration::ZERO), Some(RETENTION)),
        (later(HOUR), None),
    ] {
        table.merge(gateway(1), answer(now, RETENTION, &[]));
        set(&mut table, &[1], now);
        let app_use = table.use_of("team/v", now);
        assert_eq!(app_use.last_use, wanted);
        assert!(app_use.observed <= Some(RETENTION), "{app_use:?}");
    }
}

#[test]
fn an_answer_of_a_gateway_that_is_none_any_more_is_ignored() {
    let mut table = table(&[1], at(0));
    table.merge(gateway(9), answer(at(0), HOUR, &[("team/v", 0)]));
    assert_eq!(table.use_of("team/v", at(0)), AppUse::default());
}
