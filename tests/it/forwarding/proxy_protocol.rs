//! `apps.proxy_protocol`: an app that asks for it is told by each connection who is on it, and a
//! connection is one client's.

use std::sync::{Arc, Mutex};

use tokio::{io::AsyncReadExt, net::TcpListener};

use crate::support::{backend::Backend, raw::Raw, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_names_its_client_and_serves_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (backend, told) = (
        Backend::nowhere("told", address),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (serving, telling) = (backend.clone(), told.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (serving, telling) = (serving.clone(), telling.clone());
            tokio::spawn(async move {
                let mut header = [0; 28];
                stream.read_exact(&mut header).await.expect("a header");
                telling.lock().expect("no panic").push(header);
                serving.serve(stream).await;
            });
        }
    });
    let toml = format!(
        "[[apps]]\nid = \"told\"\naccess = \"public\"\nupstream = \"http://{address}\"\nproxy_protocol = true\n"
    );
    let world = World::with_threads(1, &toml, |settings| {
        settings.peers.trusted = vec!["127.0.0.9/32".parse().expect("a network")];
    })
    .await
    .and_backend("told", backend.clone());
    let request = |more: &str| {
        format!(
            "GET /apps/told/x HTTP/1.1\r\nHost: {}\r\n{more}\r\n",
            world.host
        )
    };
    let mut clients = Vec::new();
    for source in ["127.0.0.3", "127.0.0.4"] {
        let mut raw = Raw::connect_from(source, world.running.address).await;
        for _ in 0..3 {
            raw.send(request("")).await;
            assert_eq!(raw.answer().await.expect("an answer").status(), 200);
        }
        clients.push(raw);
    }
    assert_eq!(
        backend.connections(),
        2,
        "one for each client, used again by the same"
    );
    // A proxy of ours names who it speaks for; on its one connection there are many.
    let mut proxy = Raw::connect_from("127.0.0.9", world.running.address).await;
    for client in ["203.0.113.7", "203.0.113.8", "203.0.113.7"] {
        proxy
            .send(request(&format!("X-Forwarded-For: {client}\r\n")))
            .await;
        assert_eq!(proxy.answer().await.expect("an answer").status(), 200);
    }
    let told = told.lock().expect("no panic").clone();
    let addresses: Vec<_> = told.iter().map(|header| &header[16..20]).collect();
    assert_eq!(
        addresses,
        [
            [127, 0, 0, 3],
            [127, 0, 0, 4],
            [203, 0, 113, 7],
            [203, 0, 113, 8]
        ]
    );
    for header in &told {
        assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
    }
    let port = |header: &[u8; 28]| u16::from_be_bytes([header[24], header[25]]);
    assert!(
        port(&told[0]) != 0 && port(&told[2]) == 0,
        "a client without a known port has none"
    );
    world.check_oracles().await;
}
