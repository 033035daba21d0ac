//! Comments cite what a reader can open.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    files::{File, everything_below, root, rust_files},
    report::complain,
};

#[test]
fn every_citation_is_in_the_repository() {
    let paths = everything_below(Path::new("")).expect("a readable project");
    let documents = documents(&paths);
    let behaviour =
        fs::read_to_string(root().join("docs/behaviour.md")).expect("docs/behaviour.md is there");
    let anchors = anchors(&behaviour);
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    // This file shows what is wrong.
    let files = files
        .iter()
        .filter(|file| !file.path.ends_with("tidy/citations.rs"));
    complain(
        "comments cite what is not in the repository",
        files.flat_map(|file| bad_citations(file, &documents, &anchors)),
    );
}

fn documents(paths: &[PathBuf]) -> BTreeSet<String> {
    let names = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "md"));
    names
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// The anchors of a document's headings, as the usual renderers make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.trim_start_matches('#').trim())
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect()
}

fn bad_citations(
    file: &File,
    documents: &BTreeSet<String>,
    anchors: &BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else {
            continue;
        };
        let mut complaint = |what: &str| {
            found.push(format!("{}:{}: {what}", file.path.display(), index + 1));
        };
        for word in words(comment) {
            let name = word.rsplit('/').next().unwrap_or_default();
            let (name, anchor) = name.split_once('#').unwrap_or((name, ""));
            if name.ends_with(".md") && name.len() > 3 && !documents.contains(name) {
                complaint(word);
            }
            if name == "behaviour.md" && !anchor.is_empty() && !anchors.contains(anchor) {
                complaint(word);
            }
            if is_code(word) {
                complaint(word);
            }
        }
        if let Some(row) = numbered_row(comment) {
            complaint(&row);
        }
    }
    found
}

fn words(comment: &str) -> impl Iterator<Item = &str> {
    comment
        .split(|c: char| !(c.is_alphanumeric() || "./#-_".contains(c)))
        .map(|word| word.trim_matches(|c: char| ".-/".contains(c)))
}

/// A letter with a number of a list that is somewhere else: `V118`, `Q6`. Short for V, as in IP
/// version 4.
fn is_code(word: &str) -> bool {
    let Some(digits) = word.strip_prefix(['V', 'Q', 'F']) else {
        return false;
    };
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_number && !["V4", "V6", "V2", "V1"].contains(&word)
}

/// `row 29` and `rows 20 and 21`: of a table that does not stand beside the comment.
fn numbered_row(comment: &str) -> Option<String> {
    let mut words = words(comment).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        if ["row", "rows", "Row", "Rows"].contains(&word)
            && next.starts_with(|c: char| c.is_ascii_digit())
        {
            return Some(format!("{word} {next}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_cannot_open_is_found() {
        let documents = BTreeSet::from(["behaviour.md".to_owned()]);
        let anchors = anchors("# T\n## App states\n");
        let bad = |text: &str| bad_citations(&File::new("a.rs", text), &documents, &anchors).len();
        for text in [
            "// (security.md 2.9)",
            "//! as behaviour row 29 says",
            "/// (V118).",
            "x(); // Q6, Q7",
            "//! docs/behaviour.md#cellar",
            "// rows 20 and 21",
        ] {
            assert!(bad(text) > 0, "{text}");
        }
        for text in [
            "// docs/behaviour.md#app-states",
            "// IPv4, V4, RFC 9113 section 8.2.1",
            "let row = 29;",
            "// Each row is one case.",
        ] {
            assert_eq!(bad(text), 0, "{text}");
        }
    }
}
