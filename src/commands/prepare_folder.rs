//! `ludgate prepare-folder`: the first step of an app's pod, before the app itself.
//!
//! The folder is on a volume that a group's apps share. Each app may run as any user, so the folder
//! is writable for all.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use super::exit_code::{DONE, FAILED};
use crate::cli::PrepareFolderArgs;

/// Runs the command, and returns the exit code.
pub fn run(args: &PrepareFolderArgs) -> u8 {
    match prepare(&args.folder) {
        Ok(()) => DONE,
        Err(error) => {
            // The pod shows it as the reason why it does not start.
            eprintln!("cannot prepare {}: {error}", args.folder.display());
            FAILED
        }
    }
}

fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let is_open = fs::metadata(folder)?.permissions().mode() & 0o777 == 0o777;
    // A folder that exists may belong to another user, who may have opened it already.
    if is_open {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_there_afterwards_and_open_to_all() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("phapplications/lab");
        for _ in 0..2 {
            let args = PrepareFolderArgs {
                folder: folder.clone(),
            };
            assert_eq!(run(&args), DONE);
        }
        let mode = fs::metadata(&folder).expect("made").permissions().mode();
        assert_eq!(mode & 0o777, 0o777);
        fs::write(root.path().join("file"), "").expect("written");
        let below_a_file = PrepareFolderArgs {
            folder: root.path().join("file/lab"),
        };
        assert_eq!(run(&below_a_file), FAILED);
    }
}
