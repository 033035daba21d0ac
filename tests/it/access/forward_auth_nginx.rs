//! A real nginx in front of an app, configured as docs/forward-auth.md says: it asks the gateway
//! before it forwards a request.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use crate::support::{
    browser::{Browser, From, at_built_in_provider, path_of},
    forward_auth::{documented, sign_in_at, trust_this_machine},
    process::{Running, until_open},
    raw::Raw,
    world::{World, free_port},
};

/// nginx at the host of the app `grp`, whose pages the site signs people in for.
struct Nginx {
    address: SocketAddr,
    host: String,
    _process: Running,
    _folder: tempfile::TempDir,
}

impl Nginx {
    async fn before(world: &World) -> Nginx {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let listen = format!("listen 127.0.0.2:{port};");
        let listen_default = format!("listen 127.0.0.2:{port} default_server;");
        let host = format!("grp.localhost:{}", world.running.address.port());
        let site_name = world.host.split(':').next().unwrap_or_default();
        let site_name = format!("server_name {site_name};");
        let gateway = world.running.address.to_string();
        let app = world.backend("grp").address().to_string();
        // The ports first: other replacements contain ports that may begin like them.
        let changes = [
            ("127.0.0.1:5000", app.as_str()),
            ("127.0.0.1:8080", gateway.as_str()),
            ("listen 443 ssl default_server;", listen_default.as_str()),
            ("listen 443 ssl;", listen.as_str()),
            ("server_name hub.example.com;", site_name.as_str()),
            ("hub.example.com", world.host.as_str()),
            (
                "server_name mlflow.apps.example.com;",
                "server_name grp.localhost;",
            ),
            ("mlflow.apps.example.com", host.as_str()),
        ];
        let server = documented("nginx", &changes);
        let is_kept = |line: &&str| !line.contains("ssl_certificate");
        let server: Vec<&str> = server.lines().filter(is_kept).collect();
        let at = folder.path().display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {at}/body;\n\
             proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u;\n\
             scgi_temp_path {at}/s;\n{}\n}}\n",
            server.join("\n")
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config).expect("written");
        let child = Command::new("/usr/sbin/nginx")
            .arg("-c")
            .arg(file)
            .stdout(Stdio::null())
            .spawn()
            .expect("nginx: tests/install.sh installs it");
        let process = Running(child);
        until_open(("127.0.0.2", port)).await;
        Nginx {
            address: ([127, 0, 0, 2], port).into(),
            host,
            _process: process,
            _folder: folder,
        }
    }

    fn browser(&self) -> Browser {
        Browser::new(self.address, &self.host)
    }

    /// A browser whose person has signed in at the host, and the same as the site knows it.
    async fn signed_in(&self, world: &World, person: &str) -> (Browser, Browser) {
        let mut browser = self.browser();
        let answer = browser.open("/a%2Fb?x=1&y=%26").await;
        assert_eq!(answer.status(), 302, "{answer:?}");
        let location = answer.header("location").expect("the site");
        let (entered, at_site) = sign_in_at(world, &mut browser, &location, person).await;
        let page = format!("http://{}/a%2Fb?x=1&y=%26", self.host);
        assert_eq!(entered.header("location"), Some(page));
        (browser, at_site)
    }
}

async fn world() -> World {
    World::with("", trust_this_machine).await.ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_and_the_app_is_told_who_it_is() {
    let world = world().await;
    let nginx = Nginx::before(&world).await;
    let app = world.backend("grp");
    let stranger = nginx.browser().fetch("/x").await;
    assert_eq!(
        (stranger.status(), stranger.header("location")),
        (401, None)
    );
    let (mut alice, _) = nginx.signed_in(&world, "alice").await;
    assert_eq!(app.count(), 0, "nothing before the sign-in");
    let page = alice.open("/a%2Fb?x=1&y=%26").await;
    assert_eq!(page.status(), 200);
    assert!(page.all("set-cookie").is_empty());
    let seen = app.last();
    assert_eq!(seen.target(), "/a%2Fb?x=1&y=%26");
    for (name, value) in [
        ("x-auth-request-user", "alice"),
        ("x-auth-request-email", "alice@example.com"),
        ("x-auth-request-preferred-username", "alice"),
        ("x-auth-request-groups", "phusers,friends"),
    ] {
        assert_eq!(seen.all(name), [value], "{name}");
    }
    let forged = "X-Auth-Request-User: root\r\nX_Auth_Request_User: root\r\n\
                  X-Auth-Request-Groups-Truncated: true\r\nX-Forwarded-Uri: /y\r\n\
                  X-Original-URL: /y\r\nX-HTTP-Method-Override: PUT\r\n\
                  X-Forwarded-Method: OPTIONS\r\nX-Forwarded-Host: pub.localhost\r\n";
    let answer = alice
        .send("POST", "/echo", From::Fetch, forged, b"body")
        .await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "body"));
    let seen = app.last();
    assert_eq!(seen.all("x-auth-request-user"), ["alice"]);
    for name in [
        "x_auth_request_user",
        "x-auth-request-groups-truncated",
        "x-original-url",
        "x-http-method-override",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let own = alice.open("/.ludgate/jwks").await;
    assert_eq!(own.status(), 404, "Ludgate answers, and not the app");
    assert_eq!(alice.open("/.ludgate/auth").await.status(), 404);
    assert_eq!(app.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_does_not_permit_reaches_no_app() {
    let world = world().await;
    let nginx = Nginx::before(&world).await;
    let app = world.backend("grp");
    let (mut alice, mut at_site) = nginx.signed_in(&world, "alice").await;
    assert_eq!(alice.fetch("/x").await.status(), 200);
    let foreign = alice.send("GET", "/x", From::ForeignFetch, "", b"").await;
    assert_eq!(foreign.status(), 401, "another site's page");
    assert_eq!(
        alice.fetch("/a/%252e%252e/%252e%252e/x").await.status(),
        403
    );
    let reached = app.count();
    // gRPC calls and malformed heads are refused by other statuses elsewhere.
    for lines in [
        "Content-Type: application/grpc\r\n",
        "Authorization: Basic YTpi\r\nAuthorization: Basic YTpj\r\n",
        "Content-Type: application/grpc\r\nAuthorization: Basic YTpi\r\n\
         Authorization: Basic YTpj\r\n",
        "X-Forwarded-Uri: /x\r\nX-Forwarded-Host: pub.localhost\r\n",
    ] {
        let request = format!(
            "GET /x HTTP/1.1\r\nHost: {}\r\n{lines}Connection: close\r\n\r\n",
            nginx.host
        );
        let status = Raw::exchange(nginx.address, request).await.status();
        assert!(status >= 400, "{status}: {lines}");
    }
    assert_eq!(at_site.sign_out().await.status(), 200);
    assert_eq!(alice.fetch("/x").await.status(), 401, "signed out");
    assert_eq!(app.count(), reached);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_does_not_choose_the_app_that_is_checked() {
    let world = world().await;
    let nginx = Nginx::before(&world).await;
    let port = world.running.address.port();
    let send = async |target: &str, host: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Raw::exchange(nginx.address, request).await.status()
    };
    let (own, public) = (
        format!("grp.localhost:{port}"),
        format!("pub.localhost:{port}"),
    );
    assert_eq!(send("/x", &own).await, 401);
    // nginx chooses the server by the name in the request line.
    let absolute = format!("http://{own}/x");
    assert_eq!(send(&absolute, &public).await, 401);
    // No server has this name.
    assert_eq!(send("/x", &public).await, 421);
    assert_eq!(send(&format!("http://{public}/x"), &own).await, 421);
    assert_eq!(world.backend("grp").count(), 0);
    assert_eq!(send("/oauth2/userinfo", &world.host).await, 401, "the site");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_of_another_group_is_refused_on_the_site_and_gets_no_session() {
    let world = world().await;
    let nginx = Nginx::before(&world).await;
    let mut bob = nginx.browser();
    let location = bob.open("/x").await.header("location").expect("the site");
    let mut site = world.browser();
    let started = site.open(&path_of(&location)).await;
    let provider = started.header("location").expect("the provider");
    let back = at_built_in_provider(&provider, "bob").await;
    assert_eq!(site.open(&back).await.status(), 403);
    assert_eq!(bob.fetch("/x").await.status(), 401);
    assert_eq!(world.backend("grp").count(), 0);
}
