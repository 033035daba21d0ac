//! The documents that every reader begins with.

use std::fs;

use crate::files::root;

const MAX_ARCHITECTURE_LINES: usize = 200;
/// A private word costs every reader something.
const MAX_WORDS: usize = 12;

#[test]
fn the_architecture_fits_on_two_hundred_lines() {
    let text =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let lines = text.lines().count();
    assert!(lines > 0, "ARCHITECTURE.md is empty");
    assert!(
        lines <= MAX_ARCHITECTURE_LINES,
        "ARCHITECTURE.md: {lines} lines, {MAX_ARCHITECTURE_LINES} allowed"
    );
}

#[test]
fn the_lexicon_has_at_most_twelve_words() {
    let text =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let words = words_explained(&text);
    assert!(words > 0, "ARCHITECTURE.md has a table of words");
    assert!(
        words <= MAX_WORDS,
        "ARCHITECTURE.md explains {words} words, {MAX_WORDS} allowed"
    );
}

#[test]
fn the_readme_names_the_two_commands() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md is there");
    for command in ["make demo", "make test"] {
        assert!(
            text.contains(command),
            "README.md does not mention `{command}`"
        );
    }
}

/// The rows of the table whose first column is called `word`, without its head.
fn words_explained(text: &str) -> usize {
    text.lines()
        .skip_while(|line| !line.starts_with("| word "))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_lexicon_are_counted_without_its_head() {
        let text = "# A\n\n| word | meaning |\n|---|---|\n| a | b |\n| c | d |\n\n| room | x |\n";
        assert_eq!(words_explained(text), 2);
        assert_eq!(words_explained("no table"), 0);
    }
}
