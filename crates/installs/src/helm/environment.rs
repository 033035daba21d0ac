//! The folder and the environment of one operation. A process inherits nothing but `PATH`.

use std::{
    ffi::{OsStr, OsString},
    fs::{DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tempfile::{Builder, TempDir};

/// How the names of the folders of operations begin.
pub const FOLDER_PREFIX: &str = "ludgate-helm-";
/// Only this program's user may read the folder.
const FOLDER_MODE: u32 = 0o700;
/// Only this program's user may read the files.
const FILE_MODE: u32 = 0o600;

/// The files of one operation. They are deleted on drop.
#[derive(Debug)]
pub struct OperationFolder {
    folder: TempDir,
}

impl OperationFolder {
    /// Makes a folder with a kubeconfig, and with values if the operation has any.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn create(
        parent: &Path,
        kubeconfig: &str,
        values: Option<&str>,
    ) -> io::Result<OperationFolder> {
        let folder = Builder::new()
            .prefix(FOLDER_PREFIX)
            .permissions(Permissions::from_mode(FOLDER_MODE))
            .tempdir_in(parent)?;
        let made = OperationFolder { folder };
        for name in ["home", "config", "cache", "data", "tmp"] {
            DirBuilder::new()
                .mode(FOLDER_MODE)
                .create(made.path(name))?;
        }
        write(&made.path("kubeconfig"), kubeconfig)?;
        if let Some(values) = values {
            write(&made.values(), values)?;
        }
        Ok(made)
    }

    /// The file with the values.
    pub fn values(&self) -> PathBuf {
        self.path("values.yaml")
    }

    /// The folder, which is where the process starts.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The whole environment of the process. `path` is its `PATH`.
    pub fn variables(&self, path: &OsStr) -> Vec<(&'static str, OsString)> {
        let files = [
            ("HOME", "home"),
            ("TMPDIR", "tmp"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_DATA_HOME", "data"),
            ("HELM_REGISTRY_CONFIG", "config/registry.json"),
            ("HELM_REPOSITORY_CONFIG", "config/repositories.yaml"),
            ("HELM_REPOSITORY_CACHE", "cache/repository"),
            ("HELM_CONTENT_CACHE", "cache/content"),
            // There is no such folder, so there are no plugins.
            ("HELM_PLUGINS", "none"),
            ("KUBECONFIG", "kubeconfig"),
        ];
        let mut variables: Vec<(&'static str, OsString)> = files
            .map(|(name, file)| (name, OsString::from(self.path(file))))
            .into();
        variables.push(("PATH", path.to_owned()));
        for (name, value) in [
            ("HELM_NO_PLUGINS", "1"),
            ("HELM_DRIVER", "secret"),
            ("NO_COLOR", "1"),
        ] {
            variables.push((name, value.into()));
        }
        variables
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.write_all(content.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn others_cannot_read_the_files_and_drop_deletes_them() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = OperationFolder::create(parent.path(), "k: 1", Some("v: 2")).expect("made");
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
        };
        assert_eq!(mode(folder.root()) & 0o777, 0o700);
        for (name, content) in [("kubeconfig", "k: 1"), ("values.yaml", "v: 2")] {
            let file = folder.path(name);
            assert_eq!(mode(&file) & 0o777, 0o600, "{name}");
            assert_eq!(fs::read_to_string(file).expect("readable"), content);
        }
        assert_eq!(mode(&folder.path("home")) & 0o777, 0o700);
        let root = folder.root().to_owned();
        drop(folder);
        assert!(!root.exists());
    }

    #[test]
    fn every_path_of_the_environment_is_in_the_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = OperationFolder::create(parent.path(), "", None).expect("made");
        assert!(!folder.values().exists());
        let variables = folder.variables(OsStr::new("/usr/bin"));
        let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "HOME",
                "TMPDIR",
                "HELM_CONFIG_HOME",
                "HELM_CACHE_HOME",
                "HELM_DATA_HOME",
                "HELM_REGISTRY_CONFIG",
                "HELM_REPOSITORY_CONFIG",
                "HELM_REPOSITORY_CACHE",
                "HELM_CONTENT_CACHE",
                "HELM_PLUGINS",
                "KUBECONFIG",
                "PATH",
                "HELM_NO_PLUGINS",
                "HELM_DRIVER",
                "NO_COLOR",
            ]
        );
        for (name, value) in &variables {
            let is_inside = Path::new(value).starts_with(folder.root());
            let is_word = ["PATH", "HELM_NO_PLUGINS", "HELM_DRIVER", "NO_COLOR"].contains(name);
            assert_eq!(is_inside, !is_word, "{name}");
        }
        assert!(!folder.path("none").exists());
    }
}
