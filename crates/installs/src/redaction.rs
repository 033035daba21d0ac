//! Removes secrets from texts that become messages of conditions.

use std::fmt;

use ludgate_model::secret::Secret;

/// What replaces a secret.
const REPLACEMENT: &str = "[redacted]";
/// Shorter lines of a secret, such as a key, also occur in ordinary texts, in bytes.
const MIN_LINE: usize = 8;

/// The secrets of an operation or a download.
#[derive(Default)]
pub struct Redactor {
    /// The longest first: a secret may contain another one, and no rest of it may stay.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.secrets.len();
        write!(f, "Redactor({count} secrets)")
    }
}

impl Redactor {
    /// Removes these secrets, and each line of those that have several, such as keys.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Redactor {
        let mut all: Vec<Secret> = Vec::new();
        for secret in secrets {
            let text = secret.expose().trim();
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| line.len() >= MIN_LINE && *line != text);
            all.extend(lines.map(Secret::new));
            if !text.is_empty() {
                all.push(Secret::new(text));
            }
        }
        all.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Redactor { secrets: all }
    }

    /// The text without secrets, and without users and passwords in URLs.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.expose(), REPLACEMENT);
        }
        without_user_info(&text)
    }
}

/// Removes `user:password@` from every URL (RFC 3986, section 3.2.1).
fn without_user_info(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        kept.push_str(before);
        kept.push_str("://");
        let ends = |c: char| c.is_whitespace() || c.is_control() || "/?#\"'`<>".contains(c);
        let end = after.find(ends).unwrap_or(after.len());
        let (authority, following) = after.split_at(end);
        // A password may have an unescaped `@`.
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        kept.push_str(host);
        rest = following;
    }
    kept.push_str(rest);
    kept
}

/// The text with at most this many bytes.
pub fn cap(text: &str, longest: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= longest {
        return text.to_owned();
    }
    let mut end = longest.saturating_sub(MARK.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_lines_of_secrets_and_users_in_urls_are_removed() {
        let secrets = [
            "s3cret",
            "s3cret-and-more",
            "-----BEGIN KEY-----\nAAAABBBBCCCC\nDD\n-----END KEY-----\n",
            " padded \n",
            "",
        ];
        let secrets = secrets.map(Secret::new);
        let redactor = Redactor::new(&secrets);
        for (text, expected) in [
            ("no secret", "no secret"),
            ("a s3cret here", "a [redacted] here"),
            ("x=s3cret-and-more;", "x=[redacted];"),
            ("line AAAABBBBCCCC alone", "line [redacted] alone"),
            ("short DD stays", "short DD stays"),
            ("it was padded.", "it was [redacted]."),
            (
                "get https://user:p@ss@host:8443/x?a=b@c and oci://me@r/y",
                "get https://host:8443/x?a=b@c and oci://r/y",
            ),
            ("mail a@b, no URL", "mail a@b, no URL"),
            ("https://user:word", "https://user:word"),
            ("https://u:p@q@a.test?x=y@z", "https://a.test?x=y@z"),
            ("'ssh://git@a.test'", "'ssh://a.test'"),
            ("Get \"https://u:p@h\": EOF", "Get \"https://h\": EOF"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
        assert_eq!(format!("{redactor:?}"), "Redactor(7 secrets)");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cap("abc", 3), "abc");
        assert_eq!(cap("abcdefgh", 6), "abc…");
        assert_eq!(cap("aääää", 6), "aä…");
    }

    proptest! {
        #[test]
        fn no_secret_is_left(
            secret in "[a-zA-Z0-9+=]{4,40}",
            around in proptest::collection::vec("[ -~]{0,20}", 1..4),
        ) {
            prop_assume!(!REPLACEMENT.contains(&secret));
            let text = around.join(secret.as_str());
            let redacted = Redactor::new([&Secret::new(secret.as_str())]).redact(&text);
            let pieces: Vec<&str> = redacted.split(REPLACEMENT).collect();
            prop_assert!(pieces.iter().all(|piece| !piece.contains(&secret)));
        }

        #[test]
        fn a_capped_text_is_short_enough(text in "\\PC{0,60}", longest in 4..40usize) {
            prop_assert!(cap(&text, longest).len() <= longest);
        }
    }
}
