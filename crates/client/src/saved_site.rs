//! Site and token between commands, in a file that only its owner can read.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use ludgate_model::{secret::Secret, site::WebOrigin};
use ludgate_ops::private_file;
use serde::{Deserialize, Serialize};

/// What is remembered.
#[derive(Clone, Debug)]
pub struct SavedSite {
    /// The site.
    pub site: WebOrigin,
    /// The person's token.
    pub token: Secret,
}

/// The content of the file.
#[derive(Deserialize, Serialize)]
struct SavedFile {
    site: String,
    token: String,
}

/// Where it is remembered: `ludgate/site.json` in `$XDG_CONFIG_HOME` or in `~/.config`. `None`
/// without a home folder.
pub fn default_path() -> Option<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let config =
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(config.join("ludgate").join("site.json"))
}

impl SavedSite {
    /// What is in the file; `None` if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or was damaged.
    pub fn load(path: &Path) -> io::Result<Option<SavedSite>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let file: SavedFile = serde_json::from_str(&text)?;
        let site = WebOrigin::parse(&file.site)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(SavedSite {
            site,
            token: Secret::new(file.token),
        }))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let file = SavedFile {
            site: self.site.to_string(),
            token: self.token.expose().to_owned(),
        };
        private_file::replace(path, &serde_json::to_vec(&file)?)
    }
}

/// Forgets site and token. Returns whether there was something to forget.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_kept_for_its_owner_alone_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep").join("site.json");
        assert!(SavedSite::load(&path).expect("no file").is_none());
        for token in ["first", "second"] {
            let site = WebOrigin::parse("https://hub.example.com").expect("a site");
            let token = Secret::new(token);
            SavedSite { site, token }.save(&path).expect("written");
        }
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let saved = SavedSite::load(&path).expect("readable").expect("a file");
        assert_eq!(saved.token.expose(), "second");
        assert_eq!(saved.site.text.as_ref(), "https://hub.example.com");
        let files = fs::read_dir(path.parent().expect("a folder")).expect("a folder");
        assert_eq!(files.count(), 1, "no other file is left");
        assert!(forget(&path).expect("removed"));
        assert!(!forget(&path).expect("gone already"));
        fs::write(&path, "{\"site\":\"http://other\",\"token\":\"x\"}").expect("written");
        assert!(SavedSite::load(&path).is_err(), "a token for clear text");
    }
}
