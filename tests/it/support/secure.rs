//! A gateway over https with a site and hosts of apps under names that only the test's browser
//! knows.

use std::path::Path;

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate::{
    demo::provider::{DemoProvider, RegisteredClient},
    model::clock::{Clock, ManualClock},
    run::{self, Running, StartOptions},
    settings,
};

use super::{
    backend::Backend,
    request_log::Log,
    until::until,
    world::{SECRET, free_port},
};

/// The site is `gw.test`, the apps are below `svc.test`.
pub struct Secure {
    _running: Running,
    pub grp: Backend,
    pub evil: Backend,
    pub provider: DemoProvider,
    pub manual_clock: ManualClock,
    /// Of the certificate's key, for [`Chromium::believing`](super::chromium::Chromium::believing).
    pub key: String,
    port: u16,
}

impl Secure {
    pub async fn start() -> Secure {
        Secure::with("").await
    }

    /// `more` is more TOML.
    pub async fn with(more: &str) -> Secure {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["gw.test", "*.svc.test", "ports.test"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).expect("written");
        std::fs::write(
            folder.path().join("tls.key"),
            made.signing_key.serialize_pem(),
        )
        .expect("written");
        let public = rcgen::PublicKeyData::subject_public_key_info(&made.signing_key);
        let key = STANDARD.encode(digest::digest(&digest::SHA256, &public));
        let client = RegisteredClient {
            id: "ludgate".into(),
            secret: SECRET.into(),
            redirect_uris: vec![format!("https://gw.test:{port}/oauth2/callback")],
            post_logout_redirect_uris: vec![format!("https://gw.test:{port}/apps/")],
            backchannel_logout_uri: None,
        };
        let (clock, manual_clock) = Clock::manual();
        let provider = DemoProvider::start(client, clock.clone())
            .await
            .expect("a provider");
        let (grp, evil) = (Backend::start("grp").await, Backend::start("evil").await);
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{port}\"\ntls = {{ certificate = \"tls.crt\", key = \"tls.key\" }}\n\
             [admin]\naddress = \"127.0.0.1:0\"\n\
             [site]\nurl = \"https://gw.test:{port}\"\napps_domain = \"svc.test\"\n\
             [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n\
             [[apps]]\nid = \"grp\"\naccess = \"group:phusers\"\nupstream = \"http://{}\"\n\
             [[apps]]\nid = \"evil\"\naccess = \"user\"\nupstream = \"http://{}\"\n{more}",
            provider.issuer(),
            grp.address(),
            evil.address()
        );
        let settings = settings::parse(&text, Path::new(folder.path()), std::iter::empty())
            .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let options = StartOptions {
            clock,
            threads: 2,
            log: Some(Box::new(Log::default())),
            inherited: Default::default(),
        };
        let running = run::start(settings, options).await.expect("a gateway");
        let inside = running.internals();
        until("the provider is discovered", || inside.is_provider_known()).await;
        Secure {
            _running: running,
            grp,
            evil,
            provider,
            manual_clock,
            key,
            port,
        }
    }

    /// Where a browser is to find `ports.test:<port>`.
    pub fn rule(&self, port: u16) -> String {
        format!("MAP ports.test:{port} 127.0.0.1:{}", self.port)
    }

    pub fn site(&self, target: &str) -> String {
        format!("https://gw.test:{}{target}", self.port)
    }

    pub fn host(&self, label: &str, target: &str) -> String {
        format!("https://{label}.svc.test:{}{target}", self.port)
    }
}
