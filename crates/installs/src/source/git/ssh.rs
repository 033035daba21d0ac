//! The command with which git calls ssh, and its files.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use tokio::{fs::OpenOptions, io::AsyncWriteExt};

use super::{path_text::path_text, remote::GitRemote, request::GitRequest};
use crate::source::{
    credentials::{GitLogin, HostKeys},
    error::SourceError,
};

/// Files that ssh reads.
#[derive(Debug)]
pub(super) struct SshFiles {
    key: PathBuf,
    /// `None`: any host key is accepted.
    known_hosts: Option<PathBuf>,
}

/// Writes the key and the known host keys, readable by this user only.
///
/// # Errors
/// Permanent, if there is no key, or no host keys are known.
pub(super) async fn write_files(
    remote: &GitRemote,
    request: GitRequest<'_>,
    folder: &Path,
) -> Result<SshFiles, SourceError> {
    let GitLogin::SshKey(key) = &request.credentials.git else {
        return Err(SourceError::permanent("an ssh remote needs an SSH key"));
    };
    let known_hosts = match &request.credentials.host_keys {
        HostKeys::Unchecked => None,
        HostKeys::Known(text) => Some(text.as_str()),
        HostKeys::Configured => request.settings.known_hosts.as_deref().or(Some("")),
    };
    if known_hosts.is_some_and(|text| text.trim().is_empty()) {
        let what = format!("there are no known host keys for {:?}", remote.host);
        return Err(SourceError::permanent(what));
    }
    let files = SshFiles {
        key: folder.join("ssh-key"),
        known_hosts: known_hosts.map(|_| folder.join("known-hosts")),
    };
    write(&files.key, key.expose()).await?;
    if let (Some(path), Some(text)) = (&files.known_hosts, known_hosts) {
        write(path, text).await?;
    }
    Ok(files)
}

/// OpenSSH refuses keys that others can read, and those without a newline at the end.
async fn write(path: &Path, text: &str) -> Result<(), SourceError> {
    let failed = |error: std::io::Error| SourceError::local("cannot write a file for ssh", error);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).await.map_err(failed)?;
    let text = format!("{}\n", text.trim_end());
    file.write_all(text.as_bytes()).await.map_err(failed)?;
    file.flush().await.map_err(failed)
}

/// The command. It connects to the checked address, and looks up the host key by the name.
///
/// # Errors
/// When a path cannot be written as a text.
pub(super) fn command(
    remote: &GitRemote,
    files: &SshFiles,
    address: IpAddr,
) -> Result<String, SourceError> {
    let (checking, known_hosts) = match &files.known_hosts {
        Some(path) => ("yes", path_text(path)?),
        None => ("no", "/dev/null"),
    };
    let options = [
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        "BatchMode=yes".to_owned(),
        format!("StrictHostKeyChecking={checking}"),
        format!("UserKnownHostsFile=\"{known_hosts}\""),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        format!("HostName={address}"),
        format!("HostKeyAlias={}", host_key_name(remote)),
        "PreferredAuthentications=publickey".to_owned(),
        "ConnectTimeout=15".to_owned(),
        "ServerAliveInterval=15".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "ProxyCommand=none".to_owned(),
        "CanonicalizeHostname=no".to_owned(),
    ];
    let mut command = format!("ssh -F /dev/null -i {}", quoted(path_text(&files.key)?));
    for option in options {
        command.push_str(" -o ");
        command.push_str(&quoted(&option));
    }
    Ok(command)
}

/// The name of a server in a file of known hosts.
fn host_key_name(remote: &GitRemote) -> String {
    match remote.port {
        22 => remote.host.clone(),
        port => format!("[{}]:{port}", remote.host),
    }
}

/// git gives the command to a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::host_rules::HostRules;

    fn remote(text: &str) -> GitRemote {
        GitRemote::parse(text, &HostRules::default()).expect("a remote")
    }

    #[test]
    fn the_command_checks_host_keys_by_name_at_the_checked_address() {
        let files = SshFiles {
            key: "/t/it's/key".into(),
            known_hosts: Some("/t/known hosts".into()),
        };
        let address = "192.0.2.1".parse().expect("an address");
        let command = command(&remote("ssh://git@a.test:2222/r"), &files, address);
        let command = command.expect("a command");
        assert!(
            command.starts_with("ssh -F /dev/null -i '/t/it'\\''s/key' -o "),
            "{command}"
        );
        for option in [
            "'StrictHostKeyChecking=yes'",
            "'UserKnownHostsFile=\"/t/known hosts\"'",
            "'HostName=192.0.2.1'",
            "'HostKeyAlias=[a.test]:2222'",
            "'BatchMode=yes'",
            "'ProxyCommand=none'",
        ] {
            assert!(command.contains(option), "{option}: {command}");
        }
    }

    #[test]
    fn unchecked_host_keys_are_the_only_ones_that_are_not_checked() {
        let files = SshFiles {
            key: "/t/key".into(),
            known_hosts: None,
        };
        let address = "192.0.2.1".parse().expect("an address");
        let command = command(&remote("git@a.test:r"), &files, address).expect("a command");
        assert!(command.contains("'StrictHostKeyChecking=no'"), "{command}");
        assert!(command.contains("'HostKeyAlias=a.test'"), "{command}");
    }
}
