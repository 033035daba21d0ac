//! A gateway that signs identities, apps that get them, and what an app does to verify one.

use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::Value;

use super::{backend::Backend, browser::From, world::World};

/// The header, as apps see it.
pub const ASSERTION: &str = "x-ludgate-assertion";
/// Where the keys are.
pub const JWKS: &str = "/.ludgate/jwks.json";
/// The apps with `assertion = true` and their access rules.
const APPS: [(&str, &str); 3] = [
    ("signed", "user"),
    ("second", "group:friends"),
    ("open", "public"),
];

/// A gateway with keys in a file.
pub struct SigningGateway {
    pub world: World,
    pub keys: PathBuf,
    _folder: tempfile::TempDir,
}

impl SigningGateway {
    pub async fn start() -> SigningGateway {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = folder.path().join("keys.pem");
        write_new_key(&keys);
        let mut apps = String::new();
        let mut backends = Vec::new();
        for (id, access) in APPS {
            let backend = Backend::start(id).await;
            let address = backend.address();
            apps += &format!(
                "[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://{address}\"\nassertion = true\n"
            );
            backends.push((id, backend));
        }
        let identity = format!("assertion_keys = [{keys:?}]\n");
        let mut world = World::with_identity(&identity, &apps).await.ready().await;
        for (id, backend) in backends {
            world = world.and_backend(id, backend);
        }
        SigningGateway {
            world,
            keys,
            _folder: folder,
        }
    }
}

/// Replaces the key in a file, as `mv` does.
pub fn write_new_key(file: &Path) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let new = file.with_extension("new");
    std::fs::write(&new, key.serialize_pem()).expect("written");
    std::fs::rename(new, file).expect("in place");
}

/// The published keys.
pub async fn key_set(world: &World) -> Value {
    let mut program = world.browser();
    let answer = program.send("GET", JWKS, From::Program, "", b"").await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer.json()
}

/// The ids of the published keys.
pub fn key_ids(key_set: &Value) -> Vec<String> {
    let keys = key_set["keys"].as_array().expect("keys").iter();
    keys.map(|key| key["kid"].as_str().expect("an id").to_owned())
        .collect()
}

/// The only token that an app got with its last request.
pub fn last_token(world: &World, app: &str) -> String {
    let mut tokens = world.backend(app).last().all(ASSERTION);
    assert_eq!(tokens.len(), 1, "{app}: {tokens:?}");
    tokens.remove(0)
}

/// The header of a token.
pub fn header(token: &str) -> Value {
    part(token.split('.').next().expect("a header"))
}

/// The claims of a token that one of these keys signed.
pub fn verified(token: &str, key_set: &Value) -> Value {
    let (message, signature) = token.rsplit_once('.').expect("a signature");
    let (_, payload) = message.split_once('.').expect("two parts");
    let header = header(token);
    assert_eq!(
        (&header["alg"], &header["typ"]),
        (&"ES256".into(), &"JWT".into())
    );
    let mut keys = key_set["keys"].as_array().expect("keys").iter();
    let key = keys
        .find(|key| key["kid"] == header["kid"])
        .unwrap_or_else(|| panic!("no key for {header} in {key_set}"));
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64");
    let coordinate = |name: &str| bytes(key[name].as_str().expect("a text"));
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(message.as_bytes(), &bytes(signature))
        .expect("a valid signature");
    part(payload)
}

fn part(text: &str) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(text).expect("base64");
    serde_json::from_slice(&bytes).expect("JSON")
}
