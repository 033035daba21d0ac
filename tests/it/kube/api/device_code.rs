//! `ludgate apps sign-in --device`: a person agrees in a browser that the terminal does not see.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr},
};

use super::namespace;
use crate::support::{
    api::{Api, PLATFORM},
    command_line::Terminal,
    kube_namespace::KubeNamespace,
    message::Message,
    raw::Raw,
    until::until,
    world::free_port,
};

/// A terminal that waits for its person.
struct Waiting {
    child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    user_code: String,
}

impl Waiting {
    /// Starts a sign-in, and reads what the person is shown.
    async fn start(terminal: &Terminal, site: &str) -> Waiting {
        let mut child = terminal.spawn(&format!("sign-in --device {site}"));
        let stderr = child.stderr.take().expect("an output");
        let mut stderr = BufReader::new(stderr).lines();
        let user_code = loop {
            let line = stderr.next_line().await.expect("readable");
            let line = line.expect("a code");
            if let Some(code) = line.strip_prefix("  Code: ") {
                break code.to_owned();
            }
        };
        Waiting {
            child,
            stderr,
            user_code,
        }
    }

    /// The exit code and the last line.
    async fn end(mut self) -> (Option<i32>, String) {
        let mut last = String::new();
        while let Some(line) = self.stderr.next_line().await.expect("readable") {
            last = line;
        }
        (self.child.wait().await.expect("it ran").code(), last)
    }
}

impl Api {
    /// An API that signs in by device code at its own address, which is returned too.
    async fn with_device_codes(namespace: &KubeNamespace, is_on: bool) -> (Api, String) {
        namespace.grant("api.yaml").await;
        let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
        let site = format!("http://127.0.0.1:{}", free_port());
        let platform = format!("device_sign_in = {is_on}\n{PLATFORM}");
        let api = Api::with(&namespace.name, &kubeconfig, &site, &platform).await;
        (api, site)
    }

    /// Opens the provider's page of a code.
    async fn open_device_page(&self, user_code: &str, answer: &str) -> Message {
        let issuer = self.provider.issuer().strip_prefix("http://");
        let address: SocketAddr = issuer.expect("http").parse().expect("an address");
        let request = format!(
            "GET /device?user_code={user_code}{answer} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        );
        Raw::exchange(address, request).await
    }

    /// Waits until the provider was polled at least once.
    async fn polled(&self) {
        until("a poll", || self.provider.calls("device_token") > 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_signed_in_when_its_person_agrees_elsewhere() {
    let namespace = namespace().await;
    let (api, site) = Api::with_device_codes(&namespace, true).await;
    let terminal = Terminal::new();
    let waiting = Waiting::start(&terminal, &site).await;
    api.polled().await;
    let page = api.open_device_page(&waiting.user_code, "").await.text();
    assert!(page.contains("alice") && page.contains("Refuse"), "{page}");
    let agree = "&login_as=alice";
    let page = api.open_device_page(&waiting.user_code, agree).await.text();
    assert!(page.contains("Your terminal is signed in."), "{page}");
    let signed_in = format!("Signed in to {site} as alice.");
    assert_eq!(waiting.end().await, (Some(0), signed_in));
    for _ in 0..2 {
        assert_eq!(
            terminal.run("list").await.ok(),
            "ID  NAME  GROUP  TEMPLATE  INSTANCE TYPE  SCOPE  STATUS\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_or_expired_code_signs_no_terminal_in() {
    let namespace = namespace().await;
    let (api, site) = Api::with_device_codes(&namespace, true).await;
    let terminal = Terminal::new();

    let waiting = Waiting::start(&terminal, &site).await;
    let refuse = "&refuse=yes";
    api.open_device_page(&waiting.user_code, refuse).await;
    let refused = "the sign-in was refused in the browser".to_owned();
    assert_eq!(waiting.end().await, (Some(1), refused));

    let waiting = Waiting::start(&terminal, &site).await;
    api.clock.advance(Duration::from_secs(601));
    let expired = "the code has expired; sign in again".to_owned();
    assert_eq!(waiting.end().await, (Some(1), expired));

    let error = terminal.run("list").await.error();
    assert!(error.starts_with("sign in first: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_code_works_once_and_cannot_be_altered() {
    let namespace = namespace().await;
    let (api, site) = Api::with_device_codes(&namespace, true).await;
    let codes = api.send("POST /oidc/auth-flow/device", "", "").await.json();
    let text = |name: &str| codes[name].as_str().expect("text").to_owned();
    let (device_code, user_code) = (text("device_code"), text("user_code"));
    assert!(!device_code.contains(&user_code));
    let poll = async |code: &str| {
        let body = format!("device_code={code}");
        let start = "POST /oidc/auth-flow/device/token";
        api.send(start, "", &body).await.json()
    };
    for odd in ["", "x", &device_code[1..]] {
        assert_eq!(poll(odd).await["error"], "invalid_grant", "{odd:.20}");
    }
    assert_eq!(api.provider.calls("device_token"), 0);
    assert_eq!(poll(&device_code).await["error"], "authorization_pending");
    api.open_device_page(&user_code, "&login_as=bob").await;
    let granted = poll(&device_code).await;
    assert_eq!(granted["endpoint"], json!(format!("{site}/api/graphql")));
    assert!(granted["api-token"].is_string());
    assert_eq!(poll(&device_code).await["error"], "invalid_grant");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_there_are_no_device_codes() {
    let namespace = namespace().await;
    let (api, site) = Api::with_device_codes(&namespace, false).await;
    let error = Terminal::new()
        .run(&format!("sign-in --device {site}"))
        .await
        .error();
    assert_eq!(
        error,
        "sign-in by device code is off here (api.device_sign_in)"
    );
    assert_eq!(api.provider.calls("device_authorization"), 0);
}
