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
        for word in UNNAMED {
            let comments = format!("/// {word}'s.\nf(); // to {word}\n    //! ({word})");
            let found = [1, 2, 3].map(|line| format!("a.rs:{line}: {word}"));
            assert_eq!(unnamed(&File::new("a.rs", &comments)), found);
            let code = format!("fn {word}() {{ f(\"// {word}\"); }} // the client, `is_{word}`");
            assert!(unnamed(&File::new("a.rs", &code)).is_empty());
        }
    }
}
