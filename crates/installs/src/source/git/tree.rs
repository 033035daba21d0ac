//! Folders of a commit: checked as a list, then written file by file.

use std::{io, path::Path};

use tokio::fs;

use super::{environment::GitEnvironment, failure, objects::ObjectReader, process};
use crate::source::{error::SourceError, repository_path::RepositoryPath, settings::SourceLimits};

/// Longest list of files, in bytes.
const MAX_LIST: usize = 16 << 20;

/// What may still be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteLimits {
    bytes: u64,
    files: usize,
}

impl WriteLimits {
    pub(super) fn new(limits: &SourceLimits) -> WriteLimits {
        WriteLimits {
            bytes: limits.unpacked_bytes,
            files: limits.entries,
        }
    }

    /// Counts files before they are read.
    fn count(&mut self, files: &[TreeFile]) -> Result<(), SourceError> {
        let bytes = files
            .iter()
            .fold(0_u64, |sum, file| sum.saturating_add(file.size));
        let left = (
            self.bytes.checked_sub(bytes),
            self.files.checked_sub(files.len()),
        );
        let (Some(bytes), Some(files)) = left else {
            return Err(SourceError::permanent(
                "the chart's folder has too many or too large files",
            ));
        };
        *self = WriteLimits { bytes, files };
        Ok(())
    }
}

/// Writes folders of a commit.
#[derive(Debug)]
pub(super) struct TreeWriter<'w> {
    pub(super) environment: &'w GitEnvironment,
    pub(super) commit: &'w str,
}

impl TreeWriter<'_> {
    /// Writes a folder below `root`, at its path in the repository.
    pub(super) async fn write(
        &self,
        path: &RepositoryPath,
        root: &Path,
        left: &mut WriteLimits,
    ) -> Result<(), SourceError> {
        let files = files_of(&self.list(path).await?, path)?;
        left.count(&files)?;
        let failed = |error: io::Error| SourceError::local("cannot write the chart", error);
        let mut objects = ObjectReader::start(self.environment)?;
        for file in files {
            let content = objects.read(&file.id, file.size).await?;
            let target = file.path.below(root);
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).await.map_err(failed)?;
            }
            fs::write(target, content).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn list(&self, path: &RepositoryPath) -> Result<Vec<u8>, SourceError> {
        let folder = path.to_string();
        let mut arguments = vec!["ls-tree", "-r", "-z", "-l", self.commit];
        if !path.is_root() {
            arguments.extend(["--", &folder]);
        }
        let listed = process::run(self.environment, &arguments, MAX_LIST).await?;
        match listed.is_success {
            true => Ok(listed.stdout),
            false => Err(failure::from_stderr(&listed.stderr, "commit")),
        }
    }
}

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TreeFile {
    id: String,
    size: u64,
    path: RepositoryPath,
}

/// The files of a list. Links and submodules are refused.
fn files_of(list: &[u8], folder: &RepositoryPath) -> Result<Vec<TreeFile>, SourceError> {
    let invalid = || SourceError::permanent("git's list of files is not as expected");
    let list = std::str::from_utf8(list)
        .map_err(|_| SourceError::permanent("a file's name is not UTF-8"))?;
    let mut files = Vec::new();
    for line in list.split('\0').filter(|line| !line.is_empty()) {
        let (attributes, name) = line.split_once('\t').ok_or_else(invalid)?;
        let attributes: Vec<&str> = attributes.split_ascii_whitespace().collect();
        let [mode, _, id, size] = attributes.as_slice() else {
            return Err(invalid());
        };
        let path = RepositoryPath::parse(name)?;
        let what = match *mode {
            "100644" | "100755" => None,
            "120000" => Some("is a symbolic link"),
            "160000" => Some("is a submodule"),
            _ => Some("is neither a file nor a folder"),
        };
        if let Some(what) = what {
            return Err(SourceError::permanent(format!(
                "{name:?} {what}, which is not allowed"
            )));
        }
        if path == *folder {
            return Err(SourceError::permanent(format!(
                "the path {name:?} is not a folder"
            )));
        }
        files.push(TreeFile {
            id: (*id).to_owned(),
            size: size.parse().map_err(|_| invalid())?,
            path,
        });
    }
    match files.is_empty() {
        true => Err(SourceError::permanent(format!(
            "the repository has no folder {:?} in this commit",
            folder.to_string()
        ))),
        false => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "61780798228d17af2d34fce4cfbdf35556832472";

    fn found(lines: &[&str], folder: &str) -> Result<Vec<TreeFile>, SourceError> {
        let list: String = lines.iter().map(|line| format!("{line}\0")).collect();
        files_of(
            list.as_bytes(),
            &RepositoryPath::parse(folder).expect("a path"),
        )
    }

    #[test]
    fn files_have_ids_sizes_and_paths() {
        let first = format!("100644 blob {ID}       2\tsub/b c");
        let second = format!("100755 blob {ID}    1234\tsub/d/\u{fc}");
        let files = found(&[&first, &second], "sub").expect("files");
        let shown: Vec<(u64, String)> = files
            .into_iter()
            .map(|file| {
                assert_eq!(file.id, ID);
                (file.size, file.path.to_string())
            })
            .collect();
        let wanted = [(2, "sub/b c".to_owned()), (1234, "sub/d/\u{fc}".to_owned())];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn links_submodules_and_missing_folders_are_refused() {
        for (line, folder, wanted) in [
            (
                "120000 blob ID      11\tsub/l",
                "sub",
                "\"sub/l\" is a symbolic link",
            ),
            (
                "160000 commit ID       -\tsub/m",
                "",
                "\"sub/m\" is a submodule",
            ),
            (
                "040000 tree ID       -\tsub",
                "",
                "neither a file nor a folder",
            ),
            ("100644 blob ID       2\tsub", "sub", "is not a folder"),
            ("100644 blob ID       2\t../x", "", "must not have \"..\""),
            ("100644 blob ID       -\tx", "", "not as expected"),
            ("100644 blob ID\tx", "", "not as expected"),
            ("100644", "", "not as expected"),
            ("", "sub", "has no folder \"sub\""),
        ] {
            let error = found(&[&line.replace("ID", ID)], folder).expect_err("refused");
            assert!(error.message().contains(wanted), "{error}");
        }
        assert!(files_of(b"100644 blob x 1\t\xff\0", &RepositoryPath::default()).is_err());
    }

    #[test]
    fn files_are_counted_over_all_folders() {
        let mut left = WriteLimits {
            bytes: 10,
            files: 3,
        };
        let file = |size| TreeFile {
            id: ID.to_owned(),
            size,
            path: RepositoryPath::default(),
        };
        assert_eq!(left.count(&[file(4), file(5)]), Ok(()));
        assert_eq!(left, WriteLimits { bytes: 1, files: 1 });
        assert!(left.clone().count(&[file(2)]).is_err());
        assert!(
            left.clone()
                .count(&[file(u64::MAX), file(u64::MAX)])
                .is_err()
        );
        assert!(left.clone().count(&[file(0), file(0)]).is_err());
        assert_eq!(left.count(&[file(1)]), Ok(()));
    }
}
