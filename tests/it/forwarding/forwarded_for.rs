//! Who the client is behind a proxy of ours: read from the end of the chain, in every form that
//! proxies write, and never a way around a limit.

use std::process::{Child, Command, Stdio};

use crate::support::{
    message::Message,
    process::until_open,
    raw::Raw,
    world::{World, free_port},
};

const AT_ONCE: usize = 3;

async fn world() -> World {
    World::with(&format!("[limits]\nsign_ins = {AT_ONCE}\n"), |settings| {
        settings.peers.trusted = vec!["127.0.0.1/32".parse().expect("a network")];
        settings
            .listen
            .trusted_proxies
            .clone_from(&settings.peers.trusted);
    })
    .await
    .ready()
    .await
}

/// Begins to sign in, with this line of a proxy.
async fn start(world: &World, chain: &[u8]) -> Message {
    let head = format!(
        "GET /oauth2/start?rd=/ HTTP/1.1\r\nHost: {}\r\nX-Forwarded-For: ",
        world.host
    );
    Raw::exchange(
        world.running.address,
        [head.as_bytes(), chain, b"\r\nConnection: close\r\n\r\n"].concat(),
    )
    .await
}

async fn admitted(world: &World, chain: &[u8]) -> usize {
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += usize::from(start(world, chain).await.status() == 302);
    }
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_that_cannot_be_read_is_no_way_around_the_limit() {
    for chain in [
        &b"\xff, 203.0.113.7"[..],
        b"203.0.113.8:4711",
        b"[2001:db8::1]:4711",
        b"\"203.0.113.9\"",
        b"fe80::1%eth0",
        b"203.0.113.10,",
        b"\xff",
        b"unknown",
    ] {
        let world = world().await;
        let count = admitted(&world, chain).await;
        assert_eq!(count, AT_ONCE, "{}", String::from_utf8_lossy(chain));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_is_named_in_the_log_and_to_apps_whatever_it_wrote_itself() {
    let world = world().await;
    for (chain, client) in [
        (&b"\xff\xfe, 203.0.113.7"[..], "203.0.113.7"),
        (b"1.1.1.1, 203.0.113.7:80", "203.0.113.7"),
        (b"nonsense, [2001:db8::1]:443", "2001:db8::1"),
        (b"203.0.113.7, \xff", "127.0.0.1"),
    ] {
        let head = format!(
            "GET /apps/pub/x HTTP/1.1\r\nHost: {}\r\nX-Forwarded-For: ",
            world.host
        );
        let end = b"\r\nConnection: close\r\n\r\n";
        let answer = Raw::exchange(
            world.running.address,
            [head.as_bytes(), chain, end].concat(),
        )
        .await;
        assert_eq!(answer.status(), 200);
        let seen = world.backend("pub").last();
        assert_eq!(seen.header("x-real-ip").as_deref(), Some(client));
        let line = world.log.line_with(&seen.all("x-request-id")[0]).await;
        assert_eq!(line["client"], client, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_on_one_connection_of_a_proxy_names_its_own_client() {
    let world = world().await;
    let mut proxy = Raw::connect(world.running.address).await;
    for (chain, client) in [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("unknown", "127.0.0.1"),
        ("203.0.113.7", "203.0.113.7"),
    ] {
        let host = &world.host;
        let head =
            format!("GET /apps/pub/x HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {chain}\r\n\r\n");
        proxy.send(head).await;
        let answer = proxy.answer().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let seen = world.backend("pub").last();
        assert_eq!(seen.all("x-real-ip"), [client]);
        let forwarded = seen.all("forwarded");
        assert_eq!(forwarded.len(), 1);
        assert!(forwarded[0].contains(client), "{forwarded:?}");
    }
}

struct Nginx {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// In front of the gateway, as its documentation says.
    async fn before(world: &World) -> Nginx {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let text = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log /dev/null;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n\
             server {{ listen 127.0.0.2:{port}; location / {{ proxy_pass http://{}; proxy_http_version 1.1;\n\
             proxy_set_header Host {}; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }} }}\n",
            world.running.address,
            world.host,
            folder = folder.path().display(),
        );
        std::fs::write(folder.path().join("nginx.conf"), text).expect("written");
        let child = Command::new("/usr/sbin/nginx")
            .arg("-c")
            .arg(folder.path().join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx: tests/install.sh installs it");
        until_open(("127.0.0.2", port)).await;
        Nginx {
            child,
            port,
            _folder: folder,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_real_nginx_a_byte_of_the_client_hides_no_address() {
    let world = world().await;
    let nginx = Nginx::before(&world).await;
    let address = std::net::SocketAddr::from(([127, 0, 0, 2], nginx.port));
    let mut admitted = 0;
    for count in 0_u8..20 {
        // From an address of its own, which is none of our proxies'.
        let mut raw = Raw::connect_from("127.0.0.9", address).await;
        let head = b"GET /oauth2/start?rd=/ HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: \xff";
        raw.send(
            [
                &head[..],
                &[b'0' + count % 10],
                b"\r\nConnection: close\r\n\r\n",
            ]
            .concat(),
        )
        .await;
        admitted += usize::from(raw.answer().await.expect("an answer").status() == 302);
    }
    assert_eq!(admitted, AT_ONCE);
}
