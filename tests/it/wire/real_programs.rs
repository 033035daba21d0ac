//! Real programs on both sides: h2load, nghttp and slowhttptest as clients, nginx and Apache as
//! apps.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::{
    backend::Backend,
    browser::From,
    message::{Message, PATIENCE},
    process::{Running, gateway, until_open},
    raw::Raw,
    world::{World, free_port},
};

/// What a program says, whatever it ends with.
async fn said(program: &'static str, arguments: Vec<String>) -> String {
    let run = move || {
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let output =
            output.unwrap_or_else(|error| panic!("{program}: {error}; `make test` installs it"));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let ran = tokio::task::spawn_blocking(run);
    tokio::time::timeout(6 * PATIENCE, ran)
        .await
        .expect("in time")
        .expect("no panic")
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn h2load_and_nghttp_are_served_with_and_without_tls() {
    let backend = Backend::start("app").await;
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).expect("written");
    std::fs::write(
        folder.path().join("tls.key"),
        made.signing_key.serialize_pem(),
    )
    .expect("written");
    for (scheme, listen) in [
        ("http", "h2c = true\n"),
        (
            "https",
            "tls = { certificate = \"tls.crt\", key = \"tls.key\" }\n",
        ),
    ] {
        let port = free_port();
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{port}\"\n{listen}[admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"{scheme}://127.0.0.1:{port}\"\n\
             [[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
            backend.address()
        );
        let _running = gateway(folder.path(), &text, port).await;
        let url = format!("{scheme}://127.0.0.1:{port}/apps/open/x");
        let loaded = said("h2load", words(["-n", "2000", "-c", "8", "-m", "20", &url])).await;
        assert!(
            loaded.contains("2000 succeeded, 0 failed, 0 errored"),
            "{loaded}"
        );
        let uploaded = folder.path().join("body");
        std::fs::write(&uploaded, vec![b'x'; 300_000]).expect("written");
        let body = uploaded.to_str().expect("a path");
        let echo = format!("{scheme}://127.0.0.1:{port}/apps/open/echo");
        let got = said("nghttp", words(["--no-verify-peer", "-d", body, &echo])).await;
        assert_eq!(got.matches('x').count(), 300_000, "{scheme}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected_and_others_are_not_affected() {
    let short = Duration::from_millis(700);
    let world = World::with("", |settings| {
        settings.listen.timeouts.head = short;
        settings.listen.write_stall = short;
        settings.forward.body_gap = short;
    })
    .await
    .ready()
    .await;
    let mut alice = world.signed_in("alice").await;
    // More than all buffers on the way hold.
    let big = 16 << 20;
    world.backend("usr").script(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {big}\r\n\r\n{}",
            "y".repeat(big)
        )
        .into_bytes(),
    );
    let url = |app: &str| format!("http://{}/apps/{app}/x", world.host);
    for (kind, missed) in [("-H", "head"), ("-B", "body_gap")] {
        let arguments = words([
            kind,
            "-c",
            "40",
            "-r",
            "40",
            "-i",
            "2",
            "-l",
            "4",
            "-p",
            "2",
            "-t",
            if kind == "-B" { "POST" } else { "GET" },
            "-u",
            &url("pub"),
        ]);
        let slow = tokio::spawn(said("slowhttptest", arguments));
        while !slow.is_finished() {
            let answer = alice
                .send("GET", "/apps/grp/x", From::Program, "", b"")
                .await;
            assert_eq!(answer.status(), 200, "{kind}: alice goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let told = slow.await.expect("no panic");
        assert!(
            told.contains("Exit status") || told.contains("exit status"),
            "{told}"
        );
        let metrics = world.admin("/metrics", "").await.text();
        let line = metrics.lines().find(|line| {
            line.starts_with(&format!("ludgate_deadlines_total{{deadline=\"{missed}\"}}"))
        });
        let count = line
            .and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
            .unwrap_or(0);
        assert!(count >= 40, "{kind}: {count} were let go\n{metrics}");
    }
    // Read a few bytes of a large answer now and then, through a small window.
    let cookie = alice.cookie_line("/apps/usr/");
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::connect(world.running.address).await;
        raw.send(format!(
            "GET /apps/usr/x HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n",
            world.host
        ))
        .await;
        readers.push(raw);
    }
    world.until_counted("ludgate_write_stalls_total 4").await;
    assert_eq!(
        alice
            .send("GET", "/apps/grp/x", From::Program, "", b"")
            .await
            .status(),
        200
    );
}

/// A server that is not ours, on a free port.
async fn server(program: &str, folder: &Path, config: String, arguments: &[&str]) -> Running {
    std::fs::write(folder.join("server.conf"), config).expect("written");
    let sbin = format!("/usr/sbin/{program}");
    let command = if Path::new(&sbin).exists() {
        sbin.as_str()
    } else {
        program
    };
    let child = Command::new(command)
        .args(arguments)
        .arg(folder.join("server.conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap_or_else(|error| panic!("{program}: {error}; `make test` installs it")))
}

/// Status line, fields and body.
type Comparable = (String, Vec<(String, Vec<u8>)>, Vec<u8>);

/// An answer without what differs from one to the next by itself, or is said of one connection
/// only.
fn comparable(mut message: Message) -> Comparable {
    message.headers.retain(|(name, _)| {
        !matches!(
            &*name.to_ascii_lowercase(),
            "date" | "connection" | "keep-alive" | "transfer-encoding"
        )
    });
    for (name, _) in &mut message.headers {
        name.make_ascii_lowercase();
    }
    message.headers.sort();
    (message.start, message.headers, message.body)
}

async fn same_answers(port: u16) {
    let toml = format!(
        "[[apps]]\nid = \"real\"\naccess = \"public\"\nupstream = \"http://127.0.0.1:{port}\"\n"
    );
    let world = World::with(&toml, |_| {}).await;
    let (mut direct, mut through) = (
        Raw::connect(([127, 0, 0, 1], port).into()).await,
        world.raw().await,
    );
    let etag = {
        direct
            .send(format!(
                "GET /apps/real/a.txt HTTP/1.1\r\nHost: {}\r\n\r\n",
                world.host
            ))
            .await;
        direct
            .answer()
            .await
            .expect("an answer")
            .header("etag")
            .expect("an ETag")
    };
    for (method, target, more) in [
        ("GET", "/apps/real/a.txt", String::new()),
        ("HEAD", "/apps/real/a.txt", String::new()),
        ("GET", "/apps/real/a.txt", "Range: bytes=2-5\r\n".into()),
        ("GET", "/apps/real/a.txt", "Range: bytes=0-1,4-5\r\n".into()),
        ("GET", "/apps/real/a.txt", "Range: bytes=999-\r\n".into()),
        (
            "GET",
            "/apps/real/a.txt",
            format!("If-None-Match: {etag}\r\n"),
        ),
        (
            "GET",
            "/apps/real/a.txt",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n".into(),
        ),
        ("GET", "/apps/real/big.bin", String::new()),
        ("GET", "/apps/real/nothing", String::new()),
        ("GET", "/apps/real", String::new()),
        ("GET", "/apps/real/folder", String::new()),
        ("GET", "/apps/real/with%20blank.txt", String::new()),
        ("OPTIONS", "/apps/real/a.txt", String::new()),
        (
            "PUT",
            "/apps/real/a.txt",
            "Content-Length: 3\r\n\r\nabc".into(),
        ),
    ] {
        let end = if more.contains("\r\n\r\n") {
            ""
        } else {
            "\r\n"
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{more}{end}",
            world.host
        );
        let head = method == "HEAD";
        direct.send(&request).await;
        through.send(&request).await;
        let expected = direct
            .reader
            .message(head)
            .await
            .expect("readable")
            .expect("an answer");
        let got = through
            .reader
            .message(head)
            .await
            .expect("readable")
            .expect("an answer");
        if target == "/apps/real" {
            assert_eq!(got.status(), 308, "the slash is ours to add");
            continue;
        }
        let multipart = more.contains(',');
        let ((mut start, mut headers, mut body), mut through) =
            (comparable(expected), comparable(got));
        if multipart {
            // Its boundary is another each time.
            assert_eq!(
                (start.as_str(), body.len()),
                (through.0.as_str(), through.2.len()),
                "{target} {more}"
            );
            (start, headers, body) = through.clone();
        }
        // Written by hyper, which leaves it out of a 304 to GET; it is the length of nothing.
        if start.contains(" 304 ") {
            headers.retain(|(name, _)| name != "content-length");
            through.1.retain(|(name, _)| name != "content-length");
        }
        assert_eq!(
            (start, headers),
            (through.0, through.1),
            "{method} {target} {more}"
        );
        assert!(body == through.2, "{method} {target} {more}: the body");
    }
}

fn files(folder: &Path) {
    let root = folder.join("root/apps/real");
    std::fs::create_dir_all(root.join("folder")).expect("folders");
    std::fs::write(root.join("a.txt"), "abcdefghij").expect("written");
    std::fs::write(root.join("with blank.txt"), "blank").expect("written");
    std::fs::write(
        root.join("big.bin"),
        (0..5_000_000_u32)
            .map(|at| (at % 251) as u8)
            .collect::<Vec<_>>(),
    )
    .expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_says_the_same_through_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let (at, port) = (folder.path().display(), free_port());
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\nevents {{}}\nhttp {{ access_log off; absolute_redirect off;\n\
         client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 127.0.0.1:{port}; root {at}/root; }} }}\n"
    );
    let _server = server("nginx", folder.path(), config, &["-c"]).await;
    until_open(("127.0.0.1", port)).await;
    same_answers(port).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apache_says_the_same_through_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let (at, port) = (folder.path().display(), free_port());
    let modules: String = ["mpm_event", "authz_core", "dir"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let config = format!(
        "{modules}ServerName 127.0.0.1\nListen 127.0.0.1:{port}\nPidFile {at}/pid\nErrorLog {at}/error.log\nDefaultRuntimeDir {at}\nDocumentRoot {at}/root\n\
         <Directory {at}/root>\nRequire all granted\n</Directory>\n"
    );
    let _server = server(
        "apache2",
        folder.path(),
        config,
        &["-D", "FOREGROUND", "-f"],
    )
    .await;
    until_open(("127.0.0.1", port)).await;
    same_answers(port).await;
}
