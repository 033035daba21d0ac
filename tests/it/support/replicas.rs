//! Gateways that share their sessions through Redis.

use std::time::Duration;

use super::{
    browser::Browser,
    redis::RedisServer,
    until::{LATENESS, holds_within, until_async},
    world::{World, with_operators},
};

/// A page of an app that every signed-in person may open.
pub const USER_PAGE: &str = "/apps/usr/x";

/// Changes of one replica take effect on the other within two seconds (docs/behaviour.md#sessions),
/// and a little later on a loaded machine.
pub const SOON: Duration = Duration::from_secs(2).saturating_add(LATENESS);

/// A step of the clock from which each replica writes the use of its sessions to Redis.
const WRITE_STEP: Duration = Duration::from_secs(15);

/// Two gateways with one Redis; or one gateway with its sessions in memory, in the place of both.
pub struct Replicas {
    pub one: World,
    other: Option<World>,
    redis: Option<RedisServer>,
}

impl Replicas {
    /// Two gateways and their Redis.
    pub async fn start() -> Replicas {
        let redis = RedisServer::start().await;
        let section = redis.section();
        Replicas::sharing(redis, &section).await
    }

    /// Two gateways with this server, and the section of the configuration that names it.
    pub async fn sharing(redis: RedisServer, section: &str) -> Replicas {
        let one = World::with(section, with_operators).await.ready().await;
        let other = one.replica(with_operators).await;
        let replicas = Replicas {
            one,
            other: Some(other),
            redis: Some(redis),
        };
        replicas.until_connected().await;
        replicas
    }

    /// One gateway without Redis, for tests that must hold with and without it.
    pub async fn in_memory() -> Replicas {
        Replicas {
            one: World::with("", with_operators).await.ready().await,
            other: None,
            redis: None,
        }
    }

    /// Sessions in memory, and sessions in Redis.
    pub async fn each_kind() -> [Replicas; 2] {
        [Replicas::in_memory().await, Replicas::start().await]
    }

    /// The second gateway; in memory, the only one.
    pub fn other(&self) -> &World {
        self.other.as_ref().unwrap_or(&self.one)
    }

    pub fn both(&self) -> [&World; 2] {
        [&self.one, self.other()]
    }

    pub fn redis(&self) -> &RedisServer {
        self.redis.as_ref().expect("replicas with Redis")
    }

    pub fn redis_mut(&mut self) -> &mut RedisServer {
        self.redis.as_mut().expect("replicas with Redis")
    }

    /// Both gateways and Redis, for a test that stops a gateway.
    pub fn into_parts(self) -> (World, World, RedisServer) {
        let other = self.other.expect("replicas with Redis");
        let redis = self.redis.expect("replicas with Redis");
        (self.one, other, redis)
    }

    pub async fn until_connected(&self) {
        for world in self.both() {
            world.until_counted("ludgate_session_store_up 1").await;
        }
    }

    pub async fn until_disconnected(&self) {
        for world in self.both() {
            world.until_counted("ludgate_session_store_up 0").await;
        }
    }

    /// Moves the clock of the gateways, and the expiry of all keys in Redis with it.
    pub async fn advance(&self, by: Duration) {
        let clock = &self.one.manual_clock;
        let Some(redis) = &self.redis else {
            clock.advance(by);
            return;
        };
        // A write under way has times to live of the old clock: it must not land on aged keys.
        redis.until_settled().await;
        let before = [
            store_commands(&self.one).await,
            store_commands(self.other()).await,
        ];
        redis.age(by).await;
        clock.advance(by);
        if by < WRITE_STEP {
            return;
        }
        for (world, before) in self.both().into_iter().zip(before) {
            until_async("the background writes of this step begin", async || {
                store_commands(world).await > before
            })
            .await;
        }
    }

    /// The statuses of a fetch from each gateway.
    pub async fn fetch(&self, browser: &mut Browser, target: &str) -> [u16; 2] {
        let mut statuses = [0; 2];
        for (status, world) in statuses.iter_mut().zip(self.both()) {
            browser.turn_to(world.running.address);
            *status = browser.fetch(target).await.status();
        }
        statuses
    }

    /// Fetches [`USER_PAGE`] from both gateways until they answer so. Until then no answer may be
    /// 401, unless that is expected.
    pub async fn until_fetched(
        &self,
        what: &str,
        browser: &mut Browser,
        expected: [u16; 2],
        limit: Duration,
    ) {
        let mut got = [0; 2];
        let is_in_time = holds_within(limit, async || {
            got = self.fetch(browser, USER_PAGE).await;
            assert!(
                expected.contains(&401) || !got.contains(&401),
                "{what}: no redirect to sign in: {got:?}"
            );
            got == expected
        })
        .await;
        assert!(is_in_time, "{what}: {got:?}, not {expected:?}");
    }
}

/// Commands to Redis that a gateway has finished.
async fn store_commands(world: &World) -> f64 {
    let series = "ludgate_session_store_commands_total{result=\"ok\"}";
    world.metric(series).await.unwrap_or_default()
}
