//! `[tokens]`: where service tokens are stored.

use std::path::Path;

use super::file::ConfigFile;
use crate::{identity::service_tokens::ServiceTokenSettings, session::SessionSettings};

/// Reads the table. `Some(None)`: there are no service tokens. `None` only together with an error.
pub(super) fn service_tokens(
    file: &ConfigFile<'_>,
    session: &SessionSettings,
    folder: &Path,
) -> Option<Option<ServiceTokenSettings>> {
    if !file.has("tokens") {
        return Some(None);
    }
    let section = file.section("tokens");
    let path = section.text("file").map(|file| folder.join(file));
    match (path, section.text("store").as_deref()) {
        (Some(_), Some(_)) => {
            section.wrong("store", "and file are both given", None);
            None
        }
        (Some(path), None) => Some(Some(ServiceTokenSettings::File(path))),
        (None, Some("session")) if session.store.is_none() => {
            section.wrong("store", "needs session.store, and that it is Redis", None);
            None
        }
        (None, Some("session")) => Some(Some(ServiceTokenSettings::SessionStore)),
        (None, Some(other)) => {
            let example = Some("store = \"session\"".to_owned());
            section.wrong("store", format!("{other:?} is no store of tokens"), example);
            None
        }
        (None, None) => {
            section.missing("file");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    fn read(text: &str) -> Result<Option<ServiceTokenSettings>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let key: Vec<u8> = (0..32u8).map(|n| n.wrapping_mul(37)).collect();
        let key = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key);
        std::fs::write(folder.path().join("keys"), key).expect("written");
        let parsed = settings::parse(text, folder.path(), std::iter::empty());
        let settings = parsed.map_err(|errors| errors.to_string())?;
        Ok(settings.service_tokens)
    }

    #[test]
    fn tokens_are_in_one_place_that_exists() {
        assert!(matches!(read(""), Ok(None)));
        let in_file = read("[tokens]\nfile = \"tokens.json\"\n");
        assert!(
            matches!(&in_file, Ok(Some(ServiceTokenSettings::File(path))) if path.ends_with("tokens.json")),
            "{in_file:?}"
        );
        let redis = "[session]\nstore = \"redis://127.0.0.1:6379\"\nkeys_file = \"keys\"\n";
        let in_redis = read(&format!("{redis}[tokens]\nstore = \"session\"\n"));
        assert!(
            matches!(&in_redis, Ok(Some(ServiceTokenSettings::SessionStore))),
            "{in_redis:?}"
        );
        for (text, wanted) in [
            ("[tokens]\n", "tokens.file: is required"),
            ("[tokens]\nstore = \"session\"\n", "needs session.store"),
            ("[tokens]\nstore = \"memory\"\n", "is no store of tokens"),
            (
                "[tokens]\nstore = \"session\"\nfile = \"t\"\n",
                "are both given",
            ),
        ] {
            let errors = read(text).expect_err(text);
            assert!(errors.contains(wanted), "{text}: {errors}");
        }
    }
}
