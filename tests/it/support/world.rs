//! A gateway with apps, people and a clock; everything real, everything on loopback, everything of
//! its own.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{
    backend::Backend,
    browser::{self, Browser},
    message::{Message, PATIENCE},
    process::chosen_program,
    raw::Raw,
    request_log::Log,
    running_gateway::RunningGateway,
    until::{holds_within, until, until_async},
};
use ludgate::{
    catalog::snapshot::Snapshot,
    demo::provider::{DemoProvider, RegisteredClient},
    model::{
        app::AppState,
        clock::{Clock, ManualClock},
        secret::Secret,
    },
    run::{self, StartOptions},
    settings::{self, Settings},
};

/// For operators, where a test gives them one.
pub const ADMIN_TOKEN: &str = "admin-token-CANARY";
pub const SECRET: &str = "a-client-secret-for-tests-CANARY";
/// The apps and their access rules. `alice` is in phusers and friends, `bob` in friends; `other`
/// has no members.
pub const APPS: [(&str, &str); 7] = [
    ("pub", "public"),
    ("usr", "user"),
    ("grp", "group:phusers"),
    ("oth", "group:other"),
    ("mine", "owner:alice"),
    ("his", "owner:bob"),
    ("strip", "group:phusers"),
];

/// What a site is unless a test says otherwise.
const SITE: &str = "apps_domain = \"localhost\"\nconsole_cookies = [\"accessToken\"]\n";

pub struct World {
    pub running: RunningGateway,
    pub provider: Arc<DemoProvider>,
    pub manual_clock: ManualClock,
    pub log: Log,
    pub host: String,
    backends: Vec<(&'static str, Arc<Backend>)>,
    /// Texts that must never be seen by an app, in a log, in a metric.
    pub canaries: Arc<Mutex<Vec<String>>>,
    clock: Clock,
    /// The configuration without its addresses. It begins with keys of the listener.
    text: String,
}

/// What a test writes into the configuration of its world, as TOML.
struct Keys<'k> {
    listen: &'k str,
    site: &'k str,
    identity: &'k str,
    extra: &'k str,
}

impl<'k> Keys<'k> {
    fn with(extra: &'k str) -> Keys<'k> {
        Keys {
            listen: "",
            site: SITE,
            identity: "",
            extra,
        }
    }
}

impl World {
    pub async fn new() -> World {
        World::with("", |_| {}).await
    }

    /// `extra` is more TOML; `change` may do what no file can.
    pub async fn with(extra: &str, change: impl FnOnce(&mut Settings)) -> World {
        World::with_threads(2, extra, change).await
    }

    /// With fewer data threads than usual, where a test counts what each of them does once.
    pub async fn with_threads(
        threads: usize,
        extra: &str,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        World::with_own_provider(threads, Keys::with(extra), change).await
    }

    /// With other keys of `[site]`, written as TOML.
    pub async fn of_site(site: &str) -> World {
        let keys = Keys {
            site,
            ..Keys::with("")
        };
        World::with_own_provider(2, keys, |_| {}).await
    }

    /// With other keys of `[identity]`, written as TOML.
    pub async fn with_identity(identity: &str, extra: &str) -> World {
        let keys = Keys {
            identity,
            ..Keys::with(extra)
        };
        World::with_own_provider(2, keys, |_| {}).await
    }

    /// With other keys of `[listen]`, written as TOML, and nothing that only a test may set: in
    /// the program that `LUDGATE_BIN` names, if it names one. So tests that send bytes can be run
    /// against any build.
    pub async fn as_program(listen: &str, extra: &str) -> World {
        let keys = Keys {
            listen,
            ..Keys::with(extra)
        };
        let Some(program) = chosen_program() else {
            return World::with_own_provider(2, keys, |_| {}).await;
        };
        let port = free_port();
        let (_, manual_clock) = Clock::manual();
        let clocks = (Clock::system(), manual_clock);
        let provider = DemoProvider::start(client(&format!("127.0.0.1:{port}")), Clock::system())
            .await
            .expect("a provider");
        World::run(provider, clocks, port, keys, async |text, host, log| {
            RunningGateway::program(&program, host, &listening(host, text), log).await
        })
        .await
    }

    async fn with_own_provider(
        threads: usize,
        keys: Keys<'_>,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let port = free_port();
        let (clock, manual_clock) = Clock::manual();
        let provider = DemoProvider::start(client(&format!("127.0.0.1:{port}")), clock.clone())
            .await
            .expect("a provider");
        let clocks = (clock, manual_clock);
        World::run_here(provider, clocks, port, threads, keys, change).await
    }

    /// The oracles watch this app too.
    pub fn and_backend(mut self, name: &'static str, backend: Backend) -> World {
        self.backends.push((name, Arc::new(backend)));
        self
    }

    /// Also with apps of the test's own, written as TOML in which `ADDRESS` stands for a recording
    /// app's.
    pub async fn with_app(name: &'static str, toml: &str) -> World {
        let backend = Backend::start(name).await;
        let world = World::with(
            &toml.replace("ADDRESS", &backend.address().to_string()),
            |_| {},
        )
        .await;
        world.and_backend(name, backend)
    }

    /// With a provider of the test's own.
    pub async fn behind(
        provider: DemoProvider,
        clock: Clock,
        manual_clock: ManualClock,
        port: u16,
        extra: &str,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let clocks = (clock, manual_clock);
        World::run_here(provider, clocks, port, 2, Keys::with(extra), change).await
    }

    /// The same with the system's clock, and with other keys of `[identity]`, written as TOML.
    pub async fn behind_with_identity(
        provider: DemoProvider,
        port: u16,
        identity: &str,
        extra: &str,
    ) -> World {
        let (_, manual_clock) = Clock::manual();
        let clocks = (Clock::system(), manual_clock);
        let keys = Keys {
            identity,
            ..Keys::with(extra)
        };
        World::run_here(provider, clocks, port, 2, keys, |_| {}).await
    }

    async fn run_here(
        provider: DemoProvider,
        clocks: (Clock, ManualClock),
        port: u16,
        threads: usize,
        keys: Keys<'_>,
        change: impl FnOnce(&mut Settings),
    ) -> World {
        let clock = clocks.0.clone();
        World::run(provider, clocks, port, keys, async |text, host, log| {
            start(text, host, (clock, threads, log), change).await
        })
        .await
    }

    async fn run(
        provider: DemoProvider,
        (clock, manual_clock): (Clock, ManualClock),
        port: u16,
        keys: Keys<'_>,
        start: impl AsyncFnOnce(&str, &str, Log) -> RunningGateway,
    ) -> World {
        let Keys {
            listen,
            site,
            identity,
            extra,
        } = keys;
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let host = format!("127.0.0.1:{port}");
        let mut backends = Vec::new();
        let mut text = format!(
            "{listen}[site]\nurl = \"http://{host}\"\n{site}\
             [identity]\n{identity}issuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\nadmin_groups = [\"admins\"]\n",
            provider.issuer()
        );
        for (id, access) in APPS {
            let backend = Backend::start(id).await;
            let strip = id == "strip";
            text += &format!(
                "[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://{}\"\nstrip_prefix = {strip}\n",
                backend.address()
            );
            backends.push((id, Arc::new(backend)));
        }
        text += extra;
        let log = Log::default();
        let running = start(&text, &host, log.clone()).await;
        let canaries = Arc::new(Mutex::new(vec![SECRET.to_owned()]));
        World {
            running,
            provider: Arc::new(provider),
            manual_clock,
            log,
            host,
            backends,
            canaries,
            clock,
            text,
        }
    }

    /// Another gateway of the same site: the same configuration, clock, apps, provider and log; at
    /// an address of its own.
    pub async fn replica(&self, change: impl FnOnce(&mut Settings)) -> World {
        let (clock, log) = (self.clock.clone(), self.log.clone());
        World {
            running: start(&self.text, "127.0.0.1:0", (clock, 2, log), change).await,
            provider: self.provider.clone(),
            manual_clock: self.manual_clock.clone(),
            log: self.log.clone(),
            host: self.host.clone(),
            backends: self.backends.clone(),
            canaries: self.canaries.clone(),
            clock: self.clock.clone(),
            text: self.text.clone(),
        }
        .ready()
        .await
    }

    /// Waits until the provider was discovered; tests that sign in begin with this.
    pub async fn ready(self) -> World {
        let what = "the provider is discovered";
        if self.running.is_here() {
            let inside = self.running.internals();
            until(what, || inside.is_provider_known()).await;
        } else {
            until_async(what, async || {
                self.browser().open("/oauth2/start").await.status() == 302
            })
            .await;
        }
        self
    }

    /// Waits until the metrics have this line, whole: a client may get its answer before that is
    /// counted.
    pub async fn until_counted(&self, line: &str) {
        let mut metrics = String::new();
        let is_counted = holds_within(PATIENCE, async || {
            metrics = self.admin("/metrics", "").await.text();
            metrics.lines().any(|found| found == line)
        })
        .await;
        assert!(is_counted, "no line {line:?} in\n{metrics}");
    }

    /// The value of a metric, named with its labels; `None` until the gateway exports it.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.admin("/metrics", "").await.text();
        let value_of = |line: &str| {
            line.strip_prefix(name)?
                .strip_prefix(' ')?
                .parse::<f64>()
                .ok()
        };
        metrics.lines().find_map(value_of)
    }

    /// Waits until the catalogue is as it should be.
    pub async fn until(&self, wanted: impl Fn(&Snapshot) -> bool) {
        let inside = self.running.internals();
        let mut changed = inside.policy_changes();
        let found = async {
            while !wanted(&inside.snapshot()) {
                changed.changed().await.expect("the gateway lives");
            }
        };
        let waited = tokio::time::timeout(PATIENCE, found).await;
        waited.unwrap_or_else(|_| {
            let now = inside.snapshot();
            panic!(
                "not in time; apps: {:?}, problems: {:?}",
                now.apps().collect::<Vec<_>>(),
                now.problems()
            )
        });
    }

    /// Waits until an app can be opened.
    pub async fn until_running(&self, app: &str) {
        let is_running = |snapshot: &Snapshot| {
            let found = snapshot.find(app);
            found.is_some_and(|app| app.spec.state == AppState::Running)
        };
        self.until(is_running).await;
    }

    pub fn backend(&self, id: &str) -> &Backend {
        &self
            .backends
            .iter()
            .find(|(name, _)| *name == id)
            .unwrap_or_else(|| panic!("no backend {id}"))
            .1
    }

    pub fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().map(|(_, backend)| &**backend)
    }

    /// The origin of a host below the apps' domain.
    pub fn on_host(&self, label: &str) -> String {
        format!("http://{label}.localhost:{}", self.running.address.port())
    }

    pub fn browser(&self) -> Browser {
        Browser::new(self.running.address, &self.host)
    }

    /// A browser whose person is signed in and has opened `usr`.
    pub async fn signed_in(&self, person: &str) -> Browser {
        let mut browser = self.browser();
        let page = browser.sign_in("/apps/usr/", person).await;
        assert_eq!(page.status(), 200, "{}", page.text());
        self.canaries
            .lock()
            .expect("no panic")
            .extend(browser.jar.values().cloned());
        browser
    }

    pub async fn raw(&self) -> Raw {
        Raw::connect(self.running.address).await
    }

    /// Sends bytes in which `HOST` stands for the public authority.
    pub async fn exchange(&self, bytes: &str) -> Message {
        Raw::exchange(self.running.address, bytes.replace("HOST", &self.host)).await
    }

    /// The answer of an app to a program with a bearer token.
    pub async fn get_with_token(&self, app: &str, token: &str) -> Message {
        let line = format!("Authorization: Bearer {token}\r\n");
        let target = format!("/apps/{app}/x");
        let mut program = self.browser();
        program
            .send("GET", &target, browser::From::Program, &line, b"")
            .await
    }

    pub async fn admin(&self, path: &str, more: &str) -> Message {
        let address = self.running.admin;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}Connection: close\r\n\r\n");
        Raw::exchange(address, request).await
    }
}

/// A configuration that listens at this address.
fn listening(address: &str, text: &str) -> String {
    format!("[listen]\naddress = \"{address}\"\n{text}")
}

async fn start(
    text: &str,
    address: &str,
    (clock, threads, log): (Clock, usize, Log),
    change: impl FnOnce(&mut Settings),
) -> RunningGateway {
    let text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n{}",
        listening(address, text)
    );
    let mut settings = settings::parse(&text, Path::new("."), std::iter::empty())
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    change(&mut settings);
    let options = StartOptions {
        clock,
        threads,
        log: Some(Box::new(log)),
        inherited: Default::default(),
    };
    let running = run::start(settings, options).await;
    RunningGateway::here(running.expect("a gateway"))
}

/// Operators may list and revoke sessions.
pub fn with_operators(settings: &mut Settings) {
    settings.admin.token = Some(Secret::new(ADMIN_TOKEN));
}

pub fn client(host: &str) -> RegisteredClient {
    RegisteredClient {
        id: "ludgate".into(),
        secret: SECRET.into(),
        redirect_uris: vec![
            format!("http://{host}/oauth2/callback"),
            format!("http://{host}/oidc/auth-flow/callback"),
        ],
        post_logout_redirect_uris: vec![format!("http://{host}/apps/")],
        backchannel_logout_uri: None,
    }
}

/// A free port below those that the system gives to outgoing connections, so that it stays free
/// until the gateway takes it. Tests run in processes of their own: the process id spreads them.
pub fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let tries = std::iter::repeat_with(|| {
        let spread = std::process::id()
            .wrapping_mul(7919)
            .wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed) * 101);
        10_000 + u16::try_from(spread % 20_000).expect("below 20,000")
    });
    tries.take(1000).find(free).expect("a free port")
}
