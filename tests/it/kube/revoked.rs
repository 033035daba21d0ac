//! A change of who may reach an app takes effect at once, on what is open too; the others notice
//! nothing (docs/behaviour.md#kubernetes).

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::namespace::Namespace;
use crate::support::{
    backend::Backend,
    kube_namespace::application,
    message::{PATIENCE, Reader},
    until::assert_soon,
};

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_public_app_made_a_group_app_cuts_strangers_within_a_second_and_no_member() {
    let namespace = Namespace::new().await;
    namespace.running("flip", 0).await;
    let download = slow_download(&namespace, 1).await;
    namespace.app("flip", "public", json!({})).await;
    namespace.app("files", "public", json!({})).await;
    let world = namespace.world().await;
    let (alice, anonymous) = (world.signed_in("alice").await, world.browser());
    let mut socket = world.websocket(&anonymous, "flip").await;
    assert!(socket.carries().await);
    // A member's download, begun while the app was everybody's but for her sign-in.
    namespace.app("files", "primehub", json!({})).await;
    world
        .until(|snapshot| {
            snapshot
                .find("files")
                .is_some_and(|app| app.spec.access.kind() == "user")
        })
        .await;
    let mut hers = world.raw().await;
    let cookies = alice.cookie_line("/apps/files/");
    hers.send(format!(
        "GET /apps/files/big HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{cookies}\r\n",
        world.host
    ))
    .await;
    assert_eq!(
        hers.reader
            .head()
            .await
            .expect("readable")
            .expect("a head")
            .status(),
        200
    );

    for (name, before) in [("flip", &mut socket)] {
        let narrowed = application(name, "group", json!({})).to_string();
        namespace
            .kubectl(
                &["apply", "--server-side", "--force-conflicts", "-f", "-"],
                &narrowed,
            )
            .await;
        let applied = Instant::now();
        assert_eq!(before.farewell().await, Some(1008), "the WebSocket ended");
        let refused = world
            .exchange(&format!("GET /apps/{name}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            .await;
        assert_eq!(refused.status(), 401);
        assert_soon(SOON, applied.elapsed());
    }
    namespace.app("files", "group", json!({})).await;
    world
        .until(|snapshot| {
            snapshot
                .find("files")
                .is_some_and(|app| app.spec.access.kind() == "group")
        })
        .await;
    download.go_on();
    let whole = hers.reader.rest().await.expect("the rest");
    assert_eq!(whole.len(), DOWNLOAD, "byte for byte");
    assert!(whole.iter().zip(pattern()).all(|(got, sent)| *got == sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_group_cuts_its_former_members_and_a_deletion_cuts_everybody() {
    let namespace = Namespace::new().await;
    namespace.running("room", 0).await;
    namespace
        .app("room", "group", json!({ "groupName": "phusers" }))
        .await;
    let world = namespace.world().await;
    let (alice, bob) = (world.signed_in("alice").await, world.signed_in("bob").await);
    let mut hers = world.websocket(&alice, "room").await;
    namespace
        .app("room", "group", json!({ "groupName": "friends" }))
        .await;
    world
        .until(|snapshot| {
            snapshot
                .find("room")
                .is_some_and(|app| app.spec.access.to_string() == "group:friends")
        })
        .await;
    assert!(
        hers.carries().await,
        "alice is in both groups and notices nothing"
    );
    let mut his = world.websocket(&bob, "room").await;
    namespace
        .app("room", "group", json!({ "groupName": "phusers" }))
        .await;
    assert_eq!(
        his.farewell().await,
        Some(1008),
        "bob is in the first one no longer"
    );
    assert!(hers.carries().await);
    let gone = Instant::now();
    namespace.delete("room").await;
    assert_eq!(
        hers.farewell().await,
        Some(1008),
        "no stream is left at a deleted app"
    );
    assert_soon(SOON, gone.elapsed());
    let mut alice = alice;
    assert_eq!(alice.open("/apps/room/").await.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_changes_hands_takes_no_connection_of_its_last_tenant_along() {
    let namespace = Namespace::new().await;
    let first = Backend::on("first", namespace.pods.listen(0, 5000));
    namespace.endpoints("first", &[first.address()]).await;
    namespace.app("first", "public", json!({})).await;
    let world = namespace.world().await;
    let get = "GET /apps/first/ HTTP/1.1\r\nHost: HOST\r\n\r\n";
    assert_eq!(world.exchange(get).await.status(), 200);
    let before = first.connections();
    // The app moves to another address, and back: what was kept to the first is not used again.
    let second = Backend::on("second", namespace.pods.listen(1, 5000));
    for (to, expected) in [(second.address(), "second"), (first.address(), "first")] {
        namespace.endpoints("first", &[to]).await;
        let wanted = to.to_string();
        world
            .until(|snapshot| {
                snapshot
                    .find("first")
                    .is_some_and(|app| format!("{:?}", app.spec.upstream).contains(&wanted))
            })
            .await;
        assert_eq!(
            world.exchange(get).await.text(),
            format!("{expected} /apps/first/")
        );
    }
    assert!(
        first.connections() > before,
        "a new connection, not the kept one"
    );
}

const DOWNLOAD: usize = 600_000;

fn pattern() -> impl Iterator<Item = u8> {
    (0..DOWNLOAD).map(|at| u8::try_from(at % 251).expect("below 251"))
}

/// The second half of the download waits until it is told to go on.
struct Download(tokio::sync::watch::Sender<bool>);

impl Download {
    fn go_on(&self) {
        self.0.send_replace(true);
    }
}

async fn slow_download(namespace: &Namespace, pod: u8) -> Download {
    let listener = namespace.pods.listen(pod, 0);
    namespace
        .endpoints("files", &[listener.local_addr().expect("an address")])
        .await;
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    let (go_on, told) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut told = told.clone();
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let _ = Reader::new(read).head().await;
                let bytes: Vec<u8> = pattern().collect();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {DOWNLOAD}\r\nConnection: close\r\n\r\n"
                );
                let _ = write.write_all(head.as_bytes()).await;
                let _ = write.write_all(&bytes[..1000]).await;
                let _ = tokio::time::timeout(PATIENCE, told.wait_for(|go_on| *go_on)).await;
                let _ = write.write_all(&bytes[1000..]).await;
            });
        }
    });
    Download(go_on)
}
