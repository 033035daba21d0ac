//! Tests of archives: good ones, and some that lie.

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, Header};

use super::*;

const CHART: &str = "apiVersion: v2\nname: a\nversion: 1.0.0\nappVersion: \"7\"\n";

fn limits() -> SourceLimits {
    SourceLimits {
        unpacked_bytes: 64 << 10,
        entries: 10,
        ..SourceLimits::default()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Writes names as they are, also those that the library refuses to write.
fn header(name: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header
}

fn tar_of(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, content) in entries {
        let mut header = header(name, *kind, content.len() as u64);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_size(0);
            header.set_link_name("/etc/passwd").expect("short");
            header.set_cksum();
            builder.append(&header, io::empty()).expect("memory");
        } else {
            builder.append(&header, content.as_bytes()).expect("memory");
        }
    }
    builder.into_inner().expect("memory")
}

fn files(files: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<_> = files
        .iter()
        .map(|(name, content)| (*name, EntryType::Regular, *content))
        .collect();
    gzip(&tar_of(&entries))
}

fn refused(packed: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("a folder");
    let error = read(packed, &limits(), Some(&inner)).expect_err("refused");
    let beside: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(beside.len(), 1, "nothing is written elsewhere");
    assert_eq!(read(packed, &limits(), None).expect_err("refused"), error);
    error.message().to_owned()
}

#[test]
fn a_good_archive_is_unpacked_as_it_is() {
    let packed = gzip(&tar_of(&[
        ("pax", EntryType::XGlobalHeader, "19 comment=aaaaaaa\n"),
        ("./a/", EntryType::Directory, ""),
        ("a/Chart.yaml", EntryType::Regular, CHART),
        ("a/templates/x.yaml", EntryType::Regular, "{}"),
        ("a/empty", EntryType::Regular, ""),
    ]));
    let folder = tempfile::tempdir().expect("a folder");
    let found = read(&packed, &limits(), Some(folder.path())).expect("good");
    assert_eq!(
        (found.name.as_str(), found.version.as_str()),
        ("a", "1.0.0")
    );
    assert_eq!(found.app_version.as_deref(), Some("7"));
    let content = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    assert_eq!(content("a/Chart.yaml"), CHART);
    assert_eq!(content("a/templates/x.yaml"), "{}");
    assert_eq!(content("a/empty"), "");
}

#[test]
fn entries_that_lead_elsewhere_are_refused() {
    let chart = ("a/Chart.yaml", EntryType::Regular, CHART);
    for (entry, wanted) in [
        (("../x", EntryType::Regular, "x"), "has \"..\" in its name"),
        (
            ("a/../../x", EntryType::Regular, "x"),
            "has \"..\" in its name",
        ),
        (("/x", EntryType::Regular, "x"), "is absolute"),
        (("a\\..\\x", EntryType::Regular, "x"), "has a backslash"),
        (
            ("a/link", EntryType::Symlink, ""),
            "is neither a file nor a folder",
        ),
        (
            ("a/link", EntryType::Link, ""),
            "is neither a file nor a folder",
        ),
        (
            ("a/fifo", EntryType::Fifo, ""),
            "is neither a file nor a folder",
        ),
        (
            ("a/device", EntryType::Char, ""),
            "is neither a file nor a folder",
        ),
        (
            ("a/device", EntryType::Block, ""),
            "is neither a file nor a folder",
        ),
        (
            ("a/x", EntryType::Continuous, ""),
            "is neither a file nor a folder",
        ),
        (("b/x", EntryType::Regular, "x"), "more than one folder"),
        (("x", EntryType::Regular, "x"), "more than one folder"),
        (("a", EntryType::Regular, "x"), "a file at its top"),
    ] {
        let message = refused(&gzip(&tar_of(&[chart, entry])));
        assert!(message.contains(wanted), "{entry:?}: {message}");
    }
}

#[test]
fn archives_that_are_no_chart_are_refused() {
    let other = CHART.replace("name: a", "name: b");
    for (packed, wanted) in [
        (files(&[]), "no Chart.yaml"),
        (files(&[("a/values.yaml", "{}")]), "no Chart.yaml"),
        (files(&[("a/b/Chart.yaml", CHART)]), "no Chart.yaml"),
        (
            files(&[("a/Chart.yaml", "- 1")]),
            "Chart.yaml is not as expected",
        ),
        (
            files(&[("a/Chart.yaml", &other)]),
            "the chart \"b\" is in a folder \"a\"",
        ),
        (
            tar_of(&[("a/Chart.yaml", EntryType::Regular, CHART)]),
            "is broken",
        ),
        (gzip(b"not a tar file, but some text"), "is broken"),
        (b"<html>".to_vec(), "is broken"),
        (Vec::new(), "is broken"),
    ] {
        let message = refused(&packed);
        assert!(message.contains(wanted), "{message}");
    }
    let mut cut = files(&[("a/Chart.yaml", CHART)]);
    cut.truncate(cut.len() / 2);
    assert!(refused(&cut).contains("is broken"));
}

#[test]
fn an_archive_cannot_become_large() {
    let zeros = "\0".repeat(1 << 20);
    let bomb = files(&[("a/Chart.yaml", CHART), ("a/zeros", &zeros)]);
    assert!(bomb.len() < 16 << 10, "a small archive: {}", bomb.len());
    assert_eq!(
        refused(&bomb),
        "the chart is larger than 65536 bytes unpacked"
    );
    // The size of this entry is only claimed.
    let mut tar = tar_of(&[("a/Chart.yaml", EntryType::Regular, CHART)]);
    tar.truncate(1024);
    tar.extend(header("a/huge", EntryType::Regular, 1 << 40).as_bytes());
    assert!(refused(&gzip(&tar)).contains("is broken"));
    let names: Vec<String> = (0..11).map(|index| format!("a/{index}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let message = refused(&files(&many));
    assert_eq!(message, "the chart's archive has more than 10 entries");
    // A name is an entry of its own in the format of GNU, with a size of its own.
    let name = "a/".to_owned() + &"n".repeat(1 << 20);
    let long = tar_of(&[("././@LongLink", EntryType::GNULongName, &name)]);
    let message = refused(&gzip(&long));
    assert!(
        message.contains("larger than") || message.contains("broken"),
        "{message}"
    );
}

#[test]
fn all_members_of_a_gzip_file_are_read() {
    let tar = tar_of(&[
        ("a/Chart.yaml", EntryType::Regular, CHART),
        ("../x", EntryType::Regular, "x"),
    ]);
    let (first, second) = tar.split_at(1024);
    let packed = [gzip(first), gzip(second)].concat();
    assert!(refused(&packed).contains("has \"..\" in its name"));
}

#[tokio::test]
async fn an_archive_must_be_the_wanted_chart() {
    let packed = files(&[("a/Chart.yaml", CHART)]);
    for (name, version, wanted) in [
        ("a", "1.0.0", true),
        ("a", "", true),
        ("a", "v1.0.0", true),
        ("a", "1.0.1", false),
        ("b", "1.0.0", false),
    ] {
        let chart = WantedChart {
            name: name.to_owned(),
            version: WantedVersion::for_source(version).expect("a version"),
        };
        let found = check_archive(packed.clone(), chart, &limits()).await;
        assert_eq!(found.is_ok(), wanted, "{name} {version}: {found:?}");
    }
}
