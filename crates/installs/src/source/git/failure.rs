//! What git's messages mean.

use crate::source::error::SourceError;

/// Parts of messages, in lower case, that say that the credentials are wrong or missing.
const AUTHENTICATION: [&str; 6] = [
    "could not read username",
    "could not read password",
    "authentication failed",
    "permission denied (",
    "returned error: 401",
    "returned error: 403",
];
/// The same for failures that the next attempt may not have.
const TRANSIENT: [&str; 12] = [
    "early eof",
    "the remote end hung up",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection closed",
    "could not resolve host",
    "failed to connect",
    "operation too slow",
    "unable to access",
    "returned error: 5",
    "rpc failed",
];

/// The error for a failed process, from what it wrote to standard error. `wanted` names what was
/// asked for.
pub(super) fn from_stderr(stderr: &str, wanted: &str) -> SourceError {
    let text = stderr.to_lowercase();
    let has = |part: &str| text.contains(part);
    if let Some(message) = transport_message(stderr) {
        return SourceError::permanent(message);
    }
    if has("host key verification failed") {
        return SourceError::permanent("the host key of the git server is not a known one");
    }
    if AUTHENTICATION.into_iter().any(has) {
        return SourceError::permanent("authentication failed");
    }
    if has("couldn't find remote ref") {
        return SourceError::permanent(format!("the remote has no {wanted}"));
    }
    if has("returned error: 3") {
        return SourceError::permanent("the git server redirects, which is not followed");
    }
    if has("returned error: 404") || has("' not found") || has("does not appear to be a git") {
        return SourceError::permanent("the remote is no git repository");
    }
    // A process that writes too large a file dies of a signal, and says nothing itself.
    let has_died = has("invalid index-pack output") || has("died of signal");
    if has("file too large") || (has_died && !has("early eof") && !has("unexpected disconnect")) {
        return SourceError::permanent("the repository is too large, or has invalid objects");
    }
    if TRANSIENT.into_iter().any(has) {
        return SourceError::transient(main_line(stderr));
    }
    if has("fsck error") {
        return SourceError::permanent("the repository has invalid objects");
    }
    SourceError::transient(main_line(stderr))
}

/// `transport 'x' not allowed`, without the rest of the line.
fn transport_message(stderr: &str) -> Option<String> {
    let (_, behind) = stderr.split_once("transport '")?;
    let (name, behind) = behind.split_once('\'')?;
    let is_refusal = behind.starts_with(" not allowed");
    is_refusal.then(|| format!("transport '{name}' not allowed"))
}

/// The first line of git itself, else the first line.
fn main_line(stderr: &str) -> String {
    let lines = || {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let own = lines().find_map(|line| {
        let fatal = line.strip_prefix("fatal: ");
        fatal.or_else(|| line.strip_prefix("error: "))
    });
    let line = own
        .or_else(|| lines().next())
        .unwrap_or("it gave no reason");
    format!("git failed: {line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::error::SourceErrorClass::{Permanent, Transient};

    #[test]
    fn messages_become_short_and_say_whether_another_attempt_can_help() {
        let hung_up = "error: RPC failed; curl 56 Recv failure\nfatal: early EOF\n\
                       fatal: fetch-pack: invalid index-pack output";
        for (stderr, class, wanted) in [
            (
                "fatal: could not read Username for 'https://a.test': terminal prompts disabled",
                Permanent,
                "authentication failed",
            ),
            (
                "remote: Invalid\nfatal: Authentication failed for 'https://a.test/r/'",
                Permanent,
                "authentication failed",
            ),
            (
                "git@a.test: Permission denied (publickey).\nfatal: Could not read from remote",
                Permanent,
                "authentication failed",
            ),
            (
                "fatal: transport 'file' not allowed",
                Permanent,
                "transport 'file' not allowed",
            ),
            (
                "No ED25519 host key is known for a.test and you have requested strict checking.\n\
                 Host key verification failed.\nfatal: Could not read from remote repository.",
                Permanent,
                "the host key of the git server is not a known one",
            ),
            (
                "fatal: couldn't find remote ref refs/heads/b",
                Permanent,
                "the remote has no branch \"b\"",
            ),
            (
                "fatal: unable to access 'http://a.test/r/': The requested URL returned error: 302",
                Permanent,
                "the git server redirects, which is not followed",
            ),
            (
                "fatal: repository 'https://a.test/r/' not found",
                Permanent,
                "the remote is no git repository",
            ),
            (
                "fatal: unable to access 'https://a.test/r/': \
                 The requested URL returned error: 503",
                Transient,
                "git failed: unable to access 'https://a.test/r/': \
                 The requested URL returned error: 503",
            ),
            (
                "ssh: connect to host 127.0.0.1 port 9: Connection refused\n\
                 fatal: Could not read from remote repository.",
                Transient,
                "git failed: Could not read from remote repository.",
            ),
            (
                hung_up,
                Transient,
                "git failed: RPC failed; curl 56 Recv failure",
            ),
            (
                "fatal: fetch-pack: invalid index-pack output",
                Permanent,
                "the repository is too large, or has invalid objects",
            ),
            (
                "error: object 12: hasDotdot: contains '..'\nfatal: fsck error in packed object",
                Permanent,
                "the repository has invalid objects",
            ),
            ("", Transient, "git failed: it gave no reason"),
            ("something else\n", Transient, "git failed: something else"),
        ] {
            let error = from_stderr(stderr, "branch \"b\"");
            assert_eq!(
                (error.class(), error.message()),
                (class, wanted),
                "{stderr}"
            );
        }
    }
}
