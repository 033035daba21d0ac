//! `identity.assertion_keys`: the keys that sign identities for apps, and the apps that get them.

use std::{path::Path, sync::Arc};

use super::{file::ConfigFile, section::ConfigSection};
use crate::identity::assertion::AssertionKeys;

const KEY: &str = "assertion_keys";

/// Whether the file names keys.
pub(super) fn are_configured(file: &ConfigFile<'_>) -> bool {
    file.has("identity") && file.section("identity").has(KEY)
}

/// Loads the keys. `None` only together with an error.
pub(super) fn assertion_keys(
    section: &ConfigSection<'_>,
    folder: &Path,
) -> Option<Option<Arc<AssertionKeys>>> {
    if !section.has(KEY) {
        return Some(None);
    }
    let suggestion = || {
        let command = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE";
        Some(format!("make one with: {command}"))
    };
    let files = section.texts(KEY)?;
    if files.is_empty() {
        section.wrong(KEY, "must name a file", suggestion());
        return None;
    }
    let files = files.iter().map(|file| folder.join(file)).collect();
    let keys = AssertionKeys::from_files(files);
    keys.map(|keys| Some(Arc::new(keys)))
        .map_err(|error| section.wrong(KEY, error.to_string(), suggestion()))
        .ok()
}

/// Whether the key `assertion` of a table is on. Without keys that is an error: the apps would wait
/// for identities that are never signed.
pub(super) fn is_on(file: &ConfigFile<'_>, section: &ConfigSection<'_>) -> bool {
    let is_on = section.switch("assertion").unwrap_or(false);
    if is_on && !are_configured(file) {
        let example = "for example assertion_keys = [\"assertion-key.pem\"] in [identity]";
        section.wrong(
            "assertion",
            "needs identity.assertion_keys, which sign the identity",
            Some(example.to_owned()),
        );
    }
    is_on
}

#[cfg(test)]
mod tests {
    use crate::settings;

    const SITE: &str = "[identity]\nissuer = \"https://login.example.com\"\nclient_id = \"x\"\n";
    const APP: &str =
        "[[apps]]\nid = \"a\"\nupstream = \"http://127.0.0.1:1\"\naccess = \"user\"\n";

    /// The errors of a file, beside which `key.pem` has this content.
    fn errors(text: &str, key: &str) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("key.pem"), key).expect("written");
        let read = settings::parse(text, folder.path(), std::iter::empty());
        let errors = read.err().map(|errors| errors.0).unwrap_or_default();
        let shown = |error: settings::ConfigError| (error.key, error.what);
        errors.into_iter().map(shown).collect()
    }

    fn key() -> String {
        use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        pair.serialize_pem()
    }

    #[test]
    fn an_app_with_assertions_needs_keys() {
        let app = format!("{APP}assertion = true\n");
        let keys = "assertion_keys = [\"key.pem\"]\n";
        for app in [&*app, APP] {
            let errors = errors(&format!("{SITE}{keys}{app}"), &key());
            assert!(errors.is_empty(), "{errors:?}");
        }
        for text in [app.clone(), format!("{SITE}{app}")] {
            let errors = errors(&text, &key());
            assert_eq!(errors.len(), 1, "{errors:?}");
            let (key, what) = &errors[0];
            assert_eq!(key, "apps[0].assertion");
            assert!(what.contains("needs identity.assertion_keys"), "{what}");
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_errors() {
        for (keys, content, expected) in [
            ("[]", "", "must name a file"),
            ("[\"missing.pem\"]", "", "cannot be read"),
            ("[\"key.pem\"]", "x", "no unencrypted PEM private key"),
            ("\"key.pem\"", "", "expected a list of texts"),
        ] {
            let text = format!("{SITE}assertion_keys = {keys}\n");
            let errors = errors(&text, content);
            assert_eq!(errors.len(), 1, "{errors:?}");
            let (key, what) = &errors[0];
            assert_eq!(key, "identity.assertion_keys");
            assert!(what.contains(expected), "{what}");
        }
    }
}
