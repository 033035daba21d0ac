//! config/systemd: systemd knows each setting, and the unit starts the gateway with the
//! configuration of docs/install.md.

use std::{collections::BTreeSet, fs, time::Duration};

use clap::Parser;
use ludgate::{
    cli::{Cli, Command},
    settings,
};

use crate::support::documents::blocks;

const SERVICE: &str = include_str!("../../../config/systemd/ludgate.service");
const SOCKET: &str = include_str!("../../../config/systemd/ludgate.socket");
const DOCUMENT: &str = include_str!("../../../docs/install.md");
/// systemd ignores a misspelled setting, so all that the units have are listed here: those of
/// systemd.unit(5), systemd.service(5), systemd.exec(5) and systemd.socket(5).
const KNOWN: [(&str, &str); 4] = [
    ("Unit", "Description Wants After"),
    (
        "Service",
        "Type ExecStart ExecReload TimeoutStopSec Restart RestartSec RestartPreventExitStatus \
         DynamicUser StateDirectory StateDirectoryMode UMask LoadCredential Environment \
         CapabilityBoundingSet NoNewPrivileges ProtectSystem ProtectHome PrivateTmp \
         PrivateDevices ProtectClock ProtectControlGroups ProtectHostname ProtectKernelLogs \
         ProtectKernelModules ProtectKernelTunables ProtectProc ProcSubset \
         RestrictAddressFamilies RestrictNamespaces RestrictRealtime RestrictSUIDSGID \
         LockPersonality MemoryDenyWriteExecute SystemCallArchitectures SystemCallFilter \
         SystemCallErrorNumber",
    ),
    ("Socket", "ListenStream Backlog"),
    ("Install", "WantedBy"),
];
/// Settings that may stand more than once.
const LISTS: [&str; 3] = ["LoadCredential", "Environment", "ListenStream"];
/// Open requests have this time after `limits.stop_grace`.
const DRAIN: Duration = Duration::from_secs(30);

/// A line of a unit.
#[derive(Debug)]
struct Entry {
    section: &'static str,
    key: &'static str,
    value: &'static str,
}

fn entries(unit: &'static str) -> Vec<Entry> {
    let mut section = "";
    let mut found = Vec::new();
    let lines = unit.lines().filter(|line| !line.is_empty());
    for line in lines.filter(|line| !line.starts_with('#')) {
        let name = line.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Some(name) = name {
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').expect("a setting");
        found.push(Entry {
            section,
            key,
            value,
        });
    }
    found
}

/// The values of a setting.
fn values(unit: &'static str, key: &str) -> Vec<&'static str> {
    let all = entries(unit).into_iter();
    all.filter(|entry| entry.key == key)
        .map(|entry| entry.value)
        .collect()
}

/// The value of a setting that stands once.
fn value(unit: &'static str, key: &str) -> &'static str {
    let values = values(unit, key);
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0]
}

/// The variables of the unit, with this folder in the place of the credentials.
fn variables(credentials: &str) -> Vec<(String, String)> {
    let written = values(SERVICE, "Environment").into_iter();
    written
        .map(|variable| variable.split_once('=').expect("a variable"))
        .map(|(name, value)| (name.to_owned(), value.replace("%d", credentials)))
        .collect()
}

#[test]
fn systemd_knows_every_setting_of_the_units() {
    for unit in [SERVICE, SOCKET] {
        let mut seen = BTreeSet::new();
        let all = entries(unit);
        assert!(all.len() > 3, "{all:?}");
        for entry in all {
            let known = KNOWN.iter().find(|(section, _)| *section == entry.section);
            let is_known =
                known.is_some_and(|(_, keys)| keys.split_whitespace().any(|key| key == entry.key));
            assert!(is_known, "{entry:?}");
            let is_first = seen.insert(entry.key);
            assert!(is_first || LISTS.contains(&entry.key), "twice: {entry:?}");
        }
    }
}

#[test]
fn the_unit_runs_the_gateway_and_lets_it_stop() {
    let command = value(SERVICE, "ExecStart");
    // The document installs the program there.
    assert!(DOCUMENT.contains("target/release/ludgate /usr/local/bin/ludgate\n"));
    assert!(command.starts_with("/usr/local/bin/ludgate "), "{command}");
    let parsed = Cli::try_parse_from(command.split_whitespace()).expect("a command");
    let Command::Gateway(arguments) = parsed.command else {
        panic!("{command}");
    };
    let config = arguments.path().display().to_string();
    assert_eq!(config, "/etc/ludgate/ludgate.toml");
    assert_eq!(value(SERVICE, "ExecReload"), "kill -HUP $MAINPID");
    let defaults = settings::parse("", "/".as_ref(), std::iter::empty()).expect("defaults");
    let patience: u64 = value(SERVICE, "TimeoutStopSec").parse().expect("seconds");
    assert!(Duration::from_secs(patience) > defaults.stop_grace + DRAIN);
}

#[test]
fn the_gateway_reads_its_secrets_from_the_credentials() {
    let etc = tempfile::tempdir().expect("a folder");
    let credentials = tempfile::tempdir().expect("a folder");
    let key = "g7hTA+zxc+zxpZyCk+ypr97jkh4o+RmyRvAE6qEfHto=";
    for (name, content) in [("client-secret", "s3cr3t"), ("session-keys", key)] {
        let loaded = format!("{name}:/etc/ludgate/{name}");
        let loads = values(SERVICE, "LoadCredential");
        assert!(loads.contains(&&*loaded), "{loads:?}");
        fs::write(credentials.path().join(name), content).expect("written");
    }
    let texts = blocks(DOCUMENT, "toml");
    let text = [texts[0], texts[3]].join("\n");
    // The files in /etc/ludgate cannot be read by the service.
    let refused = settings::parse(&text, etc.path(), std::iter::empty());
    assert_eq!(refused.expect_err("no secrets").0.len(), 2);
    let variables = variables(&credentials.path().display().to_string());
    let settings = settings::parse(&text, etc.path(), variables.into_iter());
    let settings = settings.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let identity = settings.identity.expect("a provider");
    let secret = identity.client_secret.expect("a secret");
    assert_eq!(secret.expose(), "s3cr3t");
    let folder = format!("/var/lib/{}", value(SERVICE, "StateDirectory"));
    let file = settings.session.hand_over.expect("a file");
    assert!(file.starts_with(&folder), "{}", file.display());
    // The socket unit is for the address of this configuration.
    let address = settings.listen.address.to_string();
    assert_eq!(values(SOCKET, "ListenStream"), [address]);
}
