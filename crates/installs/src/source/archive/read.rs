//! Checks and unpacks archives.

use std::{
    cell::Cell,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};
use tokio::task::spawn_blocking;

use super::entry_name;
use crate::source::{
    chart_yaml::ChartMetadata, error::SourceError, settings::SourceLimits, version::WantedVersion,
};

/// Largest `Chart.yaml`, in bytes.
const MAX_CHART_YAML: u64 = 1 << 20;

/// What the caller wants of an archive.
#[derive(Clone, Debug)]
pub(crate) struct WantedChart {
    pub(crate) name: String,
    pub(crate) version: WantedVersion,
}

/// An unpacked chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFolder {
    /// The folder with `Chart.yaml`.
    pub path: PathBuf,
    /// The name in it.
    pub name: String,
    /// The version in it.
    pub version: String,
}

/// Checks an archive: limits, names and kinds of its entries, and whether it is the wanted chart.
///
/// # Errors
/// Permanent, if one of them is not as wanted.
pub(crate) async fn check_archive(
    archive: Vec<u8>,
    wanted: WantedChart,
    limits: &SourceLimits,
) -> Result<(Vec<u8>, ChartMetadata), SourceError> {
    let limits = limits.clone();
    let checked = spawn_blocking(move || -> Result<_, SourceError> {
        let found = read(&archive, &limits, None)?;
        check_wanted(&found, &wanted)?;
        Ok((archive, found))
    });
    finished(checked.await)
}

/// Unpacks a checked archive into a folder, which must exist. The files are below the chart's name.
///
/// # Errors
/// As for a download; also when a file cannot be written.
pub async fn unpack_chart(
    archive: &Path,
    folder: &Path,
    limits: &SourceLimits,
) -> Result<ChartFolder, SourceError> {
    let (archive, folder, limits) = (archive.to_owned(), folder.to_owned(), limits.clone());
    let unpacked = spawn_blocking(move || -> Result<_, SourceError> {
        let packed = fs::read(&archive);
        let packed = packed.map_err(|error| SourceError::local("cannot read the chart", error))?;
        let found = read(&packed, &limits, Some(&folder))?;
        Ok(ChartFolder {
            path: folder.join(&found.name),
            name: found.name,
            version: found.version,
        })
    });
    finished(unpacked.await)
}

fn finished<T>(
    result: Result<Result<T, SourceError>, tokio::task::JoinError>,
) -> Result<T, SourceError> {
    result.map_err(|error| SourceError::local("cannot read the chart's archive", error))?
}

fn check_wanted(found: &ChartMetadata, wanted: &WantedChart) -> Result<(), SourceError> {
    let version = found.parsed_version();
    if found.name == wanted.name && version.is_some_and(|it| wanted.version.matches(&it)) {
        return Ok(());
    }
    Err(SourceError::permanent(format!(
        "the archive has the chart {:?} {}, wanted is {} of {:?}",
        found.name, found.version, wanted.version, wanted.name
    )))
}

/// Reads a whole archive, and writes it below a folder if there is one. Blocks.
fn read(
    packed: &[u8],
    limits: &SourceLimits,
    folder: Option<&Path>,
) -> Result<ChartMetadata, SourceError> {
    let is_exceeded = Cell::new(false);
    let broken = |error: io::Error| match is_exceeded.get() {
        true => {
            let limit = limits.unpacked_bytes;
            SourceError::permanent(format!("the chart is larger than {limit} bytes unpacked"))
        }
        false => SourceError::permanent(format!("the chart's archive is broken: {error}")),
    };
    let unpacked = LimitedReader {
        // Go reads all members of a gzip file too, and Helm is written in Go.
        inner: MultiGzDecoder::new(packed),
        left: limits.unpacked_bytes,
        is_exceeded: &is_exceeded,
    };
    let mut archive = Archive::new(unpacked);
    let mut contents = Contents {
        folder,
        top: None,
        chart_yaml: None,
    };
    let entries = archive.entries().map_err(broken)?;
    for (count, entry) in entries.enumerate() {
        if count >= limits.entries {
            let limit = limits.entries;
            let what = format!("the chart's archive has more than {limit} entries");
            return Err(SourceError::permanent(what));
        }
        contents.add(entry.map_err(broken)?, broken)?;
    }
    contents.finish()
}

/// What was read so far.
struct Contents<'f> {
    folder: Option<&'f Path>,
    top: Option<String>,
    chart_yaml: Option<Vec<u8>>,
}

impl Contents<'_> {
    fn add<R: Read>(
        &mut self,
        mut entry: Entry<'_, R>,
        broken: impl Fn(io::Error) -> SourceError,
    ) -> Result<(), SourceError> {
        let kind = entry.header().entry_type();
        // It has attributes of all entries, such as the commit that git writes.
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let name = entry.path_bytes().into_owned();
        let parts = entry_name::parts(&name)?;
        if !kind.is_file() && !kind.is_dir() {
            let name = parts.join("/");
            let what = format!("the archive's entry {name:?} is neither a file nor a folder");
            return Err(SourceError::permanent(what));
        }
        let [top, inner @ ..] = parts.as_slice() else {
            return Ok(());
        };
        if *self.top.get_or_insert_with(|| (*top).to_owned()) != **top {
            return Err(SourceError::permanent(
                "the chart's archive has more than one folder at its top",
            ));
        }
        if kind.is_file() && inner.is_empty() {
            return Err(SourceError::permanent(
                "the chart's archive has a file at its top, not only a folder",
            ));
        }
        if kind.is_dir() {
            return self
                .folder
                .map_or(Ok(()), |folder| create(&path(folder, &parts)));
        }
        if inner == ["Chart.yaml"] {
            let mut text = Vec::new();
            let mut limited = (&mut entry).take(MAX_CHART_YAML);
            limited.read_to_end(&mut text).map_err(&broken)?;
            if let Some(folder) = self.folder {
                write(&path(folder, &parts), text.as_slice(), &broken)?;
            }
            self.chart_yaml = Some(text);
        } else if let Some(folder) = self.folder {
            write(&path(folder, &parts), &mut entry, &broken)?;
        }
        // What is left is read too, so that sizes and checksums are checked.
        io::copy(&mut entry, &mut io::sink()).map_err(broken)?;
        Ok(())
    }

    fn finish(self) -> Result<ChartMetadata, SourceError> {
        let no_chart = || SourceError::permanent("the archive has no Chart.yaml in its folder");
        let found = ChartMetadata::parse(&self.chart_yaml.ok_or_else(no_chart)?)?;
        if self.top.as_deref() != Some(found.name.as_str()) {
            let top = self.top.unwrap_or_default();
            let what = format!("the chart {:?} is in a folder {top:?}", found.name);
            return Err(SourceError::permanent(what));
        }
        Ok(found)
    }
}

fn path(folder: &Path, parts: &[&str]) -> PathBuf {
    let mut path = folder.to_owned();
    path.extend(parts);
    path
}

fn create(folder: &Path) -> Result<(), SourceError> {
    fs::create_dir_all(folder).map_err(|error| SourceError::local("cannot unpack", error))
}

/// Writes an entry. `broken` is for errors of the archive, which are not those of this machine.
fn write(
    path: &Path,
    mut content: impl Read,
    broken: impl Fn(io::Error) -> SourceError,
) -> Result<(), SourceError> {
    let failed = |error: io::Error| SourceError::local("cannot unpack", error);
    if let Some(folder) = path.parent() {
        create(folder)?;
    }
    let mut file = fs::File::create(path).map_err(failed)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = content.read(&mut buffer).map_err(&broken)?;
        let (part, _) = buffer.split_at(count);
        if part.is_empty() {
            return Ok(());
        }
        file.write_all(part).map_err(failed)?;
    }
}

/// Fails after a count of bytes.
struct LimitedReader<'c, R> {
    inner: R,
    left: u64,
    is_exceeded: &'c Cell<bool>,
}

impl<R: Read> Read for LimitedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_exceeded.set(true);
                return Err(io::Error::other("too large"));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
