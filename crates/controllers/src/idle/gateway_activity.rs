//! The uses of apps, as the gateways report them, for controllers.

use std::{
    collections::BTreeSet,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use ludgate_model::clock::{Clock, Moment};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{
    activity::{ActivityTable, Answer, before},
    decision::{AppUse, IdleDecision, IdleTiming, decide},
    report::GatewayReport,
};

/// The uses of all apps. Clones share their state.
#[derive(Clone)]
pub struct GatewayActivity(Arc<Shared>);

struct Shared {
    clock: Clock,
    /// Whether gateways are polled.
    is_enabled: bool,
    table: Mutex<ActivityTable>,
    /// Unbounded, since an app is sent once each time that it is watched.
    subscribers: Mutex<Vec<UnboundedSender<String>>>,
}

impl GatewayActivity {
    /// Without gateways: no use is ever known, and no app is ever idle.
    pub fn disabled() -> GatewayActivity {
        GatewayActivity::with(Clock::system(), false)
    }

    /// For the gateways of a poller.
    pub(super) fn new(clock: Clock) -> GatewayActivity {
        GatewayActivity::with(clock, true)
    }

    fn with(clock: Clock, is_enabled: bool) -> GatewayActivity {
        GatewayActivity(Arc::new(Shared {
            clock,
            is_enabled,
            table: Mutex::new(ActivityTable::new()),
            subscribers: Mutex::default(),
        }))
    }

    /// The use of an app; `app` is its id in the gateway.
    pub fn use_of(&self, app: &str) -> AppUse {
        self.table().use_of(app, self.0.clock.now())
    }

    /// Decides whether an app is idle. An app that is gets watched, so that subscribers are
    /// notified of the use that wakes it, even if that comes before its status is written.
    pub fn decide(&self, app: &str, timing: IdleTiming) -> IdleDecision {
        if !self.0.is_enabled {
            return IdleDecision::Active { check_in: None };
        }
        let mut table = self.table();
        let now = self.0.clock.now();
        let decision = decide(timing, table.use_of(app, now));
        match decision {
            IdleDecision::Idle => {
                table.watch(app, before(now, timing.idle_for.unwrap_or_default()));
            }
            IdleDecision::Active { .. } | IdleDecision::Unknown => table.unwatch(app),
        }
        decision
    }

    /// Notifies subscribers of the next use of an app, once.
    pub fn watch_for_use(&self, app: &str) {
        let now = self.0.clock.now();
        self.table().watch(app, now);
    }

    /// Stops watching an app, such as one that was deleted.
    pub fn unwatch(&self, app: &str) {
        self.table().unwatch(app);
    }

    /// The ids of watched apps as they are used, from now on. Each subscriber gets all of them.
    pub fn subscribe(&self) -> BoxStream<'static, String> {
        let (sender, mut receiver) = unbounded_channel();
        self.subscribers().push(sender);
        stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }

    pub(super) fn set_gateways(&self, addresses: &BTreeSet<SocketAddr>, is_resolved: bool) {
        let now = self.0.clock.now();
        self.table().set_gateways(addresses, is_resolved, now);
    }

    pub(super) fn within(&self, address: SocketAddr) -> Duration {
        self.table().within(address, self.0.clock.now())
    }

    /// Records the answer to a poll, and notifies subscribers.
    pub(super) fn merge(&self, address: SocketAddr, sent: Moment, report: GatewayReport) {
        let received = self.0.clock.now();
        let answer = Answer {
            sent,
            received,
            report,
        };
        let woken = self.table().merge(address, answer);
        if woken.is_empty() {
            return;
        }
        self.subscribers().retain(|subscriber| {
            let mut sent = woken.iter().map(|app| subscriber.send(app.clone()));
            sent.all(|sent| sent.is_ok())
        });
    }

    pub(super) fn poll_failed(&self, address: SocketAddr) {
        self.table().poll_failed(address);
    }

    fn table(&self) -> MutexGuard<'_, ActivityTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<UnboundedSender<String>>> {
        let subscribers = self.0.subscribers.lock();
        subscribers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GatewayActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayActivity")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use ludgate_model::clock::ManualClock;

    use super::*;
    use crate::idle::report::ReportedUse;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Uses of a gateway that has observed for an hour, and what moves their clock.
    fn activity() -> (GatewayActivity, ManualClock) {
        let (clock, manual) = Clock::manual();
        manual.advance(100 * 24 * 60 * MINUTE);
        let activity = GatewayActivity::new(clock);
        activity.set_gateways(&BTreeSet::from([gateway()]), true);
        report(&activity, &[]);
        (activity, manual)
    }

    fn gateway() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 9090))
    }

    /// The gateway answers at once that these apps are used now.
    fn report(activity: &GatewayActivity, used: &[&str]) {
        let uses = used.iter().map(|app| ReportedUse {
            app: (*app).to_owned(),
            age: Duration::ZERO,
        });
        let report = GatewayReport {
            observed: 60 * MINUTE,
            uses: uses.collect(),
        };
        activity.merge(gateway(), activity.0.clock.now(), report);
    }

    fn timing(idle_for: Option<Duration>) -> IdleTiming {
        IdleTiming {
            idle_after: 30 * MINUTE,
            idle_for,
            started: 600 * MINUTE,
        }
    }

    #[tokio::test]
    async fn an_idle_app_is_watched_and_its_use_reaches_every_subscriber_once() {
        let (activity, manual) = activity();
        let mut one = activity.subscribe();
        let mut other = activity.subscribe();
        drop(activity.subscribe());
        assert_eq!(activity.decide("team/v", timing(None)), IdleDecision::Idle);
        manual.advance(MINUTE);
        report(&activity, &["team/v", "team/w"]);
        report(&activity, &["team/v"]);
        for subscriber in [&mut one, &mut other] {
            assert_eq!(subscriber.next().await.as_deref(), Some("team/v"));
            assert!(subscriber.next().now_or_never().is_none());
        }
        assert_eq!(activity.0.subscribers.lock().expect("no panic").len(), 2);
        let woken = activity.decide("team/v", timing(Some(MINUTE)));
        let check_in = Some(30 * MINUTE);
        assert_eq!(woken, IdleDecision::Active { check_in });
        report(&activity, &["team/v"]);
        assert!(one.next().now_or_never().is_none(), "an active app");
    }

    #[tokio::test]
    async fn a_use_between_the_stop_of_an_app_and_the_start_of_its_watch_wakes_it() {
        let (activity, manual) = activity();
        let mut woken = activity.subscribe();
        let age = 10 * MINUTE;
        assert_eq!(
            activity.decide("team/v", timing(Some(age))),
            IdleDecision::Idle
        );
        let late = GatewayReport {
            observed: 60 * MINUTE,
            uses: vec![ReportedUse {
                app: "team/v".to_owned(),
                age: 9 * MINUTE,
            }],
        };
        activity.merge(gateway(), activity.0.clock.now(), late);
        assert_eq!(woken.next().await.as_deref(), Some("team/v"));
        activity.watch_for_use("team/w");
        activity.watch_for_use("team/x");
        activity.unwatch("team/x");
        manual.advance(MINUTE);
        report(&activity, &["team/w", "team/x"]);
        assert_eq!(woken.next().await.as_deref(), Some("team/w"));
        assert!(woken.next().now_or_never().is_none());
    }

    #[test]
    fn without_gateways_no_app_is_idle() {
        let disabled = GatewayActivity::disabled();
        assert_eq!(disabled.use_of("team/v"), AppUse::default());
        for idle_for in [None, Some(MINUTE)] {
            let decision = disabled.decide("team/v", timing(idle_for));
            assert_eq!(decision, IdleDecision::Active { check_in: None });
        }
    }
}
