//! Tests of the poller with admin servers on loopback.

use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt};
use ludgate_model::{clock::ManualClock, secret::Secret};
use ludgate_ops::{
    admin::{self, Reply},
    process::Process,
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, pause},
};

use super::*;

const TOKEN: &str = "admin-token";
const HOUR: Duration = Duration::from_secs(3600);

/// An admin server that answers every poll with the reply that was set last.
struct FakeGateway {
    address: SocketAddr,
    reply: Arc<Mutex<Reply>>,
    queries: Arc<Mutex<Vec<String>>>,
}

impl FakeGateway {
    async fn start() -> FakeGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let reply = Arc::new(Mutex::new(admin::text(StatusCode::OK, "")));
        let queries = Arc::new(Mutex::new(Vec::new()));
        let current = reply.clone();
        let seen = queries.clone();
        let server = Process::new().admin(Some(Secret::new(TOKEN)));
        let server = server.route("/activity", &[], move |request| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            seen.lock().expect("no panic").push(query);
            let reply = current.lock().expect("no panic").clone();
            async move { reply }
        });
        tokio::spawn(server.serve(listener));
        FakeGateway {
            address,
            reply,
            queries,
        }
    }

    /// A gateway that has observed for an hour.
    async fn with_uses(uses: &[(&str, f64)]) -> FakeGateway {
        let gateway = FakeGateway::start().await;
        gateway.set_uses(uses);
        gateway
    }

    fn set_uses(&self, uses: &[(&str, f64)]) {
        let apps = uses
            .iter()
            .map(|(app, age)| json!({ "id": app, "used_s": age }));
        let apps: Vec<Value> = apps.collect();
        self.set_reply(admin::json(&json!({ "observed_s": 3600.0, "apps": apps })));
    }

    fn set_reply(&self, reply: Reply) {
        *self.reply.lock().expect("no panic") = reply;
    }

    fn queries(&self) -> Vec<String> {
        self.queries.lock().expect("no panic").clone()
    }
}

/// A poller of these addresses whose clock the test moves, and its registry.
fn poller(gateways: &[SocketAddr], token: &str) -> (GatewayPoller, ManualClock, Registry) {
    let gateways: Vec<String> = gateways.iter().map(SocketAddr::to_string).collect();
    poller_of_names(&gateways, token)
}

fn poller_of_names(gateways: &[String], token: &str) -> (GatewayPoller, ManualClock, Registry) {
    let (clock, manual) = Clock::manual();
    manual.advance(100 * 24 * HOUR);
    let registry = Registry::new();
    let gateways = gateways
        .iter()
        .map(|text| GatewayAddress::parse(text).expect("an address"));
    let settings = IdleSettings {
        gateways: gateways.collect(),
        token: Secret::new(token),
    };
    let poller = GatewayPoller::new(settings, clock, &registry);
    (poller, manual, registry)
}

/// An address at which no process listens.
async fn closed_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    listener.local_addr().expect("an address")
}

fn count(registry: &Registry, result: &str) -> u64 {
    let row = format!("ludgate_controller_gateway_polls_total{{result=\"{result}\"}} ");
    let text = registry.render();
    let value = text.lines().find_map(|line| line.strip_prefix(&row));
    value.map_or(0, |value| value.parse().expect("a number"))
}

#[tokio::test]
async fn all_gateways_are_polled_for_the_uses_since_their_last_answer() {
    let one = FakeGateway::with_uses(&[("team/v", 60.0), ("wiki", 1.5)]).await;
    let other = FakeGateway::with_uses(&[("team/v", 10.0)]).await;
    let (mut poller, manual, registry) = poller(&[one.address, other.address], TOKEN);
    let activity = poller.activity();
    poller.poll().await;
    let app_use = activity.use_of("team/v");
    assert_eq!(app_use.last_use, Some(Duration::from_secs(10)));
    assert_eq!(app_use.observed, Some(HOUR));
    let wiki = activity.use_of("wiki").last_use;
    assert_eq!(wiki, Some(Duration::from_millis(1500)));
    manual.advance(Duration::from_millis(1200));
    poller.poll().await;
    for gateway in [&one, &other] {
        assert_eq!(gateway.queries(), ["within=604800", "within=7"]);
    }
    assert_eq!(count(&registry, "ok"), 4);
}

#[tokio::test]
async fn an_unreachable_gateway_makes_no_app_idle_and_another_one_wakes_it() {
    let gateway = FakeGateway::with_uses(&[]).await;
    let closed = closed_address().await;
    let (mut poller, manual, registry) = poller(&[closed, gateway.address], TOKEN);
    let activity = poller.activity();
    let mut woken = activity.subscribe();
    activity.watch_for_use("team/v");
    poller.poll().await;
    assert_eq!(activity.use_of("team/v").observed, None);
    assert!(woken.next().now_or_never().is_none());
    manual.advance(INTERVAL);
    gateway.set_uses(&[("team/v", 0.25)]);
    poller.poll().await;
    assert_eq!(woken.next().await.as_deref(), Some("team/v"));
    let last_use = activity.use_of("team/v").last_use;
    assert_eq!(last_use, Some(Duration::from_millis(250)));
    assert_eq!(count(&registry, "unreachable"), 2);
    assert_eq!(poller.warned.len(), 1, "one warning a minute");
}

#[tokio::test]
async fn a_refused_token_is_no_answer() {
    let gateway = FakeGateway::with_uses(&[("team/v", 1.0)]).await;
    let (mut poller, _, registry) = poller(&[gateway.address], "another-token");
    poller.poll().await;
    let app_use = poller.activity().use_of("team/v");
    assert_eq!((app_use.last_use, app_use.observed), (None, None));
    assert_eq!(count(&registry, "refused"), 1);
    assert!(gateway.queries().is_empty());
}

#[tokio::test]
async fn invalid_and_huge_reports_change_no_use() {
    let gateway = FakeGateway::with_uses(&[("team/v", 3.0)]).await;
    let (mut poller, _, registry) = poller(&[gateway.address], TOKEN);
    let activity = poller.activity();
    poller.poll().await;
    let negative = json!({ "observed_s": 3600, "apps": [{ "id": "team/v", "used_s": -1 }] });
    let replies = [
        admin::json(&negative),
        admin::text(StatusCode::OK, "no JSON"),
        admin::text(StatusCode::OK, vec![b' '; MAX_REPORT + 1]),
    ];
    for reply in replies {
        gateway.set_reply(reply);
        poller.poll().await;
        let app_use = activity.use_of("team/v");
        assert_eq!(app_use.last_use, Some(Duration::from_secs(3)));
        assert_eq!(app_use.observed, None);
    }
    assert_eq!(count(&registry, "invalid"), 3);
    gateway.set_uses(&[]);
    poller.poll().await;
    assert_eq!(activity.use_of("team/v").observed, Some(HOUR));
}

#[tokio::test]
async fn a_name_is_resolved_at_each_poll_and_keeps_its_addresses_when_that_fails() {
    let gateway = FakeGateway::with_uses(&[("team/v", 1.0)]).await;
    let names = [format!("localhost:{}", gateway.address.port())];
    let (mut poller, _, registry) = poller_of_names(&names, TOKEN);
    poller.poll().await;
    assert!(poller.addresses[0].contains(&gateway.address));
    // No resolver accepts a name with a zero byte.
    poller.settings.gateways[0].host = "local\0host".to_owned();
    gateway.set_uses(&[("team/w", 0.0)]);
    poller.poll().await;
    assert_eq!(count(&registry, "unresolved"), 1);
    let app_use = poller.activity().use_of("team/w");
    assert_eq!(app_use.last_use, Some(Duration::ZERO));
    assert_eq!(app_use.observed, None);
}

#[tokio::test]
async fn a_silent_gateway_costs_a_poll_two_seconds_and_no_more() {
    // The kernel completes the connection; no answer follows.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (mut poller, _, registry) = poller(&[address], TOKEN);
    pause();
    let started = Instant::now();
    // The paused clock moves on when no task can run.
    poller.poll().await;
    assert!(started.elapsed() >= DEADLINE);
    assert!(started.elapsed() < DEADLINE + INTERVAL);
    assert_eq!(count(&registry, "timeout"), 1);
}

#[tokio::test]
async fn a_running_poller_polls_every_second() {
    let gateway = FakeGateway::with_uses(&[("team/v", 0.0)]).await;
    let (poller, manual, _) = poller(&[gateway.address], TOKEN);
    let activity = poller.activity();
    let mut woken = activity.subscribe();
    tokio::spawn(poller.run());
    for _ in 0..3 {
        activity.watch_for_use("team/v");
        // Only a use after the beginning of the watch counts.
        manual.advance(INTERVAL);
        assert_eq!(woken.next().await.as_deref(), Some("team/v"));
    }
    assert!(gateway.queries().len() >= 3);
}
