//! Header names that an app server could read as the gateway's own: every spelling is removed, from
//! every client and over every HTTP version. Then the same with a real server that runs CGI
//! scripts.

use std::process::{Child, Command, Stdio};

use http::Request;

use crate::support::{
    browser::From,
    http2::{Http2, whole},
    process::until_open,
    raw::Raw,
    world::{World, free_port},
};

/// Every byte that a field name may hold and that is neither a letter nor a digit (RFC 9110 section
/// 5.6.2).
const SEPARATORS: &str = "!#$%&'*+-.^_`|~";
/// Names that speak for us, or for a proxy.
const OURS: [&str; 18] = [
    "X-Forwarded-User",
    "X-Forwarded-Email",
    "X-Forwarded-Groups",
    "X-Forwarded-Groups-Truncated",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Real-IP",
    "X-Request-Id",
    "X-Auth-Request-User",
    "X-Ludgate-App",
    "X-Ludgate-Assertion",
    "X-Arvados-Authorization",
    "True-Client-IP",
    "Transfer-Encoding",
];
const FORGED: &str = "root-CANARY";

/// Every name in every spelling that is not its own, and `Proxy`, by which a CGI server would set
/// `HTTP_PROXY`.
fn spellings() -> Vec<String> {
    let mut all = vec!["Proxy".to_owned()];
    for name in OURS {
        for separator in SEPARATORS.chars() {
            let whole = name.replace('-', &separator.to_string());
            if !(name == "Transfer-Encoding" && separator == '-') {
                all.push(whole);
            }
            all.push(name.replacen('-', &separator.to_string(), 1));
        }
    }
    all.retain(|name| name != "Transfer-Encoding");
    all
}

fn check(world: &World, app: &str, what: &str) {
    let seen = world.backend(app).last();
    let forged: Vec<_> = seen
        .headers
        .iter()
        .filter(|(_, value)| String::from_utf8_lossy(value).contains(FORGED))
        .map(|(name, _)| name.clone())
        .collect();
    assert!(forged.is_empty(), "{what}: {forged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_name_of_ours_reaches_an_app_over_http1() {
    let world = World::as_program("", "").await.ready().await;
    let mut alice = world.signed_in("alice").await;
    // A head has room for a hundred fields.
    for names in spellings().chunks(50) {
        let fields: String = names
            .iter()
            .map(|name| format!("{name}: {FORGED}\r\n"))
            .collect();
        for app in ["grp", "pub"] {
            let answer = alice
                .send("GET", &format!("/apps/{app}/x"), From::Fetch, &fields, b"")
                .await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            check(&world, app, app);
        }
        assert_eq!(
            world.backend("grp").last().all("x-forwarded-user"),
            ["alice"]
        );
    }
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_name_of_ours_reaches_an_app_over_http2() {
    let world = World::as_program("h2c = true\n", "").await;
    let client = Http2::connect(world.running.address).await;
    for names in spellings().chunks(50) {
        let mut request = Request::get(format!("http://{}/apps/pub/x", world.host));
        for name in names {
            request = request.header(name, FORGED);
        }
        let answer = client
            .whole(request.body(whole("")).expect("a request"))
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        check(&world, "pub", "HTTP/2");
    }
    world.check_oracles().await;
}

/// A web server that runs a script and gives back its environment.
struct Lighttpd {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Lighttpd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lighttpd {
    async fn start() -> Lighttpd {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let root = folder.path().display();
        let configuration = format!(
            "server.port = {port}\nserver.bind = \"127.0.0.1\"\nserver.document-root = \"{root}\"\n\
             server.modules = (\"mod_cgi\")\ncgi.assign = (\".sh\" => \"/bin/sh\")\n"
        );
        std::fs::write(folder.path().join("lighttpd.conf"), configuration).expect("written");
        let script = "echo 'Content-Type: text/plain'\necho\nenv\n";
        std::fs::write(folder.path().join("env.sh"), script).expect("written");
        let child = Command::new("/usr/sbin/lighttpd")
            .args(["-D", "-f"])
            .arg(folder.path().join("lighttpd.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("lighttpd: tests/install.sh installs it");
        until_open(("127.0.0.1", port)).await;
        Lighttpd {
            child,
            port,
            _folder: folder,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_a_real_cgi_server_is_told_who_asks_by_us_alone() {
    let server = Lighttpd::start().await;
    let app = format!(
        "[[apps]]\nid = \"cgi\"\naccess = \"group:phusers\"\nstrip_prefix = true\nupstream = \"http://127.0.0.1:{}\"\n",
        server.port
    );
    let world = World::as_program("", &app).await.ready().await;
    let mut alice = world.signed_in("alice").await;
    // The server maps every such byte to one: spoofing works there without us.
    let straight = format!("GET /env.sh HTTP/1.0\r\nHost: x\r\nX~Forwarded~User: {FORGED}\r\n\r\n");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], server.port));
    let answer = Raw::exchange(address, straight).await.text();
    assert!(
        answer.contains(&format!("HTTP_X_FORWARDED_USER={FORGED}")),
        "{answer}"
    );
    for names in spellings().chunks(50) {
        let fields: String = names
            .iter()
            .map(|name| format!("{name}: {FORGED}\r\n"))
            .collect();
        let answer = alice
            .send("GET", "/apps/cgi/env.sh", From::Fetch, &fields, b"")
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let environment = answer.text();
        assert!(!environment.contains(FORGED), "{names:?}\n{environment}");
        assert!(
            environment
                .lines()
                .any(|line| line == "HTTP_X_FORWARDED_USER=alice"),
            "{environment}"
        );
        assert!(!environment.contains("HTTP_PROXY="), "{environment}");
    }
}
