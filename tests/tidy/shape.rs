//! The shape of files: length, header, width of comments, names, no ignored tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    files::{File, everything_below, root, rust_files},
    report::complain,
    tokens::tokens_of,
};

const MAX_LINES: usize = 500;
const MAX_COMMENT_WIDTH: usize = 100;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["util", "utils", "common", "helpers"];
/// Folders on the root of a machine; written apart, so that this file does not name such a
/// path.
const MACHINE_FOLDERS: [&str; 3] = ["root", "work", "home"];
/// The first tokens of the attribute that switches a test off.
const IGNORE: [&str; 3] = ["#", "[", "ignore"];

#[test]
fn no_rust_file_is_over_five_hundred_lines() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "files are too long; split them",
        files.iter().filter_map(too_long),
    );
}

#[test]
fn every_source_file_begins_with_a_header() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain(
        "files do not begin with a `//!` header",
        files.iter().filter_map(headless),
    );
}

#[test]
fn comments_fit_into_a_hundred_columns() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "comment lines are too wide; wrap them",
        files.iter().flat_map(wide_comments),
    );
}

#[test]
fn no_test_is_ignored() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "tests are ignored; run or delete them",
        files.iter().flat_map(ignored_tests),
    );
}

#[test]
fn every_name_says_what_is_inside() {
    let paths = everything_below(Path::new("")).expect("a readable project");
    assert!(
        paths.contains(&PathBuf::from("Cargo.toml")),
        "the walk sees the project"
    );
    complain(
        "names say nothing about what is inside",
        paths.iter().filter_map(|path| empty_name(path)),
    );
}

#[test]
fn no_text_names_a_path_of_a_developer_machine() {
    let mut offenders = Vec::new();
    for path in everything_below(Path::new("")).expect("a readable project") {
        let in_scope = ["src", "crates", "tests", "docs", "config", "templates"]
            .iter()
            .any(|top| path.starts_with(top));
        let is_page =
            path.parent() == Some(Path::new("")) && path.extension().is_some_and(|e| e == "md");
        if (in_scope || is_page) && root().join(&path).is_file() {
            // What is not UTF-8 is no text.
            if let Ok(text) =
                String::from_utf8(fs::read(root().join(&path)).expect("a readable file"))
            {
                offenders.extend(machine_paths(&File { path, text }));
            }
        }
    }
    complain("texts name paths of one machine", offenders.into_iter());
}

fn too_long(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let path = file.path.display();
    (lines > MAX_LINES).then(|| format!("{path}: {lines} lines, {MAX_LINES} allowed"))
}

fn headless(file: &File) -> Option<String> {
    (!file.text.starts_with("//!")).then(|| file.path.display().to_string())
}

/// rustfmt wraps code and leaves comments alone.
fn wide_comments(file: &File) -> Vec<String> {
    let is_wide = |line: &str| {
        line.trim_start().starts_with("//") && line.chars().count() > MAX_COMMENT_WIDTH
    };
    let wide = file
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_wide(line));
    wide.map(|(index, _)| format!("{}:{}", file.path.display(), index + 1))
        .collect()
}

fn machine_paths(file: &File) -> Vec<String> {
    let mut offenders = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            if line.contains(&format!("/{folder}/")) {
                offenders.push(format!("{}:{}: /{folder}/", file.path.display(), index + 1));
            }
        }
    }
    offenders
}

fn empty_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let is_empty = EMPTY_NAMES.contains(&stem) || path.file_name()? == "mod.rs";
    is_empty.then(|| path.display().to_string())
}

/// The places of attributes that switch a test off; comments and literals do not count.
fn ignored_tests(file: &File) -> Vec<String> {
    let tokens = tokens_of(&file.text);
    let ignored = tokens
        .windows(IGNORE.len())
        .filter(|tokens| tokens.iter().map(|(_, text)| *text).eq(IGNORE));
    ignored
        .map(|tokens| format!("{}:{}", file.path.display(), tokens[0].0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_these_checks_can_fail() {
        let sample = format!("fn f() {{}}\n{} = \"slow\"]\nfn g() {{}}", IGNORE.concat());
        assert_eq!(ignored_tests(&File::new("x.rs", &sample)), ["x.rs:2"]);
        let comment = format!("// {}]", IGNORE.concat());
        assert!(ignored_tests(&File::new("x.rs", &comment)).is_empty());
        assert!(too_long(&File::new("x.rs", &"\n".repeat(501))).is_some());
        assert!(too_long(&File::new("x.rs", &"\n".repeat(500))).is_none());
        assert_eq!(
            wide_comments(&File::new(
                "x.rs",
                &format!("fn f() {{}}\n  // {}", "x".repeat(96))
            )),
            ["x.rs:2"]
        );
        assert!(wide_comments(&File::new("x.rs", &format!("  // {}", "x".repeat(95)))).is_empty());
        assert!(headless(&File::new("x.rs", "\n//! late")).is_some());
        let path = format!("/{}/", MACHINE_FOLDERS[0]);
        assert_eq!(
            machine_paths(&File::new("x.md", &format!("\nsee {path}x"))),
            [format!("x.md:2: {path}")]
        );
        for (name, fine) in [
            ("a/util", false),
            ("a/helpers.rs", false),
            ("mod.rs", false),
            ("a/mod", true),
        ] {
            assert_eq!(empty_name(Path::new(name)).is_none(), fine, "{name}");
        }
    }
}
