//! Files that only their owner can read.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Replaces a file. Other processes read the old content or the new one, never a part.
///
/// # Errors
/// When it cannot be written; the old file stays.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // A file that another user has prepared could have other permissions, or be a link.
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
