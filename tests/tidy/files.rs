//! The files of the project, as text.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders that are built or downloaded, skipped wherever they are.
const SKIPPED_FOLDERS: [&str; 3] = [".git", "node_modules", "target"];

/// One text of the project, its path relative to the root.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl File {
    /// Of a test's own.
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.to_owned(),
        }
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file and folder below a folder of the project, relative to the root, sorted.
pub(crate) fn everything_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        // Links are not followed: what they point to is judged where it lives, if it is ours.
        if entry.file_type()?.is_dir() {
            if SKIPPED_FOLDERS.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            found.extend(everything_below(&path)?);
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}

pub(crate) fn rust_files(folders: &[&str]) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for folder in folders {
        let paths = everything_below(Path::new(folder))?;
        for path in paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        {
            let text = fs::read_to_string(root().join(&path))?;
            files.push(File { path, text });
        }
        assert!(
            !files.is_empty(),
            "{folder} holds no Rust file: the check would check nothing"
        );
    }
    Ok(files)
}
