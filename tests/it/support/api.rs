//! The API with the shipped rights, in the process of the test, and the demo's provider as its
//! issuer.

use std::path::Path;

use ludgate::{
    demo::provider::DemoProvider,
    model::clock::{Clock, ManualClock},
    run::api::{RunningApi, start_api},
    settings::{self, ApiSettings},
};
use serde_json::{Value, json};

use super::{
    kube_namespace::KubeNamespace,
    message::Message,
    raw::Raw,
    world::{self, World, free_port},
};

/// What a platform has unless a test says otherwise. `alice` is in phusers and friends, `bob` in
/// friends; `carol` is an administrator.
pub const PLATFORM: &str = "[groups.phusers]\ndisplay_name = \"PrimeHub users\"\nvolume = \"project-phusers\"\n\
     quota = { cpu = 2, memory = \"8GiB\" }\ninstance_types = [\"gpu-1\"]\n[groups.friends]\n\
     [instance_types.cpu-1]\ncpu = 0.5\nmemory = \"512MiB\"\n\
     [instance_types.gpu-1]\ncpu = 1\nmemory = \"2GiB\"\ngpu = 1\n";

/// A running API.
pub struct Api {
    pub running: RunningApi,
    pub provider: DemoProvider,
    pub clock: ManualClock,
}

impl Api {
    /// The API of a namespace.
    pub async fn start(namespace: &KubeNamespace) -> Api {
        namespace.grant("api.yaml").await;
        let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
        let site = "https://hub.example.com";
        Api::with(&namespace.name, &kubeconfig, site, PLATFORM).await
    }

    /// A site on loopback is served at its own address. `platform` is more TOML: keys of `[api]`,
    /// then groups and instance types.
    pub async fn with(namespace: &str, kubeconfig: &Path, site: &str, platform: &str) -> Api {
        Api::with_change(namespace, kubeconfig, site, platform, |_| {}).await
    }

    /// `change` may do what no file can.
    pub async fn with_change(
        namespace: &str,
        kubeconfig: &Path,
        site: &str,
        platform: &str,
        change: impl FnOnce(&mut ApiSettings),
    ) -> Api {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (clock, manual_clock) = Clock::manual();
        let client = world::client("hub.example.com");
        let provider = DemoProvider::start(client, clock.clone());
        let provider = provider.await.expect("a provider");
        provider.set_claim("carol", "groups", json!(["admins"]));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ludgate.toml");
        let address = site.strip_prefix("http://").unwrap_or("127.0.0.1:0");
        let text = format!(
            "[site]\nurl = \"{site}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{}\"\nadmin_groups = [\"admins\"]\n\
             [kubernetes]\nnamespace = \"{namespace}\"\nkubeconfig = \"{}\"\n\
             [api]\naddress = \"{address}\"\n{platform}",
            provider.issuer(),
            world::SECRET,
            kubeconfig.display()
        );
        std::fs::write(&file, text).expect("written");
        let mut settings = settings::load_api(&file).expect("valid");
        change(&mut settings);
        let running = start_api(settings, clock).await.expect("started");
        Api {
            running,
            provider,
            clock: manual_clock,
        }
    }

    /// Sends a request; `more` are further lines of the head.
    pub async fn send(&self, start: &str, more: &str, body: &str) -> Message {
        let address = self.running.address;
        let length = body.len();
        let request = format!(
            "{start} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}Content-Length: {length}\r\n\r\n{body}"
        );
        Raw::exchange(address, request).await
    }

    /// Asks as a person.
    pub async fn call(&self, person: &str, query: &str, variables: Value) -> Value {
        let token = self.provider.access_token(person);
        let more = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        let body = json!({ "query": query, "variables": variables }).to_string();
        let answer = self.send("POST /api/graphql", &more, &body).await;
        assert_eq!(
            answer.header("content-type").as_deref(),
            Some("application/json")
        );
        answer.json()
    }

    /// Asks as a person, and returns the data.
    pub async fn data(&self, person: &str, query: &str, variables: Value) -> Value {
        let answer = self.call(person, query, variables).await;
        assert_eq!(answer.get("errors"), None, "{query}");
        answer["data"].clone()
    }

    /// Asks as a person, and returns code and message of the only error.
    pub async fn error(&self, person: &str, query: &str, variables: Value) -> (String, String) {
        let answer = self.call(person, query, variables).await;
        let errors = answer["errors"].as_array().map(Vec::as_slice);
        let Some([error]) = errors else {
            panic!("not one error: {answer}")
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&error["extensions"]["code"]), text(&error["message"]))
    }
}

impl KubeNamespace {
    /// A gateway that serves the API itself, with the rights of both.
    pub async fn world_with_api(&self) -> World {
        self.grant("api.yaml").await;
        let account = format!("--serviceaccount={}:ludgate", self.name);
        let arguments = [
            "create",
            "rolebinding",
            "both",
            "--role=ludgate-api",
            &account,
        ];
        self.kubectl(&arguments, "").await;
        let own = format!(
            "{}[api]\naddress = \"127.0.0.1:{}\"\n{PLATFORM}",
            self.toml(),
            free_port()
        );
        World::with(&own, |_| {}).await.ready().await
    }
}
