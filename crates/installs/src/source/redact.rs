//! Removes secrets from texts that become messages.

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_model::secret::Secret;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    credentials::{Credentials, GitLogin, HelmLogin},
    registry_config::RegistryConfig,
};

/// Longest message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";
/// Shorter lines of a key occur in ordinary texts.
const MIN_KEY_LINE: usize = 16;

/// The texts of some credentials that no message may have.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    /// The longest first, so that no rest of one stays.
    secrets: Vec<Secret>,
}

impl Redaction {
    /// What these credentials must not leave in a message.
    pub(crate) fn new(credentials: &Credentials) -> Redaction {
        let mut redaction = Redaction::default();
        match &credentials.helm {
            HelmLogin::Anonymous => {}
            HelmLogin::Password { username, password } => {
                redaction.add_pair(username.expose(), password.expose());
            }
            HelmLogin::RegistryConfig(json) => redaction.add_config(json),
        }
        match &credentials.git {
            GitLogin::Anonymous => {}
            GitLogin::Password { username, password } => {
                redaction.add_pair(username.expose(), password.expose());
            }
            GitLogin::Token(token) => redaction.add(token.expose()),
            GitLogin::SshKey(key) => {
                redaction.add(key.expose());
                let lines = key.expose().lines().map(str::trim);
                for line in lines.filter(|line| line.len() >= MIN_KEY_LINE) {
                    redaction.add(line);
                }
            }
        }
        let longest_first = |secret: &Secret| std::cmp::Reverse(secret.expose().len());
        redaction.secrets.sort_by_key(longest_first);
        redaction
    }

    /// The text on one line, without secrets and without users in URLs, at most 1 KiB.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.expose(), REDACTED);
        }
        let text = without_users(&text);
        let words: Vec<&str> = text
            .split(|c: char| c.is_control() || c == ' ')
            .filter(|word| !word.is_empty())
            .collect();
        shortened(words.join(" "))
    }

    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        if encoded != text {
            self.secrets.push(Secret::new(encoded));
        }
        self.secrets.push(Secret::new(STANDARD.encode(text)));
        self.secrets.push(Secret::new(text));
    }

    fn add_pair(&mut self, username: &str, password: &str) {
        self.add(username);
        self.add(password);
        self.add(&format!("{username}:{password}"));
    }

    fn add_config(&mut self, json: &Secret) {
        self.add(json.expose());
        // One that cannot be read is never sent.
        let Ok(config) = RegistryConfig::parse(json.expose().as_bytes()) else {
            return;
        };
        for pair in config.pairs() {
            if let Some((username, password)) = pair.expose().split_once(':') {
                self.add_pair(username, password);
            }
        }
    }
}

/// Removes `user:password@` from all URLs of a text.
fn without_users(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let is_end = |c: char| c.is_whitespace() || c.is_control() || "/?#'\"<>".contains(c);
        let end = after.find(is_end).unwrap_or(after.len());
        let (authority, behind) = after.split_at(end);
        clean.push_str(authority.rsplit('@').next().unwrap_or_default());
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

fn shortened(text: String) -> String {
    const MARK: &str = " ...";
    if text.len() <= MAX_MESSAGE {
        return text;
    }
    let mut end = MAX_MESSAGE - MARK.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (start, _) = text.split_at(end);
    format!("{start}{MARK}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn password(username: &str, password: &str) -> Redaction {
        Redaction::new(&Credentials {
            helm: HelmLogin::Password {
                username: Secret::new(username),
                password: Secret::new(password),
            },
            ..Credentials::default()
        })
    }

    #[test]
    fn users_of_urls_are_removed() {
        let redaction = Redaction::default();
        for (text, wanted) in [
            (
                "get https://u:p@a.test/x failed",
                "get https://a.test/x failed",
            ),
            ("'ssh://git@a.test'", "'ssh://a.test'"),
            ("https://u:p@q@a.test?x=y@z", "https://a.test?x=y@z"),
            ("https://a.test/user@b", "https://a.test/user@b"),
            ("no url, a@b", "no url, a@b"),
            ("two\nlines\t\u{7}here", "two lines here"),
        ] {
            assert_eq!(redaction.apply(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn every_form_of_a_password_is_removed() {
        let redaction = password("robot", "s3cret/+?");
        for text in [
            "the password s3cret/+? was refused",
            "sent Basic cm9ib3Q6czNjcmV0Lys/",
            "https://h.test/?p=s3cret%2F%2B%3F",
            "base64 czNjcmV0Lys/",
            "user robot",
        ] {
            let clean = redaction.apply(text);
            assert!(clean.contains(REDACTED), "{clean}");
            for secret in ["s3cret", "cm9ib3Q6", "czNj", "robot"] {
                assert!(!clean.contains(secret), "{clean}");
            }
        }
    }

    #[test]
    fn keys_tokens_and_configurations_are_removed() {
        let key = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END KEY-----\n";
        let config = r#"{"auths": {"a.test": {"auth": "dXNlcjpjYW5hcnk="}}}"#;
        let redaction = Redaction::new(&Credentials {
            helm: HelmLogin::RegistryConfig(Secret::new(config)),
            git: GitLogin::SshKey(Secret::new(key)),
            ..Credentials::default()
        });
        let clean = redaction.apply("b3BlbnNzaC1rZXktdjEAAAAA dXNlcjpjYW5hcnk= canary");
        assert_eq!(clean, "[redacted] [redacted] [redacted]");
        let redaction = Redaction::new(&Credentials {
            git: GitLogin::Token(Secret::new("ghp_abc")),
            ..Credentials::default()
        });
        assert_eq!(redaction.apply("Bearer ghp_abc."), "Bearer [redacted].");
    }

    #[test]
    fn a_message_has_at_most_one_kibibyte() {
        let long = "ä".repeat(2000);
        let short = Redaction::default().apply(&long);
        assert!(
            short.len() <= MAX_MESSAGE && short.ends_with(" ..."),
            "{short}"
        );
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_password(before in "[ -~]{0,40}", behind in "[ -~]{0,40}") {
            let secret = "Zq7-canary-Zq7";
            let clean = password("u", secret).apply(&format!("{before}{secret}{behind}"));
            prop_assert!(!clean.contains(secret), "{clean}");
        }
    }
}
