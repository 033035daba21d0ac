//! Whether an app is idle. Pure.

use std::time::Duration;

/// An app is checked again after this time while a gateway does not answer.
const RECHECK: Duration = Duration::from_secs(5);

/// What the gateways report of an app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppUse {
    /// Age of the last known use.
    pub last_use: Option<Duration>,
    /// All uses of this last time are known; `None`: not all gateways answer now.
    pub observed: Option<Duration>,
}

/// What is known of an app besides its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTiming {
    /// It is idle after this time without use; zero: never.
    pub idle_after: Duration,
    /// Age of its condition `Idle`, if it is idle now.
    pub idle_for: Option<Duration>,
    /// Age of its last start, or of its creation.
    pub started: Duration,
}

/// Whether an app is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleDecision {
    /// It runs.
    Active {
        /// It cannot become idle before this time; `None`: it never does.
        check_in: Option<Duration>,
    },
    /// It is scaled to zero.
    Idle,
    /// It runs, since not all gateways answer. One of them may know of a use.
    Unknown,
}

impl IdleDecision {
    /// When to decide again without a use; `None`: only a use or another setting changes it.
    pub fn next_check(self) -> Option<Duration> {
        match self {
            IdleDecision::Active { check_in } => check_in,
            IdleDecision::Idle => None,
            IdleDecision::Unknown => Some(RECHECK),
        }
    }
}

/// Decides whether an app is idle.
///
/// A running app becomes idle when its last use, its start and the beginning of the observation are
/// all at least `idle_after` ago. The start counts also beside a use: an app that was deleted and
/// created again keeps its id. So does the observation: uses before it may be unknown.
pub fn decide(timing: IdleTiming, app_use: AppUse) -> IdleDecision {
    let idle_after = timing.idle_after;
    if idle_after.is_zero() {
        return IdleDecision::Active { check_in: None };
    }
    if let Some(idle_for) = timing.idle_for {
        return match app_use.last_use {
            Some(last_use) if last_use < idle_for => IdleDecision::Active {
                check_in: Some(idle_after),
            },
            Some(_) | None => IdleDecision::Idle,
        };
    }
    let unused = timing
        .started
        .min(app_use.last_use.unwrap_or(Duration::MAX));
    let known_unused = match app_use.observed {
        Some(observed) => unused.min(observed),
        None if unused < idle_after => unused,
        None => return IdleDecision::Unknown,
    };
    if known_unused >= idle_after {
        return IdleDecision::Idle;
    }
    IdleDecision::Active {
        check_in: Some(idle_after - known_unused),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    fn running(started: u64) -> IdleTiming {
        IdleTiming {
            idle_after: minutes(30),
            idle_for: None,
            started: minutes(started),
        }
    }

    fn idle(idle_for: u64) -> IdleTiming {
        IdleTiming {
            idle_for: Some(minutes(idle_for)),
            ..running(600)
        }
    }

    fn used(last_use: Option<u64>, observed: Option<u64>) -> AppUse {
        AppUse {
            last_use: last_use.map(minutes),
            observed: observed.map(minutes),
        }
    }

    fn active(check_in: u64) -> IdleDecision {
        IdleDecision::Active {
            check_in: Some(minutes(check_in)),
        }
    }

    #[test]
    fn a_running_app_is_idle_when_use_start_and_observation_are_long_ago() {
        for (timing, app_use, wanted) in [
            (running(600), used(Some(10), Some(600)), active(20)),
            (running(600), used(Some(30), Some(600)), IdleDecision::Idle),
            (running(600), used(None, Some(600)), IdleDecision::Idle),
            (running(600), used(None, Some(12)), active(18)),
            (running(600), used(Some(40), Some(12)), active(18)),
            (running(5), used(None, Some(600)), active(25)),
            (running(5), used(Some(40), Some(600)), active(25)),
            (running(600), used(Some(40), None), IdleDecision::Unknown),
            (running(600), used(None, None), IdleDecision::Unknown),
            (running(600), used(Some(10), None), active(20)),
        ] {
            assert_eq!(decide(timing, app_use), wanted, "{timing:?} {app_use:?}");
        }
    }

    #[test]
    fn an_idle_app_wakes_by_a_use_that_is_younger_than_its_idleness() {
        for (timing, app_use, wanted) in [
            (idle(60), used(None, Some(600)), IdleDecision::Idle),
            (idle(60), used(None, None), IdleDecision::Idle),
            (idle(60), used(Some(90), Some(600)), IdleDecision::Idle),
            (idle(60), used(Some(60), Some(600)), IdleDecision::Idle),
            (idle(60), used(Some(0), Some(600)), active(30)),
            (idle(60), used(Some(59), None), active(30)),
        ] {
            assert_eq!(decide(timing, app_use), wanted, "{timing:?} {app_use:?}");
        }
    }

    fn any_time() -> impl Strategy<Value = Duration> {
        (0..200_u64).prop_map(Duration::from_secs)
    }

    prop_compose! {
        fn any_timing()(
            idle_after in any_time(),
            idle_for in prop::option::of(any_time()),
            started in any_time(),
        ) -> IdleTiming {
            IdleTiming { idle_after, idle_for, started }
        }
    }

    prop_compose! {
        fn any_use()(
            last_use in prop::option::of(any_time()),
            observed in prop::option::of(any_time()),
        ) -> AppUse {
            AppUse { last_use, observed }
        }
    }

    proptest! {
        #[test]
        fn zero_means_never(timing in any_timing(), app_use in any_use()) {
            let never = IdleTiming { idle_after: Duration::ZERO, ..timing };
            prop_assert_eq!(decide(never, app_use), IdleDecision::Active { check_in: None });
        }

        #[test]
        fn no_app_stops_before_its_time_or_while_a_gateway_does_not_answer(
            timing in any_timing(),
            app_use in any_use(),
        ) {
            let timing = IdleTiming { idle_for: None, ..timing };
            if decide(timing, app_use) == IdleDecision::Idle {
                let ages = [Some(timing.started), app_use.last_use, app_use.observed];
                prop_assert!(ages.into_iter().flatten().all(|age| age >= timing.idle_after));
                prop_assert!(app_use.observed.is_some());
            }
        }

        #[test]
        fn gateways_that_do_not_answer_neither_wake_an_idle_app_nor_keep_it_idle(
            timing in any_timing(),
            idle_for in any_time(),
            app_use in any_use(),
        ) {
            let timing = IdleTiming { idle_for: Some(idle_for), ..timing };
            let silent = AppUse { observed: None, ..app_use };
            prop_assert_eq!(decide(timing, app_use), decide(timing, silent));
        }

        #[test]
        fn an_app_stays_idle_until_a_younger_use(
            timing in any_timing(),
            idle_for in any_time(),
            app_use in any_use(),
        ) {
            prop_assume!(!timing.idle_after.is_zero());
            let timing = IdleTiming { idle_for: Some(idle_for), ..timing };
            let is_used = app_use.last_use.is_some_and(|last_use| last_use < idle_for);
            prop_assert_eq!(decide(timing, app_use) != IdleDecision::Idle, is_used);
        }

        #[test]
        fn an_active_app_is_idle_when_it_is_checked_and_not_before(
            timing in any_timing(),
            app_use in any_use(),
            observed in any_time(),
            early in 0.0..0.99_f64,
        ) {
            let timing = IdleTiming { idle_for: None, ..timing };
            let app_use = AppUse { observed: Some(observed), ..app_use };
            let later = |wait: Duration| {
                let aged = AppUse {
                    last_use: app_use.last_use.map(|age| age + wait),
                    observed: app_use.observed.map(|age| age + wait),
                };
                decide(IdleTiming { started: timing.started + wait, ..timing }, aged)
            };
            if let IdleDecision::Active { check_in: Some(wait) } = decide(timing, app_use) {
                prop_assert!(!wait.is_zero());
                prop_assert_eq!(later(wait), IdleDecision::Idle);
                prop_assert_ne!(later(wait.mul_f64(early)), IdleDecision::Idle);
            }
        }
    }
}
