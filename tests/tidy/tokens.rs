//! Rust as tokens: enough to read names and paths, without comments and literals.

/// The code as words, `::`, and every other visible character by itself, each with its line.
/// Comments and literals are left out.
pub(crate) fn tokens_of(source: &str) -> Vec<(usize, &str)> {
    let code = pieces(source)
        .into_iter()
        .filter(|piece| piece.kind == Kind::Code);
    code.map(|piece| (piece.line, piece.text)).collect()
}

/// Every `//` comment, also those of documentation, with its line.
pub(crate) fn line_comments(source: &str) -> Vec<(usize, &str)> {
    let comments = pieces(source)
        .into_iter()
        .filter(|piece| piece.kind == Kind::NotCode && piece.text.starts_with("//"));
    comments.map(|piece| (piece.line, piece.text)).collect()
}

#[derive(PartialEq)]
enum Kind {
    Code,
    /// A comment or literal.
    NotCode,
    Space,
}

struct Piece<'a> {
    kind: Kind,
    line: usize,
    text: &'a str,
}

/// The whole source.
fn pieces(source: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut line, mut rest) = (Vec::new(), 1, source);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = match not_code(rest) {
            Some(length) => (Kind::NotCode, length),
            None if first.is_whitespace() => (Kind::Space, first.len_utf8()),
            None => (Kind::Code, code(rest, first)),
        };
        let (text, after) = rest.split_at(length);
        pieces.push(Piece { kind, line, text });
        line += text.matches('\n').count();
        rest = after;
    }
    pieces
}

/// The length of the word or sign that the text begins with.
fn code(text: &str, first: char) -> usize {
    match text.find(|c: char| !c.is_alphanumeric() && c != '_') {
        _ if text.starts_with("::") => 2,
        Some(0) => first.len_utf8(),
        Some(end) => end,
        None => text.len(),
    }
}

/// The same without modules that are called `tests`.
pub(crate) fn tokens_without_tests(source: &str) -> Vec<(usize, &str)> {
    let tokens = tokens_of(source);
    let is = |at: usize, wanted: &str| tokens.get(at).is_some_and(|(_, text)| *text == wanted);
    let (mut found, mut braces, mut tests) = (Vec::new(), 0usize, None);
    for (at, token) in tokens.iter().enumerate() {
        if tests.is_none() && is(at, "mod") && is(at + 1, "tests") && is(at + 2, "{") {
            tests = Some(braces);
        }
        if tests.is_none() {
            found.push(*token);
        }
        if is(at, "{") {
            braces += 1;
        } else if is(at, "}") {
            braces = braces.saturating_sub(1);
            if tests == Some(braces) {
                tests = None;
            }
        }
    }
    found
}

/// The length of the comment or literal that the text begins with. An unclosed one takes the rest.
pub(crate) fn not_code(text: &str) -> Option<usize> {
    let close = |from: usize, mark: &str| {
        text[from..]
            .find(mark)
            .map_or(text.len(), |at| from + at + mark.len())
    };
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if let Some(after) = text.strip_prefix('\'') {
        let mut characters = after.chars();
        return match (characters.next(), characters.next()) {
            (Some('\\'), _) => Some(quoted(text, '\'')),
            (Some(c), Some('\'')) => Some(c.len_utf8() + 2),
            // A lifetime.
            (_, _) => None,
        };
    }
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.starts_with(prefix))?;
    let hashes = text[prefix.len()..]
        .bytes()
        .take_while(|byte| *byte == b'#')
        .count();
    let open = prefix.len() + hashes;
    text[open..]
        .starts_with('"')
        .then(|| close(open + 1, &format!("\"{}", "#".repeat(hashes))))
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == mark => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_for_tests_are_left_out_and_what_follows_is_not() {
        let source = "fn a() { { } } mod tests { fn b() { } } fn c() { }";
        let text: String = tokens_without_tests(source)
            .iter()
            .map(|(_, text)| *text)
            .collect();
        assert_eq!(text, "fna(){{}}fnc(){}");
    }

    #[test]
    fn comments_are_found_behind_code_and_not_in_literals() {
        let source = "//! a\nf(\"// b\"); // c\n/* // d */\n";
        assert_eq!(line_comments(source), [(1, "//! a"), (2, "// c")]);
    }
}
