//! The words of comments: persons and parts are named.

use crate::{
    files::{File, rust_files},
    report::complain,
    tokens::line_comments,
};

/// Pronouns that leave open which user, client or part of the program is meant.
const UNNAMED: [&str; 5] = ["anybody", "nobody", "somebody", "whoever", "whom"];

#[test]
fn comments_name_persons_and_parts() {
    let files = rust_files(&["src", "crates", "tests", "benches"]).expect("readable sources");
    complain(
        "comments use pronouns for a user, client or part; name it",
        files.iter().flat_map(unnamed),
    );
}

fn unnamed(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (line, comment) in line_comments(&file.text) {
        for word in comment.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            if UNNAMED.contains(&word.to_lowercase().as_str()) {
                found.push(format!("{}:{line}: {word}", file.path.display()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronouns_are_found_in_comments_only() {
        let bad = "/// Nobody's.\nf(); // to whom\n    //! (whoever)";
        assert_eq!(
            unnamed(&File::new("a.rs", bad)),
            ["a.rs:1: Nobody", "a.rs:2: whom", "a.rs:3: whoever"]
        );
        let fine = "fn nobody() { f(\"// somebody\"); } // the client, `is_nobody`";
        assert!(unnamed(&File::new("a.rs", fine)).is_empty());
    }
}
