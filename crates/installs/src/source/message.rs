//! Messages of failed downloads, without the credentials of the source.

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_model::secret::Secret;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    credentials::{Credentials, GitLogin, HelmLogin},
    registry_config,
};
use crate::{
    conditions::MAX_MESSAGE,
    redaction::{Redactor, cap},
};

/// The text on one line, without credentials and without users in URLs, at most 1 KiB.
pub(crate) fn clean_message(text: &str, credentials: &Credentials) -> String {
    let secrets = ExposedForms::from_credentials(credentials).0;
    let text = Redactor::new(&secrets).redact(text);
    let words: Vec<&str> = text
        .split(|c: char| c.is_control() || c == ' ')
        .filter(|word| !word.is_empty())
        .collect();
    cap(&words.join(" "), MAX_MESSAGE)
}

/// Secrets in each form in which a server or git may quote them.
#[derive(Default)]
struct ExposedForms(Vec<Secret>);

impl ExposedForms {
    fn from_credentials(credentials: &Credentials) -> ExposedForms {
        let mut forms = ExposedForms::default();
        match &credentials.helm {
            HelmLogin::Anonymous => {}
            HelmLogin::Password { username, password } => {
                forms.add_pair(username.expose(), password.expose());
            }
            HelmLogin::RegistryConfig(json) => forms.add_config(json),
        }
        match &credentials.git {
            GitLogin::Anonymous => {}
            GitLogin::Password { username, password } => {
                forms.add_pair(username.expose(), password.expose());
            }
            GitLogin::Token(secret) | GitLogin::SshKey(secret) => forms.add(secret.expose()),
        }
        forms
    }

    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        if encoded != text {
            self.0.push(Secret::new(encoded));
        }
        self.0.push(Secret::new(STANDARD.encode(text)));
        self.0.push(Secret::new(text));
    }

    fn add_pair(&mut self, username: &str, password: &str) {
        self.add(username);
        self.add(password);
        self.add(&format!("{username}:{password}"));
    }

    fn add_config(&mut self, json: &Secret) {
        self.add(json.expose());
        // A configuration that cannot be read is never sent.
        let Ok(config) = registry_config::parse(json) else {
            return;
        };
        for pair in config.pairs() {
            if let Some((username, password)) = pair.expose().split_once(':') {
                self.add_pair(username, password);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn password(username: &str, password: &str) -> Credentials {
        Credentials {
            helm: HelmLogin::Password {
                username: Secret::new(username),
                password: Secret::new(password),
            },
            ..Credentials::default()
        }
    }

    #[test]
    fn a_message_has_one_line_and_no_user_in_a_url() {
        let anonymous = Credentials::default();
        for (text, wanted) in [
            (
                "get https://u:p@a.test/x failed",
                "get https://a.test/x failed",
            ),
            ("two\nlines\t\u{7}here", "two lines here"),
        ] {
            assert_eq!(clean_message(text, &anonymous), wanted, "{text:?}");
        }
    }

    #[test]
    fn every_form_of_a_password_is_removed() {
        let credentials = password("robot", "s3cret/+?");
        for text in [
            "the password s3cret/+? was refused",
            "sent Basic cm9ib3Q6czNjcmV0Lys/",
            "https://h.test/?p=s3cret%2F%2B%3F",
            "base64 czNjcmV0Lys/",
            "user robot",
        ] {
            let clean = clean_message(text, &credentials);
            assert!(clean.contains("[redacted]"), "{clean}");
            for secret in ["s3cret", "cm9ib3Q6", "czNj", "robot"] {
                assert!(!clean.contains(secret), "{clean}");
            }
        }
    }

    #[test]
    fn keys_tokens_and_configurations_are_removed() {
        let key = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END KEY-----\n";
        let config = r#"{"auths": {"a.test": {"auth": "dXNlcjpjYW5hcnk="}}}"#;
        let credentials = Credentials {
            helm: HelmLogin::RegistryConfig(Secret::new(config)),
            git: GitLogin::SshKey(Secret::new(key)),
            ..Credentials::default()
        };
        let text = "b3BlbnNzaC1rZXktdjEAAAAA dXNlcjpjYW5hcnk= canary";
        let clean = clean_message(text, &credentials);
        assert_eq!(clean, "[redacted] [redacted] [redacted]");
        let credentials = Credentials {
            git: GitLogin::Token(Secret::new("ghp_abc")),
            ..Credentials::default()
        };
        let clean = clean_message("Bearer ghp_abc.", &credentials);
        assert_eq!(clean, "Bearer [redacted].");
    }

    #[test]
    fn a_message_has_at_most_one_kibibyte() {
        let short = clean_message(&"ä".repeat(2000), &Credentials::default());
        assert!(
            short.len() <= MAX_MESSAGE && short.ends_with('…'),
            "{short}"
        );
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_password(before in "[ -~]{0,40}", behind in "[ -~]{0,40}") {
            let secret = "Zq7-canary-Zq7";
            let text = format!("{before}{secret}{behind}");
            let clean = clean_message(&text, &password("u", secret));
            prop_assert!(!clean.contains(secret), "{clean}");
        }
    }
}
