//! `ludgate prepare-folder`: the first step of an app's pod, before the app itself.
//!
//! The folder is on a volume that a group's apps share. Each app may run as any user, so the folder
//! is writable for all.

use std::{
    io,
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat},
    io::Errno,
};

use super::exit_code::{DONE, FAILED};
use crate::cli::PrepareFolderArgs;

/// Every user reads, writes and lists.
const OPEN_TO_ALL: Mode = Mode::from_raw_mode(0o777);

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

/// Goes down folder by folder and follows no symlink: members of the group can write to the volume,
/// and this runs as root.
fn prepare(folder: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, ".", flags, Mode::empty())?;
    for component in folder.components() {
        let name = match component {
            Component::RootDir => Path::new("/"),
            Component::Normal(name) => Path::new(name),
            Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other("the path goes up"));
            }
        };
        match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = openat(&at, name, flags, Mode::empty())?;
    }
    // A folder that exists may belong to another user, who has opened it already.
    if Mode::from_raw_mode(fstat(&at)?.st_mode) & OPEN_TO_ALL == OPEN_TO_ALL {
        return Ok(());
    }
    Ok(fchmod(&at, OPEN_TO_ALL)?)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_symlink_is_not_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let other = root.path().join("alice");
        fs::create_dir(&other).expect("made");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).expect("closed");
        std::os::unix::fs::symlink(&other, root.path().join("lab")).expect("made");
        for folder in ["lab", "lab/below", "x/../alice"] {
            let args = PrepareFolderArgs {
                folder: root.path().join(folder),
            };
            assert_eq!(run(&args), FAILED, "{folder}");
        }
        let mode = fs::metadata(&other).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

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
