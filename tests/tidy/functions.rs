//! The length of functions, and how deep their blocks are nested.

use crate::{
    files::{File, rust_files},
    report::complain,
    tokens::tokens_without_tests,
};

const MAX_LINES: usize = 80;
/// Blocks inside each other, the body of the function not counted. An arm in braces is one.
const MAX_NESTING: usize = 5;

#[test]
fn no_function_is_over_eighty_lines() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain(
        "functions are too long; cut them by subject",
        files.iter().flat_map(too_long),
    );
}

fn too_long(file: &File) -> Vec<String> {
    let long = functions(&file.text)
        .into_iter()
        .filter(|(_, first, last)| last - first + 1 > MAX_LINES);
    let shown = |(name, first, last): (String, usize, usize)| {
        let path = file.path.display();
        let lines = last - first + 1;
        format!("{path}:{first}: {name}: {lines} lines, {MAX_LINES} allowed")
    };
    long.map(shown).collect()
}

#[test]
fn no_function_nests_more_than_five_blocks() {
    let files = rust_files(&["src", "crates"]).expect("readable sources");
    complain(
        "functions are nested too deep; name the inner part",
        files.iter().flat_map(too_deep),
    );
}

fn too_deep(file: &File) -> Vec<String> {
    let tokens = tokens_without_tests(&file.text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let Some(end) = body_at(&tokens, at) else {
            continue;
        };
        let depth = deepest(&tokens[at..end]);
        if depth > MAX_NESTING {
            let ((line, _), (_, name)) = (tokens[at], tokens[at + 1]);
            found.push(format!(
                "{}:{line}: {name}: {depth} blocks, {MAX_NESTING} allowed",
                file.path.display()
            ));
        }
    }
    found
}

/// How many blocks stand inside each other in a function that begins with these tokens.
fn deepest(function: &[(usize, &str)]) -> usize {
    let text = |at: usize| function.get(at).map_or("", |(_, text)| *text);
    let (mut open, mut deepest) = (Vec::new(), 0);
    // Whether the statement so far has a word behind which a block comes.
    let mut expects_block = false;
    for at in 0..function.len() {
        match text(at) {
            "if" | "else" | "match" | "for" | "while" | "loop" | "async" | "unsafe" => {
                expects_block = true;
            }
            "{" => {
                let is_arm = text(at - 1) == ">" && text(at - 2) == "=";
                let is_closure = text(at - 1) == "|";
                let is_block = !open.is_empty() && (expects_block || is_arm || is_closure);
                let is_pattern =
                    is_block && ["=", "|"].contains(&text(end_of_braces(function, at)));
                open.push((is_block && !is_pattern, is_pattern));
                expects_block = false;
                deepest = deepest.max(open.iter().filter(|(is_block, _)| *is_block).count());
            }
            "}" => expects_block = open.pop().is_some_and(|(_, is_pattern)| is_pattern),
            ";" => expects_block = false,
            _ => {}
        }
    }
    deepest
}

/// The token behind the braces that open here.
fn end_of_braces(tokens: &[(usize, &str)], start: usize) -> usize {
    let mut braces = 0usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(start) {
        match *token {
            "{" => braces += 1,
            "}" if braces == 1 => return at + 1,
            "}" => braces -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Every function that has a body: its name, and the lines of `fn` and of its last brace.
fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let tokens = tokens_without_tests(source);
    let text = |at: usize| tokens.get(at).map_or("", |(_, text)| *text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if let Some(end) = body_at(&tokens, at) {
            found.push((text(at + 1).to_owned(), tokens[at].0, tokens[end].0));
        }
    }
    found
}

/// Where the body of a function ends; `None` if none with a name and a body begins here.
fn body_at(tokens: &[(usize, &str)], at: usize) -> Option<usize> {
    let (_, name) = tokens.get(at + 1)?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if tokens[at].1 == "fn" && is_name {
        end_of_body(tokens, at)
    } else {
        None
    }
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
        assert_eq!(too_long(&function(81)), ["x.rs:2: f: 81 lines, 80 allowed"]);
        assert!(too_long(&function(80)).is_empty());
        let nested = "fn outer(a: fn(u8) -> u8) {\n fn inner() {}\n let b = [0; 3];\n}\n";
        let names: Vec<_> = functions(nested)
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(names, ["outer", "inner"]);
    }

    #[test]
    fn blocks_and_arms_count_but_literals_and_patterns_do_not() {
        let function = |levels: usize| {
            let open = "if let P { a } = x { ".repeat(levels);
            let text = format!(
                "fn f() {{ let y = Y {{ z: {{ 1 }} }}; {open}{}}}\n",
                "} ".repeat(levels)
            );
            File::new("x.rs", &text)
        };
        assert!(too_deep(&function(5)).is_empty());
        assert_eq!(too_deep(&function(6)), ["x.rs:1: f: 6 blocks, 5 allowed"]);
        let arms = "fn g() { match a { B => { loop { c(|d| { while e { f(); } }); } } } }\n";
        assert_eq!(deepest(&tokens_without_tests(arms)), 5);
    }
}
