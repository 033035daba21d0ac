//! The choice among the upstreams of an app.

use http::uri::PathAndQuery;

use super::*;
use crate::upstream::UpstreamScheme;

fn upstream(port: u16) -> Upstream {
    Upstream {
        scheme: UpstreamScheme::Http,
        host: "127.0.0.1".into(),
        port,
    }
}

fn check() -> HealthCheck {
    HealthCheck {
        path: PathAndQuery::from_static("/healthz"),
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        failures: 1,
    }
}

fn group(count: u16, check: Option<&HealthCheck>) -> Arc<UpstreamGroup> {
    let further: Vec<_> = (2..=count).map(upstream).collect();
    UpstreamGroup::new(&upstream(1), &further, false, check).expect("a group")
}

fn chosen(group: &UpstreamGroup, visitor: Option<u64>, now: Instant) -> usize {
    group.choose(visitor, now).expect("one of them").index()
}

/// Every visitor's upstream.
fn homes(group: &UpstreamGroup, now: Instant) -> Vec<usize> {
    (0..1000)
        .map(|visitor| chosen(group, Some(hash(&format!("person {visitor}"))), now))
        .collect()
}

fn set_failing(group: &UpstreamGroup, index: usize, is_failing: bool) {
    let record = group.members()[index].check.as_ref().expect("a check");
    let result = if is_failing {
        Err("status 500".to_owned())
    } else {
        Ok(())
    };
    record.record(result, 1, Instant::now());
}

#[test]
fn one_upstream_without_a_check_is_no_group() {
    assert!(UpstreamGroup::new(&upstream(1), &[], false, None).is_none());
    let one = group(1, Some(&check()));
    assert_eq!(chosen(&one, None, Instant::now()), 0);
    set_failing(&one, 0, true);
    assert_eq!(
        chosen(&one, None, Instant::now()),
        0,
        "all fail: all are tried"
    );
}

#[test]
fn the_least_used_is_chosen_and_equal_ones_take_turns() {
    let (group, now) = (group(3, None), Instant::now());
    let mut counts = [0; 3];
    for _ in 0..30 {
        counts[chosen(&group, None, now)] += 1;
    }
    assert_eq!(counts, [10, 10, 10], "one after the other");
    let mut held: Vec<_> = (0..9)
        .map(|_| group.choose(None, now).expect("one of them"))
        .collect();
    let in_progress = || {
        let members = group.members().iter();
        members.map(GroupMember::in_progress).collect::<Vec<_>>()
    };
    assert_eq!(in_progress(), [3, 3, 3]);
    held.retain(|request| request.index() != 1);
    assert_eq!(in_progress(), [3, 0, 3]);
    for _ in 0..3 {
        held.push(group.choose(None, now).expect("one of them"));
    }
    assert_eq!(in_progress(), [3, 3, 3], "the one with room");
    drop(held);
    assert_eq!(in_progress(), [0, 0, 0]);
}

#[test]
fn a_lost_upstream_moves_only_its_own_visitors() {
    let (group, now) = (group(4, Some(&check())), Instant::now());
    let before = homes(&group, now);
    assert_eq!(before, homes(&group, now), "each visitor stays");
    for index in 0..4 {
        let share = before.iter().filter(|home| **home == index).count();
        assert!((150..350).contains(&share), "{index}: {share} of 1000");
    }
    set_failing(&group, 2, true);
    let without = homes(&group, now);
    let mut moved_to = [0; 4];
    for (before, after) in before.iter().zip(&without) {
        if *before == 2 {
            moved_to[*after] += 1;
        } else {
            assert_eq!(before, after, "not affected");
        }
    }
    assert_eq!(moved_to[2], 0);
    assert!(
        [0, 1, 3].iter().all(|index| moved_to[*index] > 30),
        "{moved_to:?}"
    );
    set_failing(&group, 2, false);
    assert_eq!(homes(&group, now), before, "they come back");
}

#[test]
fn an_upstream_that_accepts_no_connection_is_avoided_for_a_while() {
    let (group, now) = (group(2, Some(&check())), Instant::now());
    let failed = group.choose(None, now).expect("one of them");
    let (lost, other) = (failed.index(), 1 - failed.index());
    group.record_connection(lost, false, now);
    let second = group.choose_other(&failed, None, now).expect("the other");
    assert_eq!(second.index(), other);
    drop((failed, second));
    let soon = now + AVOIDED / 2;
    let all = |now| {
        (0..6)
            .map(|_| chosen(&group, None, now))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(soon), [other; 6]);
    assert!(all(now + AVOIDED).contains(&lost), "it is tried again");
    group.record_connection(lost, true, soon);
    assert!(all(soon).contains(&lost), "it accepts connections again");
    // A failing check weighs more: it says that the app does not work.
    group.record_connection(lost, false, now);
    set_failing(&group, other, true);
    assert_eq!(all(soon), [lost; 6]);
    set_failing(&group, lost, true);
    assert_eq!(
        all(soon),
        [other; 6],
        "all fail: the one that accepts connections"
    );
}

#[test]
fn an_only_upstream_has_no_other() {
    let (group, now) = (group(1, Some(&check())), Instant::now());
    let failed = group.choose(None, now).expect("the only one");
    assert!(group.choose_other(&failed, None, now).is_none());
}

#[test]
fn a_changed_app_keeps_what_is_known_of_the_same_upstreams() {
    let (old, now) = (group(2, Some(&check())), Instant::now());
    let held: Vec<_> = (0..4)
        .map(|_| old.choose(None, now).expect("one"))
        .collect();
    set_failing(&old, 1, true);
    let next = UpstreamGroup::new(&upstream(2), &[upstream(3)], true, Some(&check()));
    let next = next.expect("a group").following(&old);
    let in_progress = |group: &UpstreamGroup| {
        let members = group.members().iter();
        members.map(GroupMember::in_progress).collect::<Vec<_>>()
    };
    assert_eq!(in_progress(&next), [2, 0]);
    assert_eq!((next.failing(), next.is_sticky()), (1, true));
    drop(held);
    assert_eq!(in_progress(&next), [0, 0], "of the same counter");
    let other = HealthCheck {
        path: PathAndQuery::from_static("/other"),
        ..check()
    };
    let changed = group(2, Some(&other)).following(&old);
    assert_eq!(changed.failing(), 0, "another check has found nothing yet");
    let unchecked = group(2, None).following(&old);
    assert_eq!(unchecked.failing(), 0, "and none finds nothing");
}
