//! A restart keeps people in (docs/behaviour.md#sessions): the process that stops leaves who is
//! signed in to the next one, in a sealed file that is good once.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate::{
    demo::provider::DemoProvider,
    model::clock::{Clock, ManualClock},
    run::{self, Running, StartOptions},
    settings,
};

use crate::support::{
    backend::Backend,
    browser::Browser,
    message::PATIENCE,
    request_log::Log,
    until::until,
    world::{SECRET, client, free_port},
};

/// What stays the same over restarts.
struct House {
    folder: tempfile::TempDir,
    provider: DemoProvider,
    clock: Clock,
    manual_clock: ManualClock,
    backend: Backend,
    port: u16,
}

impl House {
    async fn new() -> House {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (clock, manual_clock) = Clock::manual();
        let port = free_port();
        let provider = DemoProvider::start(client(&format!("127.0.0.1:{port}")), clock.clone())
            .await
            .expect("a provider");
        let house = House {
            folder: tempfile::tempdir().expect("a folder"),
            provider,
            clock,
            manual_clock,
            backend: Backend::start("grp").await,
            port,
        };
        house.new_keys();
        house
    }

    fn new_keys(&self) {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).expect("random bytes");
        std::fs::write(self.folder.path().join("keys"), STANDARD.encode(key)).expect("written");
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    async fn start(&self) -> (Running, Browser) {
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{0}\"\n[admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"http://127.0.0.1:{0}\"\napps_domain = \"localhost\"\n\
             [identity]\nissuer = \"{1}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n\
             [session]\nkeys_file = \"keys\"\nhand_over_file = \"sessions\"\n\
             [[apps]]\nid = \"grp\"\naccess = \"group:phusers\"\nupstream = \"http://{2}\"\n",
            self.port,
            self.provider.issuer(),
            self.backend.address()
        );
        let settings = settings::parse(&text, Path::new(self.folder.path()), std::iter::empty());
        let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let options = StartOptions {
            clock: self.clock.clone(),
            threads: 1,
            log: Some(Box::new(Log::default())),
            inherited: Default::default(),
        };
        let running = run::start(settings, options).await.expect("a gateway");
        let inside = running.internals();
        until("the provider is discovered", || inside.is_provider_known()).await;
        let browser = Browser::new(running.address, &format!("127.0.0.1:{}", self.port));
        (running, browser)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_stays_so_over_a_restart_and_only_once() {
    let house = House::new().await;
    let (running, mut alice) = house.start().await;
    assert_eq!(alice.sign_in("/apps/grp/x", "alice").await.status(), 200);
    let cookies = alice.jar.clone();
    assert!(running.stop().await);
    let sealed = std::fs::read_to_string(house.file()).expect("a file");
    let mode = std::fs::metadata(house.file())
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    for secret in ["alice", "phusers", SECRET]
        .into_iter()
        .chain(cookies.values().map(String::as_str))
    {
        assert!(!sealed.contains(secret), "sealed: {secret}");
    }
    house.manual_clock.advance(Duration::from_secs(20 * 60));
    let (running, _) = house.start().await;
    assert!(!house.file().exists(), "read once");
    // The very cookies of before, the app's own among them; groups and all.
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 200);
    assert_eq!(alice.jar, cookies);
    let said = alice.fetch("/oauth2/userinfo").await.json();
    assert_eq!(
        (said["user"].as_str(), said["email"].as_str()),
        (Some("alice"), Some("alice@example.com"))
    );
    // What the provider gave is there too: a refresh in the background, and sign-out.
    let asked = async {
        while house.provider.calls("refresh") == 0 {
            alice.fetch("/apps/grp/x").await;
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("the groups are read again");
    assert!(running.stop().await);
    // Time passes while no gateway runs.
    house.manual_clock.advance(Duration::from_secs(31 * 60));
    let (running, _) = house.start().await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 401);
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_file_signs_no_user_in_and_harms_nothing() {
    let house = House::new().await;
    let (running, mut alice) = house.start().await;
    assert_eq!(alice.sign_in("/apps/grp/x", "alice").await.status(), 200);
    assert!(running.stop().await);
    let sealed = std::fs::read(house.file()).expect("a file");
    let mut changed = sealed.clone();
    let middle = changed.len() / 2;
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    for content in [
        changed,
        sealed[..sealed.len() / 2].to_vec(),
        Vec::new(),
        b"not base64 \xff".to_vec(),
    ] {
        std::fs::write(house.file(), content).expect("written");
        let (running, _) = house.start().await;
        assert_eq!(alice.fetch("/apps/grp/x").await.status(), 401);
        assert!(!house.file().exists(), "gone all the same");
        assert!(running.stop().await);
        let _ = std::fs::remove_file(house.file());
    }
    // Sealed with keys that are gone.
    std::fs::write(house.file(), &sealed).expect("written");
    house.new_keys();
    let (running, _) = house.start().await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 401);
    assert!(running.stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_leaves_later_is_taken_when_it_comes() {
    let house = House::new().await;
    let (running, mut alice) = house.start().await;
    assert_eq!(alice.sign_in("/apps/grp/x", "alice").await.status(), 200);
    assert!(running.stop().await);
    let sealed = std::fs::read(house.file()).expect("a file");
    std::fs::remove_file(house.file()).expect("removed");
    let (running, _) = house.start().await;
    assert_eq!(alice.fetch("/apps/grp/x").await.status(), 401);
    std::fs::write(house.file(), &sealed).expect("written");
    let known = async {
        while alice.fetch("/apps/grp/x").await.status() != 200 {
            house.manual_clock.advance(Duration::from_secs(2));
        }
    };
    tokio::time::timeout(PATIENCE, known)
        .await
        .expect("it is looked for again");
    assert!(running.stop().await);
}

#[test]
fn a_file_without_lasting_keys_is_a_mistake() {
    let text =
        "[site]\nurl = \"http://127.0.0.1:8080\"\n[session]\nhand_over_file = \"sessions\"\n";
    let mistakes = settings::parse(text, Path::new("."), std::iter::empty()).expect_err("refused");
    assert!(
        mistakes.to_string().contains("session.hand_over_file")
            && mistakes.to_string().contains("keys_file"),
        "{mistakes}"
    );
}
