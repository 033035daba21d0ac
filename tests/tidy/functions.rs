//! The length of functions.

use crate::{
    files::{File, rust_files},
    report::{Offence, complain_except},
    tokens::tokens_without_tests,
};

const MAX_LINES: usize = 80;
/// File and function.
const TO_BE_CUT: &[&str] = &[];

#[test]
fn no_function_is_over_eighty_lines() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain_except(
        "functions are too long; cut them by subject",
        TO_BE_CUT,
        files.iter().flat_map(too_long),
    );
}

fn too_long(file: &File) -> Vec<Offence> {
    let long = functions(&file.text)
        .into_iter()
        .filter(|(_, first, last)| last - first + 1 > MAX_LINES);
    let offence = |(name, first, last): (String, usize, usize)| {
        let path = file.path.display();
        let lines = last - first + 1;
        Offence {
            key: format!("{path} {name}"),
            shown: format!("{path}:{first}: {name}: {lines} lines, {MAX_LINES} allowed"),
        }
    };
    long.map(offence).collect()
}

/// Every function that has a body: its name, and the lines of `fn` and of its last brace.
fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let tokens = tokens_without_tests(source);
    let text = |at: usize| tokens.get(at).map_or("", |(_, text)| *text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_name = text(at + 1).starts_with(|c: char| c.is_alphabetic() || c == '_');
        if text(at) != "fn" || !is_name {
            continue;
        }
        if let Some(end) = end_of_body(&tokens, at) {
            found.push((text(at + 1).to_owned(), tokens[at].0, tokens[end].0));
        }
    }
    found
}

/// Where the body of the function that begins here ends; `None` when it has none.
fn end_of_body(tokens: &[(usize, &str)], start: usize) -> Option<usize> {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(start) {
        match *token {
            // The length of an array stands behind a semicolon too.
            "[" | "(" => brackets += 1,
            "]" | ")" => brackets = brackets.saturating_sub(1),
            ";" if braces == 0 && brackets == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_eighty_one_lines_is_too_long_and_one_of_eighty_is_not() {
        let function = |lines: usize| {
            let body = "    x();\n".repeat(lines - 2);
            File::new(
                "x.rs",
                &format!("trait T {{ fn no(a: [u8; 2]); }}\nfn f() {{\n{body}}}\n"),
            )
        };
        assert_eq!(too_long(&function(81))[0].key, "x.rs f");
        assert!(too_long(&function(80)).is_empty());
        let nested = "fn outer(a: fn(u8) -> u8) {\n fn inner() {}\n let b = [0; 3];\n}\n";
        let names: Vec<_> = functions(nested)
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(names, ["outer", "inner"]);
    }
}
