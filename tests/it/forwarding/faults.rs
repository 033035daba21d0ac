//! Faults (docs/behaviour.md#app-states): what a client gets when an app is not there, is slow, or
//! breaks off.

use std::time::{Duration, Instant};

use ludgate::model::secret::Secret;

use crate::support::{
    backend::{Backend, refused_port},
    browser::From,
    diagnostics::Diagnostics,
    message::PATIENCE,
    world::{ADMIN_TOKEN, World},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_not_there_is_502_for_people_and_programs() {
    let dead = refused_port().await;
    let extra =
        format!("[[apps]]\nid = \"dead\"\naccess = \"public\"\nupstream = \"http://{dead}\"\n");
    let world = World::with(&extra, |settings| settings.forward.connect = PATIENCE).await;
    let page = world.browser().open("/apps/dead/").await;
    assert_eq!(page.status(), 502);
    assert!(
        page.text().contains("The app does not answer") && page.text().contains("Try again"),
        "{}",
        page.text()
    );
    assert!(
        page.text().contains("http-equiv=\"refresh\" content=\"5\""),
        "{}",
        page.text()
    );
    assert_eq!(page.header("retry-after").as_deref(), Some("5"));
    let form = world
        .browser()
        .send("POST", "/apps/dead/", From::Navigation, "", b"a=b")
        .await;
    assert!(
        form.status() == 502 && !form.text().contains("http-equiv"),
        "nothing is sent twice: {}",
        form.text()
    );
    // The promise is 50 ms; here only that no deadline was waited for. The figure stands in the
    // benches.
    let asked = Instant::now();
    let problem = world.browser().fetch("/apps/dead/").await;
    assert!(asked.elapsed() < PATIENCE / 2, "no deadline is waited for");
    assert_eq!(
        (problem.status(), problem.json()["reason"].as_str()),
        (502, Some("upstream_refused"))
    );
    let line = world.log.line_with("upstream_refused").await;
    assert_eq!(
        (
            line["status"].as_u64(),
            line["reason"].as_str(),
            line["outcome"].as_str()
        ),
        (Some(502), Some("public"), Some("upstream_refused"))
    );
    assert_eq!(
        world.browser().fetch("/apps/pub/").await.status(),
        200,
        "others are not affected"
    );
}

/// The outcome of one app, and its request in the log.
struct Outcome {
    app: &'static str,
    status: u16,
    outcome: &'static str,
    /// A part of the error in the log.
    error: &'static str,
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cause_of_a_fault_is_an_outcome_of_its_own_and_its_error_is_logged() {
    // The system completes connections that are never accepted.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_at = silent.local_addr().expect("an address");
    let dead = refused_port().await;
    let toml = [
        ("nameless", format!("http://{dead}")),
        ("closed", format!("http://{dead}")),
        ("silent", format!("http://{silent_at}")),
        ("silent-tls", format!("https://{silent_at}")),
    ]
    .map(|(id, upstream)| {
        format!("[[apps]]\nid = \"{id}\"\naccess = \"public\"\nupstream = \"{upstream}\"\n")
    });
    let world = World::with(&toml.concat(), |settings| {
        settings.forward.connect = Duration::from_secs(3);
        for app in &mut settings.apps {
            match app.id.as_str() {
                // A label of 64 bytes is refused before any server is asked (RFC 1035 section
                // 2.3.4).
                "nameless" => app.upstream.host = format!("{}.invalid", "a".repeat(64)).into(),
                "silent" => app.timeout = Duration::from_millis(50),
                _ => {}
            }
        }
    })
    .await;
    for Outcome {
        app,
        status,
        outcome,
        error,
    } in [
        Outcome {
            app: "nameless",
            status: 502,
            outcome: "upstream_unresolved",
            error: "lookup address",
        },
        Outcome {
            app: "closed",
            status: 502,
            outcome: "upstream_refused",
            error: "refused",
        },
        Outcome {
            app: "silent",
            status: 504,
            outcome: "upstream_head_timeout",
            error: "no response head",
        },
        Outcome {
            app: "silent-tls",
            status: 504,
            outcome: "upstream_connect_timeout",
            error: "no connection within 3s",
        },
    ] {
        let answer = world.browser().fetch(&format!("/apps/{app}/x")).await;
        let reason = answer.json()["reason"].clone();
        assert_eq!(
            (answer.status(), reason.as_str()),
            (status, Some(outcome)),
            "{app}"
        );
        let line = world.log.line_with(&format!("\"app\":\"{app}\"")).await;
        assert_eq!(line["outcome"], outcome, "{line}");
        let logged = line["error"].as_str().expect("an error");
        assert!(logged.contains(error), "{line}");
        assert!(line["upstream"].as_str().is_some(), "{line}");
        let counted = format!("ludgate_upstream_faults_total{{outcome=\"{outcome}\"}} 1");
        world.until_counted(&counted).await;
    }
    let line = world.exchange("GET /apps/pub/fine HTTP/1.1\r\nHost: HOST\r\n\r\n");
    assert_eq!(line.await.status(), 200);
    let line = world.log.line_with("/apps/pub/fine").await;
    assert!(
        line["upstream"].is_null() && line["error"].is_null(),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_begins_or_ceases_to_fail_is_logged_and_listed() {
    let diagnostics = Diagnostics::all();
    let dead = refused_port().await;
    let toml =
        format!("[[apps]]\nid = \"falters\"\naccess = \"public\"\nupstream = \"http://{dead}\"\n");
    let world = World::with(&toml, |settings| {
        settings.admin.token = Some(Secret::new(ADMIN_TOKEN));
    })
    .await;
    let problem = async || {
        let token = format!("Authorization: Bearer {ADMIN_TOKEN}\r\n");
        let apps = world.admin("/apps", &token).await.json();
        let apps = apps["apps"].as_array().cloned().expect("a list");
        let app = apps.into_iter().find(|app| app["id"] == "falters");
        app.expect("listed")["problem"].clone()
    };
    assert!(problem().await.is_null());
    for _ in 0..3 {
        assert_eq!(world.browser().fetch("/apps/falters/").await.status(), 502);
    }
    let begins = ["falters", "the app fails"];
    let line = diagnostics.until_line(&begins).await;
    for part in ["WARN", "upstream_refused", &dead.to_string(), "refused"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let text = problem().await;
    let text = text.as_str().expect("a problem");
    assert!(text.contains("upstream_refused"), "{text}");
    let verbose = world.admin("/readyz?verbose", "").await;
    assert_eq!(verbose.status(), 200, "the gateway is ready all the same");
    let verbose = verbose.text();
    assert!(
        verbose.contains("upstreams: degraded: 1 app fails"),
        "{verbose}"
    );
    assert!(!verbose.contains("falters"), "no names without a token");
    let listener = std::net::TcpListener::bind(dead).expect("the port is free again");
    let _backend = Backend::on("falters", listener);
    assert_eq!(world.browser().fetch("/apps/falters/").await.status(), 200);
    let ceases = ["falters", "the app answers again"];
    let line = diagnostics.until_line(&ceases).await;
    assert!(
        line.contains("WARN") && line.contains("upstream_refused"),
        "{line}"
    );
    assert_eq!(diagnostics.lines_with(&begins).len(), 1);
    assert_eq!(diagnostics.lines_with(&ceases).len(), 1);
    assert!(problem().await.is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_before_the_head_is_502() {
    let world = World::as_program("", "").await;
    for script in [
        &b""[..],
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\r\n\r\n",
        b"HTTP/1.1 099 x\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 1000 x\r\n\r\n",
        b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
        let close = [script, b"\r\nConnection: close"].concat();
        world.backend("pub").script(if script.is_empty() { b"connection: close".to_vec() } else { close });
        let answer = world.browser().send("POST", "/apps/pub/x", From::Fetch, "", b"x").await;
        assert_eq!(answer.status(), 502, "{:?}", String::from_utf8_lossy(script));
    }
    world.backend("pub").script(None);
    assert_eq!(world.browser().fetch("/apps/pub/").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_takes_too_long_is_504() {
    let world = World::with("", |settings| {
        settings.apps[0].timeout = Duration::from_millis(50)
    })
    .await;
    let page = world.browser().open("/apps/pub/hang").await;
    assert_eq!(page.status(), 504);
    assert!(page.text().contains("takes too long"));
    let problem = world.browser().fetch("/apps/pub/hang").await;
    assert_eq!(problem.json()["reason"], "upstream_head_timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_visibly_cut() {
    let world = World::as_program("", "").await;
    for target in ["/apps/pub/cut", "/apps/pub/cut-chunked"] {
        let mut raw = world.raw().await;
        raw.send(format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n",
            world.host
        ))
        .await;
        let answer = raw.answer().await.expect("a head");
        assert_eq!(answer.status(), 200);
        assert!(
            answer.truncated,
            "{target}: the client can see that something is missing: {answer:?}"
        );
        assert_eq!(
            world.log.line_with(&format!("\"path\":\"{target}\"")).await["broken"],
            true
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_stands_still_is_408_and_holds_nothing_for_ever() {
    let world = World::with("", |settings| {
        settings.apps[0].timeout = Duration::from_millis(50)
    })
    .await;
    let mut raw = world.raw().await;
    raw.send(format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: {}\r\nContent-Length: 10\r\n\r\nabc",
        world.host
    ))
    .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 408);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_its_answer_is_let_go_and_so_is_its_app() {
    let world = World::as_program("", "[limits]\nwrite_stall = \"300ms\"\n")
        .await
        .ready()
        .await;
    let mut slow = world.raw().await;
    // More than the sockets between app and client hold.
    let many = "x".repeat(1 << 20);
    slow.send(format!(
        "POST /apps/pub/echo HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        world.host,
        many.len() * 16
    ))
    .await;
    for _ in 0..16 {
        slow.send(&many).await;
    }
    let line = world.log.line_with("\"path\":\"/apps/pub/echo\"").await;
    assert_eq!(line["status"], 200, "{line}");
    world.until_counted("ludgate_write_stalls_total 1").await;
    let other = world
        .exchange("GET /apps/pub/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
        .await;
    assert_eq!(other.status(), 200, "others notice nothing");
}
