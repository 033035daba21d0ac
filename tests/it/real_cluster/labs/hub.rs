//! A real JupyterHub and its real proxy, with the configuration of `python/examples`.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::{
    browser::HubBrowser,
    process::{log_file, print_after_panic},
    site::{LabSite, jupyter},
};
use crate::support::{
    changes::POD_PATIENCE,
    process::{Running, until_open},
    until::holds_within,
    world::{SECRET, free_port},
};

/// Where browsers reach a hub.
#[derive(Clone, Debug)]
pub struct HubAddress {
    /// Host and port, as in the address bar.
    pub authority: String,
    /// The path of the hub and of all labs.
    pub base: &'static str,
    /// Where the hub's proxy listens.
    pub proxy: SocketAddr,
}

impl HubAddress {
    /// A hub without a gateway before it.
    pub fn direct() -> HubAddress {
        let proxy = SocketAddr::from(([127, 0, 0, 1], free_port()));
        HubAddress {
            authority: proxy.to_string(),
            base: "/nb",
            proxy,
        }
    }

    /// Where the OpenID provider sends people back to.
    pub fn callback(&self) -> String {
        format!("http://{}{}/hub/oauth_callback", self.authority, self.base)
    }
}

/// Where people sign in to a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubSignIn {
    /// At the site's provider. The lab controller verifies their tokens.
    Provider,
    /// At the gateway before the hub, as in the example. The lab controller trusts the hub.
    Gateway,
}

/// A hub and its proxy.
pub struct HubServer {
    pub address: HubAddress,
    issuer: String,
    _hub: Running,
    _proxy: Running,
    folder: TempDir,
}

impl HubServer {
    /// Starts both, and waits until the hub answers.
    pub async fn start(site: &LabSite, address: HubAddress, sign_in: HubSignIn) -> HubServer {
        let folder = tempfile::tempdir().expect("a folder");
        let installed = jupyter().await;
        install_package(&installed, folder.path());
        let hub = SocketAddr::new(node_address(), free_port());
        let proxy_api = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let token = site.folder.path().join("hub-token");
        std::fs::write(&token, site.hub_token()).expect("written");
        let config = config(site, &address, hub, &token)
            + &settings(&address, proxy_api, folder.path())
            + &match sign_in {
                HubSignIn::Provider => provider_settings(site, &address),
                HubSignIn::Gateway => String::new(),
            };
        std::fs::write(folder.path().join("jupyterhub_config.py"), config).expect("written");

        let program = "node_modules/configurable-http-proxy/bin/configurable-http-proxy";
        let mut proxy = Command::new("node");
        proxy
            .arg(installed.join("proxy").join(program))
            .args(["--ip", "127.0.0.1", "--api-ip", "127.0.0.1"])
            .args(["--port", &address.proxy.port().to_string()])
            .args(["--api-port", &proxy_api.port().to_string()])
            .args(["--default-target", &format!("http://{hub}")]);
        let proxy = spawn(proxy, folder.path());
        until_open(proxy_api).await;
        let mut program = Command::new(installed.join("venv/bin/python"));
        program
            .args(["-m", "jupyterhub", "-f", "jupyterhub_config.py"])
            .env("PYTHONPATH", folder.path().join("package"));
        let started = HubServer {
            _hub: spawn(program, folder.path()),
            _proxy: proxy,
            address,
            issuer: site.provider.issuer().to_owned(),
            folder,
        };
        let is_up = holds_within(POD_PATIENCE, async || TcpStream::connect(hub).await.is_ok());
        assert!(is_up.await, "the hub does not start");
        started
    }

    /// The browser of a person who has not signed in, at this gateway or proxy.
    pub fn browser(&self, person: &'static str, at: SocketAddr) -> HubBrowser {
        HubBrowser::new(&self.address, at, person, &self.issuer)
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        print_after_panic(&self.folder.path().join("hub.log"));
    }
}

/// The address of the cluster's node, which is this machine: there labs reach the hub.
fn node_address() -> std::net::IpAddr {
    let address = std::env::var("LUDGATE_NODE_ADDRESS");
    let address = address.expect("run these tests with make test-cluster");
    address.parse().expect("an address")
}

/// Installs the package in `python/`, as others install it.
fn install_package(installed: &Path, folder: &Path) {
    let status = Command::new(installed.join("venv/bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index"])
        .args(["--disable-pip-version-check", "--no-build-isolation"])
        .arg("--target")
        .arg(folder.join("package"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python"))
        .status();
    assert!(status.expect("it starts").success());
}

fn spawn(mut command: Command, folder: &Path) -> Running {
    let log = log_file(&folder.join("hub.log"));
    let child = command
        .current_dir(folder)
        .env("CONFIGPROXY_AUTH_TOKEN", "token-of-the-proxy")
        .env("JUPYTERHUB_CRYPT_KEY", "0123456789abcdef".repeat(4))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn();
    Running(child.expect("it starts"))
}

/// The shipped example with the names of this site.
fn config(site: &LabSite, address: &HubAddress, hub: SocketAddr, token: &Path) -> String {
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let example = example.join("python/examples/jupyterhub_config.py");
    let mut text = std::fs::read_to_string(example).expect("the example");
    let setting = |name: &str, value: &str| format!("c.{name} = \"{value}\"");
    let labs = "http://LUDGATE-LABS.NAMESPACE.svc:8083/nublado";
    for (name, value) in [
        ("JupyterHub.hub_bind_url", "http://0.0.0.0:8081"),
        (
            "JupyterHub.hub_connect_url",
            "http://HUB.NAMESPACE.svc:8081",
        ),
        ("JupyterHub.base_url", "/apps/nb"),
        (
            "HeaderAuthenticator.jwks_url",
            "https://APPS.EXAMPLE.ORG/.ludgate/jwks.json",
        ),
        ("RESTSpawner.controller_url", labs),
        ("RESTSpawner.hub_token_file", "/etc/ludgate/hub-token"),
    ] {
        let shipped = setting(name, value);
        assert!(text.contains(&shipped), "no {shipped}");
        let own = match name {
            "JupyterHub.base_url" => address.base.to_owned(),
            "HeaderAuthenticator.jwks_url" => {
                format!("http://{}/.ludgate/jwks.json", address.authority)
            }
            "RESTSpawner.controller_url" => site.labs.url(),
            "RESTSpawner.hub_token_file" => token.display().to_string(),
            _ => format!("http://{hub}"),
        };
        text = text.replace(&shipped, &setting(name, &own));
    }
    text
}

/// What the example leaves to the site: the proxy, and files. Each start shows its progress,
/// however short it is.
fn settings(address: &HubAddress, proxy_api: SocketAddr, folder: &Path) -> String {
    let folder = folder.display();
    let HubAddress { proxy, base, .. } = address;
    let values = [
        ("JupyterHub.bind_url", format!("http://{proxy}{base}/")),
        (
            "JupyterHub.db_url",
            format!("sqlite:///{folder}/hub.sqlite"),
        ),
        (
            "JupyterHub.cookie_secret_file",
            format!("{folder}/cookie-secret"),
        ),
        (
            "ConfigurableHTTPProxy.api_url",
            format!("http://{proxy_api}"),
        ),
    ];
    lines(&values)
        + "c.ConfigurableHTTPProxy.should_start = False
c.JupyterHub.tornado_settings = {\"slow_spawn_timeout\": 0}
"
}

/// Sign-in at the site's provider. People have tokens of it, which the lab controller verifies.
fn provider_settings(site: &LabSite, address: &HubAddress) -> String {
    let issuer = site.provider.issuer();
    let values = [
        ("JupyterHub.authenticator_class", "generic-oauth".to_owned()),
        ("GenericOAuthenticator.client_id", "ludgate".to_owned()),
        ("GenericOAuthenticator.client_secret", SECRET.to_owned()),
        (
            "GenericOAuthenticator.oauth_callback_url",
            address.callback(),
        ),
        (
            "GenericOAuthenticator.authorize_url",
            format!("{issuer}/authorize"),
        ),
        ("GenericOAuthenticator.token_url", format!("{issuer}/token")),
        (
            "GenericOAuthenticator.userdata_url",
            format!("{issuer}/userinfo"),
        ),
        (
            "GenericOAuthenticator.username_claim",
            "preferred_username".to_owned(),
        ),
        ("RESTSpawner.user_token_key", "access_token".to_owned()),
    ];
    lines(&values)
        + "c.RESTSpawner.send_user_headers = False
c.GenericOAuthenticator.scope = [\"openid\"]
c.GenericOAuthenticator.allow_all = True
c.GenericOAuthenticator.auto_login = True
c.GenericOAuthenticator.enable_auth_state = True
"
}

/// Settings that are texts.
fn lines(values: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in values {
        writeln!(text, "c.{name} = \"{value}\"").expect("memory");
    }
    text
}
