//! Service tokens in the Redis that replicas share.

use std::{sync::Arc, time::Duration};

use ludgate::{
    identity::service_tokens::{
        hash_prefix::HashPrefix,
        record::{ServiceName, TokenList},
        redis::TokenStore,
        registry::{TokenRegistry, TokenRegistryError},
    },
    ops::redis::{Link, LinkPurpose, StoreMetrics},
    session::keys::KeyRing,
};
use redis::cmd;

use crate::support::{
    redis::RedisServer,
    replicas::Replicas,
    service_tokens::request,
    until::{until, until_async},
    world::World,
};

/// Within this time a revocation is known.
const KNOWN: Duration = Duration::from_secs(10);

async fn status(world: &World, token: &str) -> u16 {
    world.get_with_token("usr", token).await.status()
}

/// What an operator uses.
async fn registry(redis: &RedisServer) -> TokenRegistry {
    let keys = KeyRing::from_file(&redis.keys_file()).expect("keys");
    registry_with(redis, keys).await
}

/// What an operator uses whose file of keys is another.
async fn registry_with(redis: &RedisServer, keys: KeyRing) -> TokenRegistry {
    let purpose = LinkPurpose {
        store: "session store",
        while_away: "tests wait",
        channel: "ludgate:none".to_owned(),
    };
    let link = Arc::new(Link::new(
        redis.settings(),
        purpose,
        StoreMetrics::default(),
    ));
    let running = link.clone();
    tokio::spawn(async move { running.run(|_| {}).await });
    until("the link is up", || link.is_up()).await;
    TokenRegistry::Redis(TokenStore::new(link, Arc::new(keys)))
}

async fn replicas() -> (Replicas, TokenRegistry) {
    let redis = RedisServer::start().await;
    let section = format!("{}[tokens]\nstore = \"session\"\n", redis.section());
    let registry = registry(&redis).await;
    (Replicas::sharing(redis, &section).await, registry)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_known_to_all_replicas_and_costs_a_call_now_and_then() {
    let (replicas, registry) = replicas().await;
    let made = registry
        .create(&request("nightly", &["usr"], &[], 600))
        .await;
    let made = made.expect("a token");
    let token = made.as_str();
    for world in replicas.both() {
        assert_eq!(status(world, token).await, 200);
    }
    let gets = replicas.redis().calls("get").await;
    for _ in 0..20 {
        assert_eq!(status(&replicas.one, token).await, 200);
    }
    let asked = replicas.redis().calls("get").await - gets;
    assert!(asked < 20, "it is warm: {asked} calls");
    let listed = registry.list().await.expect("listed");
    let names: Vec<&str> = listed.tokens.iter().map(|it| &*it.record.name).collect();
    assert_eq!(names, ["nightly"]);
    let name = ServiceName::new("nightly").expect("a name");
    registry.revoke(&name).await.expect("revoked");
    replicas.one.manual_clock.advance(KNOWN);
    for world in replicas.both() {
        assert_eq!(status(world, token).await, 401);
    }
    assert_eq!(registry.list().await.expect("listed"), TokenList::default());
    let again = registry.revoke(&name).await;
    assert!(matches!(again, Err(TokenRegistryError::Unknown(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nothing_is_admitted_once_the_answer_is_old() {
    let (mut replicas, registry) = replicas().await;
    let made = registry
        .create(&request("nightly", &["usr"], &[], 600))
        .await;
    let made = made.expect("a token");
    assert_eq!(status(&replicas.one, made.as_str()).await, 200);
    replicas.redis_mut().kill().await;
    replicas.until_disconnected().await;
    assert_eq!(status(&replicas.one, made.as_str()).await, 200);
    assert_eq!(status(replicas.other(), made.as_str()).await, 503);
    replicas.one.manual_clock.advance(KNOWN);
    assert_eq!(status(&replicas.one, made.as_str()).await, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_hides_no_token_and_the_hash_revokes_it() {
    let (replicas, registry) = replicas().await;
    let made = registry
        .create(&request("nightly", &["usr"], &[], 600))
        .await;
    let made = made.expect("a token");
    let other = registry_with(replicas.redis(), KeyRing::random()).await;
    for _ in 0..2 {
        let listed = other.list().await.expect("listed");
        assert!(listed.tokens.is_empty());
        assert_eq!(listed.unreadable, [made.key()]);
    }
    let listed = registry.list().await.expect("listed");
    assert_eq!(listed.tokens.len(), 1, "it is still in the index");
    assert_eq!(status(&replicas.one, made.as_str()).await, 200);
    let hash = HashPrefix::shown(made.key());
    other.revoke_by_hash(&hash).await.expect("revoked");
    replicas.one.manual_clock.advance(KNOWN);
    assert_eq!(status(&replicas.one, made.as_str()).await, 401);
    let again = other.revoke_by_hash(&hash).await;
    assert!(matches!(again, Err(TokenRegistryError::UnknownHash(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_another_client_wrote_or_moved_is_no_token() {
    let (replicas, registry) = replicas().await;
    let made = registry
        .create(&request("nightly", &["usr"], &[], 600))
        .await;
    let made = made.expect("a token");
    let other = registry.create(&request("other", &["grp"], &[], 600)).await;
    let other = other.expect("a token");
    let redis = replicas.redis();
    let name = |key: &str| format!("ludgate:k:{key}");
    let own: String = redis.run(cmd("GET").arg(name(&made.key().hex()))).await;
    // The record of a token for `usr`, in the place of one for another app.
    redis
        .run::<()>(cmd("SET").arg(name(&other.key().hex())).arg(&own))
        .await;
    assert_eq!(status(&replicas.one, other.as_str()).await, 401);
    let plain = "{\"name\":\"x\",\"apps\":[\"usr\"]}";
    redis
        .run::<()>(cmd("SET").arg(name(&made.key().hex())).arg(plain))
        .await;
    assert_eq!(status(&replicas.one, made.as_str()).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tokens_of_one_client_are_limited_and_known_ones_are_not() {
    let (replicas, registry) = replicas().await;
    let made = registry
        .create(&request("nightly", &["usr"], &[], 600))
        .await;
    let made = made.expect("a token");
    assert_eq!(status(&replicas.one, made.as_str()).await, 200);
    let before = replicas.redis().calls("get").await;
    let mut statuses = Vec::new();
    for _ in 0..100 {
        let strange = ludgate::identity::service_tokens::text::NewServiceToken::random();
        let strange = strange.expect("random bytes");
        statuses.push(status(&replicas.one, strange.as_str()).await);
    }
    assert_eq!(statuses[..32], [401; 32]);
    assert_eq!(statuses[32..], [503; 68]);
    let asked = replicas.redis().calls("get").await - before;
    assert!((32..68).contains(&asked), "{asked} look-ups");
    // Texts that cannot be tokens need no look-up.
    assert_eq!(status(&replicas.one, "ludgate_x").await, 401);
    until_async("a known token is not limited", async || {
        status(&replicas.one, made.as_str()).await == 200
    })
    .await;
}
