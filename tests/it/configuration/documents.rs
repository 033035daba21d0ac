//! Documents for a first installation: their configurations are valid, and their commands of
//! `ludgate` exist. The document for operators explains each reason of a decision.

use std::{fs, path::Path};

use clap::Parser;
use ludgate::{
    cli::Cli,
    settings::{self, Settings},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::documents::blocks;

const README: &str = include_str!("../../../README.md");
const INSTALL: &str = include_str!("../../../docs/install.md");
const PROVIDERS: &str = include_str!("../../../docs/providers.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
/// Where the reasons are written.
const REASONS: [&str; 3] = [
    include_str!("../../../src/decide/reason.rs"),
    include_str!("../../../src/incoming/malformed.rs"),
    include_str!("../../../src/authorize/outcome.rs"),
];
/// The redirect URI, the same for each provider of the document.
const CALLBACK: &str = "https://hub.example.com/oauth2/callback";

/// A folder with the files that the configurations name.
fn folder() -> TempDir {
    let names = vec!["hub.example.com".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    for (file, content) in [
        ("client-secret", "s3cr3t".to_owned()),
        ("corp-client-secret", "another s3cr3t".to_owned()),
        (
            "session-keys",
            "g7hTA+zxc+zxpZyCk+ypr97jkh4o+RmyRvAE6qEfHto=".to_owned(),
        ),
        ("tls.crt", made.cert.pem()),
        ("tls.key", made.signing_key.serialize_pem()),
    ] {
        fs::write(folder.path().join(file), content).expect("written");
    }
    folder
}

fn parse(text: &str, folder: &Path) -> Settings {
    settings::parse(text, folder, std::iter::empty())
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

/// The settings of each configuration in a document.
fn configurations(document: &str) -> Vec<Settings> {
    let folder = folder();
    let texts = blocks(document, "toml");
    texts
        .into_iter()
        .map(|text| parse(text, folder.path()))
        .collect()
}

#[test]
fn the_configurations_for_a_first_installation_are_valid() {
    for (document, count) in [(README, 1), (INSTALL, 4)] {
        let found = configurations(document);
        assert_eq!(found.len(), count, "configurations in the document");
        for settings in found {
            assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        }
    }
}

#[test]
fn the_configuration_of_each_provider_is_valid() {
    let mut issuers = Vec::new();
    for settings in configurations(PROVIDERS) {
        let identity = settings.identity.expect("a provider");
        let scopes: Vec<&str> = identity.scopes.iter().map(String::as_str).collect();
        // Google refuses this scope, and Keycloak needs none for a refresh token.
        let issuer = identity.issuer.as_str().to_owned();
        let needs_none = issuer.contains("google") || issuer.contains("/realms/");
        assert_eq!(!needs_none, scopes.contains(&"offline_access"), "{issuer}");
        assert!(identity.client_secret.is_some(), "{issuer}");
        issuers.push(issuer);
    }
    issuers.dedup();
    assert_eq!(issuers.len(), 7, "{issuers:?}");
}

#[test]
fn the_configurations_at_the_providers_call_ludgate_back() {
    let texts = blocks(PROVIDERS, "yaml");
    assert_eq!(texts.len(), 2, "Dex and Authelia");
    for (text, uris) in texts.into_iter().zip([
        "/staticClients/0/redirectURIs/0",
        "/identity_providers/oidc/clients/0/redirect_uris/0",
    ]) {
        let read: Value = serde_saphyr::from_str(text).expect("YAML");
        let uri = read.pointer(uris).and_then(Value::as_str);
        assert_eq!(uri, Some(CALLBACK), "{text}");
    }
    assert!(PROVIDERS.contains(&format!("| redirect URI | `{CALLBACK}`")));
}

#[test]
fn the_commands_for_a_first_installation_exist() {
    let scripts = [README, INSTALL].map(|document| blocks(document, "sh"));
    let lines = scripts.into_iter().flatten().flat_map(str::lines);
    let commands: Vec<&str> = lines
        .map(|line| line.split(" # ").next().unwrap_or_default().trim())
        .map(|line| line.strip_prefix("sudo ").unwrap_or(line))
        .filter(|line| line.starts_with("ludgate "))
        .collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let parsed = Cli::try_parse_from(command.split_whitespace());
        assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
    }
}

#[test]
fn every_reason_of_a_decision_is_explained_to_operators() {
    let (_, section) = OPERATIONS
        .split_once("## Reasons of decisions")
        .expect("a section");
    let mut words = Vec::new();
    for source in REASONS {
        let arms = source.split(" => \"").skip(1);
        let literals = arms.filter_map(|arm| Some(arm.split_once("\",\n")?.0));
        // Sentences have capitals and blanks.
        let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
        words.extend(literals.filter(|literal| literal.chars().all(is_word)));
    }
    assert!(words.len() > 50, "{words:?}");
    for word in words {
        assert!(section.contains(&format!("`{word}`")), "{word}");
    }
}
