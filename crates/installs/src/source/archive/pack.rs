//! Packs the folder of a chart, so that the same content gives the same bytes.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};
use tokio::task::spawn_blocking;

use super::ignore::IgnoreRules;
use crate::source::{chart_yaml::ChartMetadata, error::SourceError, settings::SourceLimits};

/// Packs a folder with a `Chart.yaml`, without the files that its `.helmignore` names: names
/// sorted, without times and owners.
///
/// # Errors
/// Permanent if it is no chart or exceeds a limit; transient if it cannot be read.
pub(crate) async fn pack_folder(
    folder: &Path,
    limits: &SourceLimits,
) -> Result<(Vec<u8>, ChartMetadata), SourceError> {
    let (folder, limits) = (folder.to_owned(), limits.clone());
    let packed = spawn_blocking(move || pack(&folder, &limits)).await;
    packed.map_err(|error| SourceError::local("cannot pack the chart", error))?
}

/// Blocks.
fn pack(folder: &Path, limits: &SourceLimits) -> Result<(Vec<u8>, ChartMetadata), SourceError> {
    let metadata = ChartMetadata::parse(&read_file(&folder.join("Chart.yaml"))?)?;
    let rules = match fs::read(folder.join(".helmignore")) {
        Ok(text) => IgnoreRules::parse(&String::from_utf8_lossy(&text))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => IgnoreRules::parse("")?,
        Err(error) => return Err(SourceError::local("cannot read the chart", error)),
    };
    let mut names = Vec::new();
    list(folder, "", &rules, &mut names)?;
    if names.len() > limits.entries {
        let what = format!("the chart has more than {} files", limits.entries);
        return Err(SourceError::permanent(what));
    }
    names.sort();
    let gzip = GzBuilder::new().mtime(0).operating_system(255);
    let mut builder = Builder::new(gzip.write(Vec::new(), Compression::default()));
    let mut left = limits.unpacked_bytes;
    for name in names {
        let content = read_file(&folder.join(&name))?;
        let Some(rest) = left.checked_sub(content.len() as u64) else {
            let what = format!("the chart is larger than {} bytes", limits.unpacked_bytes);
            return Err(SourceError::permanent(what));
        };
        left = rest;
        let path = Path::new(&metadata.name).join(name);
        let mut header = header(content.len() as u64);
        let appended = builder.append_data(&mut header, path, content.as_slice());
        appended.map_err(|error| SourceError::local("cannot pack the chart", error))?;
    }
    let packed = builder.into_inner().and_then(|gzip| gzip.finish());
    let packed = packed.map_err(|error| SourceError::local("cannot pack the chart", error))?;
    Ok((packed, metadata))
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

fn read_file(path: &Path) -> Result<Vec<u8>, SourceError> {
    let mut content = Vec::new();
    let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut content));
    match read {
        Ok(_) => Ok(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().display();
            let what = format!("the folder has no {name}, so it is no chart");
            Err(SourceError::permanent(what))
        }
        Err(error) => Err(SourceError::local("cannot read the chart", error)),
    }
}

/// Adds the files below a folder of the chart, with their paths in it.
fn list(
    chart: &Path,
    below: &str,
    rules: &IgnoreRules,
    names: &mut Vec<String>,
) -> Result<(), SourceError> {
    let failed = |error: io::Error| SourceError::local("cannot read the chart", error);
    for entry in fs::read_dir(chart.join(below)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            SourceError::permanent(format!("the name {:?} is not UTF-8", PathBuf::from(name)))
        })?;
        let path = match below {
            "" => name,
            below => format!("{below}/{name}"),
        };
        let kind = entry.file_type().map_err(failed)?;
        if rules.is_ignored(&path, kind.is_dir()) {
            continue;
        }
        if kind.is_dir() {
            list(chart, &path, rules, names)?;
        } else if kind.is_file() {
            names.push(path);
        } else {
            let what = format!("{path:?} is neither a file nor a folder");
            return Err(SourceError::permanent(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{
        archive::read::{WantedChart, check_archive},
        checksum::sha256_hex,
        version::WantedVersion,
    };

    fn write(folder: &Path, name: &str, content: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    const CHART: &str = "apiVersion: v2\nname: a\nversion: 1.0.0\n";

    fn folder(order: &[usize]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let long = format!("templates/{}/x.yaml", "n".repeat(120));
        let files = [
            ("Chart.yaml", CHART),
            ("templates/b.yaml", "b"),
            ("templates/a.yaml", "a"),
            (long.as_str(), "long"),
            ("notes.swp", "ignored"),
            (".helmignore", "*.swp\n"),
        ];
        for index in order {
            let (name, content) = files[*index];
            write(folder.path(), name, content);
        }
        folder
    }

    #[tokio::test]
    async fn the_same_content_gives_the_same_bytes() {
        let limits = SourceLimits::default();
        let one = folder(&[0, 1, 2, 3, 4, 5]);
        let two = folder(&[5, 4, 3, 2, 1, 0]);
        let (packed, metadata) = pack_folder(one.path(), &limits).await.expect("packed");
        let (again, _) = pack_folder(two.path(), &limits).await.expect("packed");
        assert_eq!(sha256_hex(&packed), sha256_hex(&again));
        assert_eq!(metadata.name, "a");
        let wanted = WantedChart {
            name: "a".to_owned(),
            version: WantedVersion::for_source("1.0.0").expect("a version"),
        };
        let checked = check_archive(packed.clone(), wanted, &limits).await;
        assert!(checked.is_ok(), "{checked:?}");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let names: Vec<String> = archive
            .entries()
            .expect("entries")
            .map(|entry| {
                let entry = entry.expect("an entry");
                assert_eq!(entry.header().mtime().expect("a time"), 0);
                entry.path().expect("a path").display().to_string()
            })
            .collect();
        let long = format!("a/templates/{}/x.yaml", "n".repeat(120));
        let wanted = [
            "a/.helmignore",
            "a/Chart.yaml",
            "a/templates/a.yaml",
            "a/templates/b.yaml",
        ];
        assert_eq!(names[..4], wanted);
        assert_eq!(names[4..], [long]);
    }

    #[tokio::test]
    async fn folders_that_are_no_chart_or_too_large_are_refused() {
        let limits = SourceLimits {
            unpacked_bytes: 100,
            entries: 2,
            ..SourceLimits::default()
        };
        let long = "b".repeat(99);
        for (files, wanted) in [
            (vec![("values.yaml", "a")], "has no Chart.yaml"),
            (vec![("Chart.yaml", "x")], "Chart.yaml is not as expected"),
            (
                vec![("Chart.yaml", CHART), ("b", "b"), ("c", "c")],
                "more than 2 files",
            ),
            (
                vec![("Chart.yaml", CHART), ("b", long.as_str())],
                "larger than 100 bytes",
            ),
            (
                vec![("Chart.yaml", CHART), (".helmignore", "a/**")],
                ".helmignore",
            ),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            for (name, content) in files {
                write(folder.path(), name, content);
            }
            let error = pack_folder(folder.path(), &limits)
                .await
                .expect_err("refused");
            assert!(error.message().contains(wanted), "{error}");
        }
        let linked = folder(&[0]);
        std::os::unix::fs::symlink("/etc/passwd", linked.path().join("link")).expect("a link");
        let error = pack_folder(linked.path(), &limits)
            .await
            .expect_err("refused");
        assert!(error.message().contains("\"link\""), "{error}");
    }
}
