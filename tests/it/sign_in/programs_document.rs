//! docs/programs.md: its configuration is valid, and its commands do what they say.

use std::{os::unix::fs::symlink, path::Path, process::Stdio, time::Duration};

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use serde_json::json;
use tokio::process::Command;

use crate::support::{
    backend::Backend,
    documents::blocks,
    process::{gateway, program},
    until::holds_within,
    world::{SECRET, client, free_port},
};

const DOCUMENT: &str = include_str!("../../../docs/programs.md");
/// New tokens and the keys of issuers are known by then.
const SOON: Duration = Duration::from_secs(20);

/// A reader's folder, and the tokens that issuers gave the reader's programs.
struct Reader {
    folder: tempfile::TempDir,
    site: String,
    tokens: [(&'static str, String); 3],
}

impl Reader {
    /// Whether a block of commands succeeds; what it prints.
    async fn run(&self, block: &str) -> (bool, String) {
        let script = block.replace("https://hub.example.com", &self.site);
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.folder.path().display());
        let output = Command::new("sh")
            .args(["-eu", "-c", &script])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .envs(self.tokens.iter().map(|(name, token)| (*name, token)))
            .stdin(Stdio::null())
            .output();
        let output = output.await.expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.success(), printed)
    }

    /// Runs a block until it succeeds, or fails.
    async fn until(&self, block: &str, wanted: bool) {
        let mut last = String::new();
        let is_as_wanted = holds_within(SOON, async || {
            let (is_done, printed) = self.run(block).await;
            last = printed;
            is_done == wanted
        });
        let is_as_wanted = is_as_wanted.await;
        assert!(is_as_wanted, "{block}\n{last}");
    }
}

/// The configuration of the document, with the addresses of the test.
fn configuration(port: u16, issuer: &str, ci: &str, app: &Backend) -> String {
    let listeners =
        format!("[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:0\"\n");
    let mut text = format!("{listeners}{}\n", blocks(DOCUMENT, "toml").join("\n"));
    for upstream in ["127.0.0.1:5000", "127.0.0.1:5001", "127.0.0.1:5002"] {
        assert!(text.contains(upstream), "{upstream}");
        text = text.replace(upstream, &app.address().to_string());
    }
    for (written, real) in [
        (
            "https://hub.example.com",
            format!("http://127.0.0.1:{port}"),
        ),
        ("https://id.example.com/realms/hub", issuer.to_owned()),
        ("https://token.actions.githubusercontent.com", ci.to_owned()),
    ] {
        assert!(text.contains(written), "{written}");
        text = text.replace(written, &real);
    }
    text
}

fn workload_token(ci: &DemoProvider, site: &str) -> String {
    let now = Clock::system().wall_seconds();
    let header = json!({"alg": "ES256", "kid": ci.key_id()});
    let claims = json!({
        "iss": ci.issuer(), "aud": site, "iat": now, "exp": now + 600,
        "sub": "repo:example/models:ref:refs/heads/main", "repository": "example/models",
    });
    ci.sign(&header, &claims)
}

fn link_program(folder: &Path) {
    symlink(program(), folder.join("ludgate")).expect("a link");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_document_does_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    link_program(folder.path());
    std::fs::write(folder.path().join("client-secret"), SECRET).expect("written");
    let port = free_port();
    let people = client(&format!("127.0.0.1:{port}"));
    let provider = DemoProvider::start(people, Clock::system());
    let provider = provider.await.expect("a provider");
    let ci = DemoProvider::start(client("127.0.0.1:1"), Clock::system());
    let ci = ci.await.expect("an issuer");
    ci.publish_keys_only();
    let app = Backend::start("app").await;
    let text = configuration(port, provider.issuer(), ci.issuer(), &app);
    let _running = gateway(folder.path(), &text, port).await;
    let site = format!("http://127.0.0.1:{port}");
    let opaque = json!({"active": true, "sub": "alice", "aud": "ludgate"});
    provider.set_opaque_token("an-opaque-token", opaque);
    let reader = Reader {
        tokens: [
            ("ACCESS_TOKEN", provider.access_token("alice")),
            ("WORKLOAD_TOKEN", workload_token(&ci, &site)),
            ("OPAQUE_TOKEN", "an-opaque-token".to_owned()),
        ],
        folder,
        site,
    };
    let blocks = blocks(DOCUMENT, "sh");
    let [
        by_person,
        create,
        by_service,
        manage,
        by_workload,
        by_opaque,
    ] = blocks[..]
    else {
        panic!("{} blocks of commands", blocks.len());
    };
    reader.until(by_person, true).await;
    let (is_made, printed) = reader.run(create).await;
    assert!(is_made && printed.contains("service:nightly"), "{printed}");
    let token = std::fs::read_to_string(reader.folder.path().join("nightly.token"));
    let token = token.expect("a token");
    assert!(
        token.starts_with("ludgate_") && token.len() == 58,
        "{token}"
    );
    reader.until(by_service, true).await;
    let seen = app.last();
    assert_eq!(
        seen.header("x-forwarded-user").as_deref(),
        Some("service:nightly")
    );
    let (is_made, printed) = reader.run(create).await;
    assert!(!is_made && printed.contains("another name"), "{printed}");
    // The shell has emptied the file, so the token is written again.
    std::fs::write(reader.folder.path().join("nightly.token"), &token).expect("written");
    let (is_done, printed) = reader.run(manage).await;
    assert!(is_done && printed.contains("nightly"), "{printed}");
    assert!(!printed.contains(token.trim()), "the list has no token");
    reader.until(by_service, false).await;
    reader.until(by_workload, true).await;
    let user = app.last().header("x-forwarded-user");
    let account = "github:repo:example/models:ref:refs/heads/main";
    assert_eq!(user.as_deref(), Some(account));
    reader.until(by_opaque, true).await;
    let user = app.last().header("x-forwarded-user");
    assert_eq!(user.as_deref(), Some("alice"));
}
