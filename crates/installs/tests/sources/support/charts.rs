//! Charts of tests.

use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

/// A chart with one ConfigMap, as the files of its folder.
pub(crate) fn example_files(name: &str, version: &str) -> Vec<(String, String)> {
    vec![
        (
            "Chart.yaml".to_owned(),
            format!("apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"1.0\"\n"),
        ),
        ("values.yaml".to_owned(), "cmData:\n  foo: bar\n".to_owned()),
        (
            "templates/configmap.yaml".to_owned(),
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: testcm\n\
             data: {{ toJson .Values.cmData }}\n"
                .to_owned(),
        ),
    ]
}

/// The archive of a chart, as `helm package` makes it.
pub(crate) fn example(name: &str, version: &str) -> Vec<u8> {
    let files = example_files(name, version).into_iter();
    let files: Vec<(String, String)> = files
        .map(|(file, content)| (format!("{name}/{file}"), content))
        .collect();
    let entries: Vec<(&str, EntryType, &[u8])> = files
        .iter()
        .map(|(file, content)| (file.as_str(), EntryType::Regular, content.as_bytes()))
        .collect();
    archive(&entries)
}

/// A gzipped tar file. Names are written as they are, also dangerous ones.
pub(crate) fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, content) in entries {
        let mut header = Header::new_gnu();
        let bytes = header.as_mut_bytes().iter_mut();
        for (target, byte) in bytes.zip(name.bytes()) {
            *target = byte;
        }
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let content: &[u8] = if is_link { &[] } else { content };
        header.set_size(content.len() as u64);
        if is_link {
            header.set_link_name("/etc/passwd").expect("short");
        }
        header.set_cksum();
        builder.append(&header, content).expect("memory");
    }
    let mut encoder = builder.into_inner().expect("memory");
    encoder.flush().expect("memory");
    encoder.finish().expect("memory")
}

/// SHA-256 as hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
