//! Service tokens in a file of the test's own.

use ludgate::{
    identity::service_tokens::{
        POLL_INTERVAL,
        file::TokenFile,
        record::ServiceName,
        registry::{ServiceTokenRequest, TokenRegistry},
    },
    model::{access::GroupName, app::AppId, clock::Clock},
};

use super::world::World;

/// The file, and what operators do with it.
pub struct TokenFolder {
    folder: tempfile::TempDir,
}

impl TokenFolder {
    pub fn new() -> TokenFolder {
        TokenFolder {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// The file, which exists once there was a token.
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("service-tokens.json")
    }

    /// The table of a configuration that names it.
    pub fn table(&self) -> String {
        format!("[tokens]\nfile = \"{}\"\n", self.path().display())
    }

    fn registry(&self) -> TokenRegistry {
        TokenRegistry::File(TokenFile::new(self.path()))
    }

    /// Makes a token that is valid for so many seconds.
    pub async fn create(&self, name: &str, apps: &[&str], groups: &[&str], life: i64) -> String {
        let request = request(name, apps, groups, life);
        let token = self.registry().create(&request).await;
        token.expect("a token").as_str().to_owned()
    }

    pub async fn revoke(&self, name: &str) {
        let name = ServiceName::new(name).expect("a name");
        self.registry().revoke(&name).await.expect("revoked");
    }
}

/// The token that a command would make.
pub fn request(name: &str, apps: &[&str], groups: &[&str], life: i64) -> ServiceTokenRequest {
    let created = Clock::system().wall_seconds();
    let app = |id: &&str| AppId::from_record(id).expect("an id");
    ServiceTokenRequest {
        name: ServiceName::new(name).expect("a name"),
        apps: apps.iter().map(app).collect(),
        groups: groups
            .iter()
            .filter_map(|name| GroupName::new(name))
            .collect(),
        created,
        expires: created + life,
    }
}

/// Lets the gateway look at the file again.
pub fn let_it_look(world: &World) {
    world.manual_clock.advance(POLL_INTERVAL);
}
