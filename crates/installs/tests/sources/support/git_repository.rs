//! Repositories of git with charts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{charts::example_files, command::git};

/// A repository with a work tree.
pub(crate) struct GitRepository {
    folder: TempDir,
}

impl GitRepository {
    /// An empty one with the branch `main`. It is called `charts`.
    pub(crate) fn new() -> GitRepository {
        let folder = tempfile::tempdir().expect("a folder");
        git(folder.path(), &["init", "-q", "-b", "main", "charts"]);
        GitRepository { folder }
    }

    /// The folder above the repository, which servers serve.
    pub(crate) fn served(&self) -> &Path {
        self.folder.path()
    }

    /// The repository itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("charts")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.path(), arguments)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    /// Writes a chart into a folder of the repository; an empty folder is the root.
    pub(crate) fn write_chart(&self, folder: &str, name: &str, version: &str) {
        for (file, content) in example_files(name, version) {
            let path = format!("{folder}/{file}");
            self.write(path.trim_start_matches('/'), &content);
        }
    }

    /// Commits all files, and returns the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }
}
