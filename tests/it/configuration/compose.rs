//! config/compose: the secrets are made once, the gateway accepts its configuration, and the parts
//! name the same addresses, clients, groups and files.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use clap::Parser;
use ludgate::{
    cli::Cli,
    settings::{self, Settings},
};
use serde_json::Value;
use tempfile::TempDir;

const COMPOSE: &str = include_str!("../../../config/compose/compose.yaml");
const CONFIGURATION: &str = include_str!("../../../config/compose/ludgate.toml");
const REALM: &str = include_str!("../../../config/compose/hub-realm.json");
const SESSIONS: &str = include_str!("../../../docs/sessions.md");
/// Where containers have their secrets.
const SECRETS: &str = "/run/secrets";

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/compose")
}

fn compose() -> Value {
    serde_saphyr::from_str(COMPOSE).expect("YAML")
}

fn realm() -> Value {
    serde_json::from_str(REALM).expect("JSON")
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no text at {pointer} in {value}"))
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

fn make_secrets(folder: &Path) -> Output {
    let script = folder.join("secrets.sh");
    fs::copy(shipped().join("secrets.sh"), &script).expect("copied");
    let output = Command::new("sh").arg(script).output();
    output.expect("a shell")
}

/// A folder with new secrets, and the settings of the gateway with them.
fn start() -> (TempDir, Settings) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = make_secrets(folder.path());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let secrets = folder.path().join("secrets").display().to_string();
    let file = folder.path().join("ludgate.toml");
    fs::write(&file, CONFIGURATION.replace(SECRETS, &secrets)).expect("written");
    let settings = settings::load(&file).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    (folder, settings)
}

#[test]
fn secrets_are_random_and_made_once() {
    let (folder, settings) = start();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    assert!(settings.session.store.is_some());
    let secrets = folder.path().join("secrets");
    let mode = fs::metadata(&secrets)
        .expect("a folder")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let read = |folder: &Path, name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file).unwrap_or_else(|_| panic!("no {}", file.display()))
    };
    let (other, _) = start();
    let defined = compose();
    let defined = defined["secrets"].as_object().expect("secrets");
    assert!(defined.len() >= 5, "{defined:?}");
    for (name, secret) in defined {
        assert_eq!(secret["file"], format!("./secrets/{name}"));
        let content = read(&secrets, name);
        assert!(content.len() > 16, "{name}");
        assert_ne!(content, read(&other.path().join("secrets"), name), "{name}");
    }
    // The rights in Redis are the documented ones.
    let documented = SESSIONS.lines().find_map(|line| {
        let rights = line.trim().strip_prefix("user ludgate on >secret ");
        rights.map(str::to_owned)
    });
    let users = read(&secrets, "redis-users");
    let documented = documented.expect("documented rights");
    assert!(users.trim_end().ends_with(&documented), "{users}");
    assert!(users.starts_with("user default off\n"), "{users}");
    // A second run keeps them.
    let before = read(&secrets, "client-secret");
    assert_eq!(make_secrets(folder.path()).status.code(), Some(1));
    assert_eq!(read(&secrets, "client-secret"), before);
}

#[test]
fn every_service_gets_the_secrets_and_files_that_it_reads() {
    let compose = compose();
    let services = compose["services"].as_object().expect("services");
    for (name, service) in services {
        let granted = texts(service, "/secrets");
        let read = match name.as_str() {
            "ludgate" => CONFIGURATION.to_owned(),
            _ => service["command"].to_string(),
        };
        let parts = read.split("/run/secrets/").skip(1);
        let mut named: Vec<String> = parts
            .map(|part| {
                let end = part.find(|c: char| c != '-' && !c.is_ascii_alphanumeric());
                part[..end.unwrap_or(part.len())].to_owned()
            })
            .collect();
        named.sort();
        let mut sorted = granted.clone();
        sorted.sort();
        assert_eq!(sorted, named, "{name}");
        for secret in granted {
            assert!(compose["secrets"].get(&secret).is_some(), "{secret}");
        }
        for volume in texts(service, "/volumes") {
            let (source, _) = volume.split_once(':').expect("a mount");
            let is_there = match source.strip_prefix("./") {
                Some(file) => shipped().join(file).is_file(),
                None => compose["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{name}: {volume}");
        }
    }
    let arguments = texts(&services["ludgate"], "/command");
    let command = [vec!["ludgate".to_owned()], arguments.clone()].concat();
    assert!(Cli::try_parse_from(&command).is_ok(), "{command:?}");
    let mounts = texts(&services["ludgate"], "/volumes");
    let file = arguments.last().expect("a file");
    assert!(mounts.contains(&format!("./ludgate.toml:{file}:ro")));
}

#[test]
fn the_provider_knows_the_gateway_and_its_group() {
    let (_folder, settings) = start();
    let realm = realm();
    let compose = compose();
    let site = &settings.site;
    let origin = &*site.origin.text;
    let identity = settings.identity.expect("a provider");
    let client = &realm["clients"][0];
    assert_eq!(text(client, "/clientId"), identity.client_id);
    let endpoint = |name: &str| format!("{origin}{}/{name}", site.endpoints);
    assert_eq!(texts(client, "/redirectUris"), [endpoint("callback")]);
    let attributes = &client["attributes"];
    let back = format!("{origin}{}/", site.apps_prefix);
    assert_eq!(attributes["post.logout.redirect.uris"], back);
    let logout = endpoint("backchannel_logout");
    assert_eq!(attributes["backchannel.logout.url"], logout);
    let mapper = &client["protocolMappers"][0]["config"];
    assert_eq!(mapper["claim.name"], identity.groups_claim);

    // The issuer is where Keycloak says that it is.
    let keycloak = &compose["services"]["keycloak"];
    let host = text(keycloak, "/environment/KC_HOSTNAME");
    let issuer = format!("{host}/realms/{}", text(&realm, "/realm"));
    assert_eq!(identity.issuer.as_str(), issuer);
    let port = text(keycloak, "/environment/KC_HTTP_PORT");
    let published = texts(keycloak, "/ports");
    for (host, port) in [(host, port), (origin, "8080")] {
        assert!(host.ends_with(&format!(":{port}")), "{host}");
        assert!(published.contains(&format!("127.0.0.1:{port}:{port}")));
    }
    // Its shell sets each variable of the realm.
    let script = text(keycloak, "/command/0");
    let variables: Vec<&str> = REALM
        .split("${")
        .skip(1)
        .filter_map(|part| Some(part.split_once('}')?.0))
        .collect();
    assert_eq!(variables.len(), 2, "{variables:?}");
    for variable in variables {
        assert!(script.contains(&format!("export {variable}=")), "{script}");
    }

    // The app is a service, and alice may open it.
    let app = &settings.apps[0];
    let upstream = compose["services"].get(&*app.upstream.host);
    assert!(upstream.is_some(), "{}", app.upstream.host);
    let group = text(&realm, "/groups/0/name");
    assert_eq!(app.access.to_string(), format!("group:{group}"));
    assert_eq!(texts(&realm, "/users/0/groups"), [format!("/{group}")]);
}
