//! A gateway in front of an Arvados cluster, with people and their containers.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    arvados::{Arvados, Container, User},
    backend::Backend,
    browser::From,
    message::Message,
    origins::Origins,
    world::World,
};

pub struct Cluster {
    pub world: World,
    pub arvados: Arvados,
    pub alice: User,
    pub bob: User,
    pub admin: User,
    /// What runs inside every container, on ports 80 and 8080; nothing listens on 9999.
    pub app: Backend,
    section: String,
    folder: TempDir,
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::with("").await
    }

    /// `more` is more TOML, `[arvados]` keys first.
    pub async fn with(more: &str) -> Cluster {
        Cluster::with_threads(1, more).await
    }

    pub async fn with_threads(threads: usize, more: &str) -> Cluster {
        let arvados = Arvados::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let text = section(&arvados, &folder, more);
        let world = World::with_threads(threads, &text, |_| {}).await;
        let app = Backend::start("container").await;
        let world = world.and_backend("container", app.clone()).ready().await;
        let (alice, bob) = (
            arvados.add_user("alice", false),
            arvados.add_user("bob", false),
        );
        let admin = arvados.add_user("admin", true);
        let secrets = [&alice, &bob, &admin].map(|user| user.token_v1.clone());
        world.canaries.lock().expect("no panic").extend(secrets);
        world
            .canaries
            .lock()
            .expect("no panic")
            .push(arvados.root_token());
        Cluster {
            world,
            arvados,
            alice,
            bob,
            admin,
            app,
            section: text,
            folder,
        }
    }

    /// A configuration for a program of its own: this site and this cluster.
    pub fn config(&self) -> String {
        format!(
            "[site]\nurl = \"http://{}\"\napps_domain = \"localhost\"\n{}",
            self.world.host, self.section
        )
    }

    /// A file beside the others; gives back its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path.display().to_string()
    }

    /// A running container of these people that publishes port 80 to everybody and 8080 to its
    /// owner.
    pub async fn container(&self, submitters: &[&User]) -> Container {
        let published = json!({"80": {"access": "public", "label": "Page"}, "8080": {"access": "private", "label": "Own"}});
        self.publishing(submitters, published).await
    }

    pub async fn publishing(&self, submitters: &[&User], published: Value) -> Container {
        let submitters: Vec<&str> = submitters.iter().map(|user| user.uuid.as_str()).collect();
        let closed: SocketAddr = super::backend::refused_port().await;
        let ports = [
            (80, self.app.address()),
            (8080, self.app.address()),
            (9999, closed),
        ];
        self.arvados
            .add_container(&submitters, published, &ports)
            .await
    }

    /// A cluster with a container of Alice's, and an address at its private port.
    pub async fn with_private_url() -> (Cluster, String) {
        let cluster = Cluster::start().await;
        let container = cluster.container(&[&cluster.alice]).await;
        let url = cluster.url(format!("{}-8080", container.uuid), "/x");
        (cluster, url)
    }

    /// `<label>.<apps_domain>` with the gateway's port.
    pub fn authority(&self, label: impl AsRef<str>) -> String {
        let port = self.world.running.address.port();
        format!("{}.localhost:{port}", label.as_ref())
    }

    /// The address of a target at `<label>.<apps_domain>`.
    pub fn url(&self, label: impl AsRef<str>, target: &str) -> String {
        format!("{}{target}", self.world.on_host(label.as_ref()))
    }

    pub fn visitor(&self) -> Origins {
        Origins::new(&self.world)
    }

    /// One request of a program without cookies; with `None` it is anonymous, otherwise it has the
    /// user's token in `Authorization`.
    pub async fn request(&self, method: &str, url: &str, who: Option<&User>) -> Message {
        let more = who.map_or_else(String::new, |who| {
            format!("Authorization: Bearer {}\r\n", who.token_v2)
        });
        self.visitor()
            .send(method, url, From::Program, &more, b"")
            .await
    }

    /// One GET of a new visitor; `more` is more header lines.
    pub async fn get(&self, url: &str, from: From, more: &str) -> Message {
        self.visitor().get(url, from, more).await
    }

    /// How many calls the API has seen.
    pub fn calls(&self) -> usize {
        self.arvados.calls().len()
    }
}

/// The `[arvados]` table for a cluster, its files in this folder.
pub fn section(arvados: &Arvados, folder: &TempDir, more: &str) -> String {
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path.display().to_string()
    };
    let (token, ca) = (
        file("root-token", arvados.root_token()),
        file("ca.pem", arvados.ca_pem()),
    );
    let api = arvados.api();
    format!("[arvados]\napi = \"{api}\"\nroot_token_file = \"{token}\"\nca = \"{ca}\"\n{more}")
}

/// A token as it stands in a query.
pub fn encoded(token: &str) -> String {
    url::form_urlencoded::byte_serialize(token.as_bytes()).collect()
}
