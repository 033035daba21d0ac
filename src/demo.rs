//! `ludgate demo`: the gateway with an identity provider and sample apps, in one process, on
//! loopback.
//!
//! The tests use the same provider. It signs in without a password, so only the demo starts it, on
//! loopback, and its page says so.

pub mod apps;
pub mod provider;

use std::{io, net::SocketAddr, path::Path, time::Duration};

use tokio::net::TcpListener;

use crate::{
    identity::oidc::TOKEN_CALLBACK,
    model::clock::Clock,
    run::{self, Running, StartError, StartOptions},
    settings,
};
use apps::SampleApp;
use provider::{DemoProvider, RegisteredClient};

/// Options of the demo.
#[derive(Clone, Copy, Debug)]
pub struct DemoOptions {
    /// Address of the gateway.
    pub listen: SocketAddr,
    /// Print the JSON line of every request.
    pub log_requests: bool,
}

/// A running demo: gateway, provider and sample apps.
pub struct RunningDemo {
    /// The gateway, which stops with [`Running::stop`].
    pub gateway: Running,
    /// Issuer URL of the provider.
    pub issuer: String,
    site: String,
}

/// The apps: id, name, icon, access, program.
const APPS: [(&str, &str, &str, &str, SampleApp); 4] = [
    ("hello", "Hello", "👋", "public", SampleApp::Hello),
    ("whoami", "Who am I", "🪪", "user", SampleApp::Whoami),
    ("team", "Team room", "🔒", "group:phusers", SampleApp::Team),
    ("chat", "Chat", "💬", "group:friends", SampleApp::Chat),
];
const WELCOME: &str = "This is a demo. Open Hello: it is public. Then sign in as alice, who may open all \
     four apps, or as carol, who has no access to the Team room. Each app is here on a path, and on a host of its own.";
const CLIENT_ID: &str = "ludgate-demo";
/// Longest wait for the provider, which is in this process.
const PROVIDER_PATIENCE: Duration = Duration::from_secs(5);

/// Starts provider, apps and gateway.
///
/// # Errors
/// When a port is not available.
pub async fn start(demo: DemoOptions, options: StartOptions) -> Result<RunningDemo, StartError> {
    // Provider and site need the port number, so port 0 is resolved first.
    let port = match demo.listen.port() {
        0 => std::net::TcpListener::bind(demo.listen)?
            .local_addr()?
            .port(),
        port => port,
    };
    let listen = SocketAddr::new(demo.listen.ip(), port);
    let site = format!("http://{listen}");
    // Random and never shown: the client and the provider are in this process.
    let secret = crate::session::cookie::NewId::random().map_err(io::Error::other)?;
    let client = registered_client(&site, secret.as_str());
    let provider = DemoProvider::start(client.clone(), Clock::system()).await?;
    let mut text = format!(
        "[listen]\naddress = \"{listen}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [site]\nurl = \"{site}\"\napps_domain = \"localhost\"\n[identity]\nissuer = \"{}\"\nclient_id = \"{CLIENT_ID}\"\nclient_secret = \"{}\"\n[log]\nrequests = {}\n",
        provider.issuer(),
        client.secret,
        demo.log_requests
    );
    for (id, name, icon, access, sample) in APPS {
        let upstream = apps::start(sample, &format!("{site}/apps/")).await?;
        text += &format!(
            "[[apps]]\nid = \"{id}\"\nname = \"{name}\"\nicon = \"{icon}\"\naccess = \"{access}\"\n\
             upstream = \"http://{upstream}\"\nstrip_prefix = true\n"
        );
    }
    let mut settings = settings::parse(&text, Path::new("."), std::iter::empty())
        .map_err(|errors| StartError::System(io::Error::other(errors.to_string())))?;
    settings.demo_site(WELCOME);
    let issuer = provider.issuer().to_owned();
    let gateway = run::start(settings, options).await?;
    wait_for_provider(&gateway).await;
    Ok(RunningDemo {
        gateway,
        issuer,
        site,
    })
}

/// Starts the provider alone, for the gateway of a site.
///
/// # Errors
/// When the port is not available, or no key can be made.
pub async fn start_provider(
    listen: SocketAddr,
    site: &str,
    secret: &str,
) -> io::Result<DemoProvider> {
    let listener = TcpListener::bind(listen).await?;
    let client = registered_client(site.trim_end_matches('/'), secret);
    DemoProvider::start_on(listener, client, Clock::system())
}

fn registered_client(site: &str, secret: &str) -> RegisteredClient {
    RegisteredClient {
        id: CLIENT_ID.into(),
        secret: secret.into(),
        redirect_uris: vec![
            format!("{site}/oauth2/callback"),
            format!("{site}{TOKEN_CALLBACK}"),
        ],
        post_logout_redirect_uris: vec![format!("{site}/apps/")],
        backchannel_logout_uri: None,
    }
}

/// Waits for the provider, so that the first click on "Sign in" works.
async fn wait_for_provider(gateway: &Running) {
    let known = || {
        gateway
            .gateway
            .oidc
            .as_ref()
            .is_none_or(|oidc| oidc.is_ready())
    };
    let waiting = async {
        while !known() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // After that the sign-in page reports it, and everything else works.
    let _ = tokio::time::timeout(PROVIDER_PATIENCE, waiting).await;
}

impl RunningDemo {
    /// The text for standard output at start-up.
    pub fn welcome(&self) -> String {
        let RunningDemo {
            site,
            issuer,
            gateway,
        } = self;
        let port = gateway.address.port();
        let hosts = APPS
            .map(|(id, ..)| format!("http://{id}.localhost:{port}/"))
            .join("\n  ");
        format!(
            "Ludgate demo: open {site}/\n\n\
             \x20 {site}/apps/hello/    public: no sign-in\n\
             \x20 {site}/apps/whoami/   every signed-in user\n\
             \x20 {site}/apps/team/     members of phusers: alice\n\
             \x20 {site}/apps/chat/     members of friends: alice, bob, carol\n\n\
             The same apps, each on a host of its own, where no other app can read it:\n\
             \x20 {hosts}\n\n\
             Sign-in service (built in, a click signs in): {issuer}\n\
             Probes and metrics: http://{}/metrics\n\
             Stop with Ctrl-C.",
            gateway.admin
        )
    }
}
