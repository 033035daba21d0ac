//! `ludgate config import-oauth2-proxy`.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use super::exit_code::{BAD_CONFIGURATION, DONE, FAILED};
use crate::{
    cli::ImportOauth2ProxyArgs,
    import::{self, ImportSource},
};

/// Runs the command, and returns the exit code.
pub(super) fn run(args: &ImportOauth2ProxyArgs) -> u8 {
    let mut sources = Vec::new();
    for file in &args.files {
        match read(file) {
            Ok(content) => sources.push(ImportSource {
                name: file.display().to_string(),
                content,
            }),
            Err(error) => {
                eprintln!("{}: cannot be read: {error}", file.display());
                return BAD_CONFIGURATION;
            }
        }
    }
    let imported = match import::import_oauth2_proxy(&sources, |path| read_emails(args, path)) {
        Ok(imported) => imported,
        Err(errors) => {
            eprintln!("{errors}");
            return BAD_CONFIGURATION;
        }
    };
    eprintln!("{}", imported.report);
    if let Err(error) = io::stdout().write_all(imported.file.as_bytes()) {
        eprintln!("the configuration cannot be written: {error}");
        return FAILED;
    }
    match imported.report.is_complete() || args.partial {
        true => DONE,
        false => BAD_CONFIGURATION,
    }
}

/// The content of a file, of which no more is read than may be imported.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(import::MAX_INPUT).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    let file = File::open(path)?;
    // One byte more shows that the file is too large.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    Ok(content)
}

/// The file with addresses: as it is written, or next to one of the inputs.
fn read_emails(args: &ImportOauth2ProxyArgs, written: &str) -> Option<String> {
    let folders = args.files.iter().filter_map(|file| file.parent());
    let mut candidates = folders
        .map(|folder| folder.join(written))
        .chain([PathBuf::from(written)]);
    let content = candidates.find_map(|path| read(&path).ok())?;
    if content.len() > import::MAX_INPUT {
        return None;
    }
    String::from_utf8(content).ok()
}
