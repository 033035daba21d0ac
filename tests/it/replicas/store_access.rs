//! How Redis is reached: with TLS, as a user of its own, and beside records of other programs.

use super::store_away::{MINUTE, people};
use crate::{
    sessions::store::admin,
    support::{
        message::PATIENCE,
        redis::RedisServer,
        replicas::{Replicas, USER_PAGE},
        until::{until, until_async},
    },
};
use redis::cmd;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_counts_as_absent_and_is_counted() {
    let pair = Replicas::start().await;
    let sealed = async |key: &str| {
        pair.redis()
            .run::<String>(cmd("HGET").arg(key).arg("r"))
            .await
    };
    let key_of = async |person: &str| {
        let before = pair.redis().keys("ludgate:s:").await;
        let browser = pair.one.signed_in(person).await;
        let after = pair.redis().keys("ludgate:s:").await;
        let key = after
            .into_iter()
            .find(|key| !before.contains(key))
            .expect("a record");
        (browser, key)
    };
    let ((mut alice, of_alice), (mut bob, of_bob)) = (key_of("alice").await, key_of("bob").await);
    let record = sealed(&of_alice).await;
    let half = record[..record.len() / 2].to_owned();
    for (what, forged) in [
        ("truncated", half),
        ("another's", record),
        ("nothing", String::new()),
    ] {
        let version = 1000;
        pair.redis()
            .run::<i64>(
                cmd("HSET")
                    .arg(&of_bob)
                    .arg("v")
                    .arg(version)
                    .arg("r")
                    .arg(forged),
            )
            .await;
        bob.turn_to(pair.other().running.address);
        assert_eq!(bob.fetch("/apps/usr/x").await.status(), 401, "{what}");
    }
    pair.redis().run::<i64>(cmd("DEL").arg(&of_alice)).await;
    pair.redis()
        .run::<()>(cmd("SET").arg(&of_alice).arg("a text"))
        .await;
    alice.turn_to(pair.other().running.address);
    assert_eq!(
        alice.fetch("/apps/usr/x").await.status(),
        401,
        "another type"
    );
    let foreign = "ludgate_session_store_commands_total{result=\"foreign\"}";
    until_async("the foreign record is counted", async || {
        pair.other().metric(foreign).await > Some(0.0)
    })
    .await;
    // Where they are in memory they go on.
    for browser in [&mut alice, &mut bob] {
        browser.turn_to(pair.one.running.address);
        assert_eq!(browser.fetch("/apps/usr/x").await.status(), 200);
    }
    for nonsense in [
        "ended",
        "ended x 1",
        "changed ../../",
        "app /",
        "",
        "\u{0}",
        "quit now",
    ] {
        pair.redis()
            .run::<i64>(cmd("PUBLISH").arg("ludgate:events").arg(nonsense))
            .await;
    }
    assert_eq!(
        admin(&pair.one, "GET", "subject=bob").await["sessions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_and_a_user_of_its_own() {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("tls.crt"), made.cert.pem()).expect("written");
    std::fs::write(path("tls.key"), made.signing_key.serialize_pem()).expect("written");
    let port = crate::support::world::free_port().to_string();
    // The commands that docs/sessions.md names, and no others.
    let acl = include_str!("../../../docs/sessions.md")
        .lines()
        .find_map(|line| line.trim().strip_prefix("user ludgate "))
        .expect("documented");
    std::fs::write(
        path("users.acl"),
        format!("user default on nopass ~* &* +@all\nuser ludgate {acl}\n"),
    )
    .expect("written");
    let (tls_port, certificate, key, users) =
        (&*port, path("tls.crt"), path("tls.key"), path("users.acl"));
    let redis = RedisServer::with(&[
        "--tls-port",
        tls_port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
        "--aclfile",
        &users,
    ])
    .await;
    let store = format!("rediss://ludgate:secret@localhost:{port}");
    let section = format!(
        "{}store_ca = \"{}\"\n",
        redis.section_at(&store),
        path("tls.crt")
    );
    let pair = Replicas::sharing(redis, &section).await;
    let [mut alice, mut bob, _] = people(&pair).await;
    assert_eq!(pair.fetch(&mut alice, USER_PAGE).await, [200, 200]);
    pair.advance(5 * MINUTE).await;
    assert_eq!(pair.fetch(&mut alice, USER_PAGE).await, [200, 200]);
    until("the person is checked again", || {
        pair.one.provider.calls("refresh") > 0
    })
    .await;
    assert_eq!(admin(&pair.one, "DELETE", "subject=bob").await["ended"], 1);
    pair.until_fetched("the session ends on both", &mut bob, [401, 401], PATIENCE)
        .await;
    admin(pair.other(), "DELETE", "app=usr").await;
    for world in pair.both() {
        let metrics = world.admin("/metrics", "").await.text();
        assert!(
            !metrics.contains("session_store_commands_total{result=\"error\"}"),
            "{metrics}"
        );
    }
    let denied: Vec<redis::Value> = pair.redis().run(cmd("ACL").arg("LOG")).await;
    assert!(denied.is_empty(), "nothing was refused: {denied:?}");
}
