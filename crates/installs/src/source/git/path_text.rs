//! Paths in variables and arguments.

use std::path::Path;

use crate::source::error::SourceError;

/// A path as a text.
///
/// # Errors
/// When it is not UTF-8.
pub(super) fn path_text(path: &Path) -> Result<&str, SourceError> {
    let text = path.to_str();
    text.ok_or_else(|| SourceError::local("cannot use the temporary folder", path.display()))
}
