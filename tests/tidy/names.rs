//! Names: one public type for each, no function that says nothing, tests without citations.

use std::collections::BTreeMap;

use crate::{
    files::{File, rust_files},
    report::complain,
    tokens::{tokens_of, tokens_without_tests},
};

/// Verbs of which no reader knows what they do.
const VAGUE: [&str; 6] = ["of", "ask", "tell", "told", "take", "judge"];
const MAX_TEST_NAME: usize = 90;

#[test]
fn no_two_public_types_share_a_name() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain(
        "public types share their name",
        shared_names(&files).into_iter(),
    );
}

#[test]
fn no_function_has_a_vague_verb_for_a_name() {
    let files = rust_files(&["src", "crates", "tests", "benches"]).expect("readable sources");
    complain(
        "functions have names that say nothing; use new, from, parse, load, publish, ..",
        files.iter().flat_map(vague_functions),
    );
}

#[test]
fn no_test_name_is_too_long_or_cites_a_paper() {
    let files = rust_files(&["src", "crates", "tests"]).expect("readable sources");
    complain(
        "names of tests are too long, or cite something",
        files.iter().flat_map(bad_test_names),
    );
}

/// Each declaration in code that is not for tests: its line, and its token's place.
fn shared_names(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.path.ends_with("tests.rs")) {
        for (line, name) in public_types(&file.text) {
            let place = format!("{}:{line}", file.path.display());
            places.entry(name).or_default().push(place);
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect()
}

fn public_types(source: &str) -> Vec<(usize, String)> {
    let tokens = tokens_without_tests(source);
    let kinds = ["struct", "enum", "trait", "type", "union"];
    tokens
        .windows(3)
        .filter(|three| three[0].1 == "pub" && kinds.contains(&three[1].1))
        .map(|three| (three[2].0, three[2].1.to_owned()))
        .collect()
}

fn vague_functions(file: &File) -> Vec<String> {
    let tokens = tokens_of(&file.text);
    let pairs = tokens.windows(2);
    let vague = pairs.filter(|pair| pair[0].1 == "fn" && VAGUE.contains(&pair[1].1));
    vague
        .map(|pair| {
            let (line, name) = pair[1];
            format!("{}:{line}: fn {name}", file.path.display())
        })
        .collect()
}

fn bad_test_names(file: &File) -> Vec<String> {
    let tokens = tokens_of(&file.text);
    let text = |at: usize| tokens.get(at).map_or("", |(_, text)| *text);
    let mut found = Vec::new();
    for (at, (line, _)) in tokens.iter().enumerate().skip(1) {
        // What stands right behind an attribute is, in our tests, a test.
        let is_first = text(at - 1) == "]" || (text(at - 1) == "async" && text(at - 2) == "]");
        let name = text(at + 1);
        if text(at) == "fn" && is_first && (name.len() > MAX_TEST_NAME || cites(name)) {
            found.push(format!("{}:{}: {name}", file.path.display(), line));
        }
    }
    found
}

/// Whether a name begins with the number of a row: `row_25_..`, `v68_..`.
fn cites(name: &str) -> bool {
    let first = name.split('_').next().unwrap_or_default();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let second = name.split('_').nth(1).unwrap_or_default();
    let is_code = first.len() > 1 && first.is_char_boundary(1) && number(&first[1..]);
    is_code || (["row", "rows"].contains(&first) && number(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_of_one_name_are_found_and_private_ones_are_not() {
        let files = [
            File::new("a.rs", "pub struct Same;\npub(crate) enum Other {}"),
            File::new("b.rs", "pub trait Same {}\npub type Other = u8;"),
        ];
        assert_eq!(shared_names(&files), ["Same: a.rs:1, b.rs:1"]);
    }

    #[test]
    fn vague_functions_are_found_wherever_they_are() {
        let file = File::new(
            "a.rs",
            "impl A { pub fn of() {} fn taken() {} }\nasync fn ask() {}",
        );
        assert_eq!(vague_functions(&file), ["a.rs:1: fn of", "a.rs:2: fn ask"]);
    }

    #[test]
    fn names_of_tests_that_cite_or_are_too_long_are_found() {
        let long = "a".repeat(91);
        let text = format!(
            "#[test]\nfn row_25_x() {{}}\n#[t]\nasync fn v68_x() {{}}\n#[t]\nfn {long}() {{}}\n"
        );
        assert_eq!(bad_test_names(&File::new("a.rs", &text)).len(), 3);
        let fine = "fn v4_block() {}\n#[test]\nfn rows_are_counted() {}";
        assert!(bad_test_names(&File::new("a.rs", fine)).is_empty());
    }
}
