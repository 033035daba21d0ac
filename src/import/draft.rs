//! Text of a configuration file: tables with keys and comments.

use crate::model::access::compound::WrittenRule;

/// Widest comment line.
const WIDTH: usize = 96;

/// One table of the file.
#[derive(Default)]
pub(crate) struct DraftTable {
    lines: Vec<String>,
    is_commented_out: bool,
}

impl DraftTable {
    /// A table; `header` is its line, such as `[site]`.
    pub(crate) fn new(header: &str) -> DraftTable {
        let mut table = DraftTable::default();
        table.push(header.to_owned());
        table
    }

    /// A table of which every line is a comment, for values that are not known.
    pub(crate) fn commented_out(header: &str) -> DraftTable {
        let mut table = DraftTable {
            is_commented_out: true,
            ..DraftTable::default()
        };
        table.push(header.to_owned());
        table
    }

    /// Adds a key. `value` is TOML.
    pub(crate) fn set(&mut self, key: &str, value: impl AsRef<str>) {
        self.push(format!("{key} = {}", value.as_ref()));
    }

    /// Adds a table in this one, such as `[[apps.paths]]`.
    pub(crate) fn start(&mut self, header: &str) {
        self.lines.push(String::new());
        self.push(header.to_owned());
    }

    /// Adds a comment, which may be long.
    pub(crate) fn comment(&mut self, text: &str) {
        for line in wrapped(text) {
            self.lines.push(format!("# {line}"));
        }
    }

    /// Adds lines of TOML that are not in effect.
    pub(crate) fn suggest(&mut self, toml: &[String]) {
        for line in toml {
            self.lines.push(format!("# {}", one_line(line)));
        }
    }

    /// Whether it has a key or a comment.
    pub(crate) fn has_content(&self) -> bool {
        self.lines.len() > 1
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn push(&mut self, line: String) {
        match self.is_commented_out {
            true => self.lines.push(format!("# {line}")),
            false => self.lines.push(line),
        }
    }
}

/// Words on lines of a limited width. No character of the text can end the comment.
pub(crate) fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in one_line(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text without control characters and line separators.
pub(crate) fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.replace(is_break, " ")
}

/// A text as TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A list of texts as TOML.
pub(crate) fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// An access rule as TOML.
pub(crate) fn rule(rule: &WrittenRule) -> String {
    let inner = |rules: &[WrittenRule]| rules.iter().map(self::rule).collect::<Vec<_>>().join(", ");
    match rule {
        WrittenRule::Clause(clause) => quoted(clause),
        WrittenRule::Any(rules) => format!("{{ any = [{}] }}", inner(rules)),
        WrittenRule::All(rules) => format!("{{ all = [{}] }}", inner(rules)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_back_and_no_comment_ends_early(text in any::<String>()) {
            let mut table = DraftTable::new("[t]");
            table.comment(&text);
            table.suggest(std::slice::from_ref(&text));
            table.set("key", quoted(&text));
            table.set("keys", list(std::slice::from_ref(&text)));
            let read: toml::Table = toml::from_str(&table.text()).expect("valid TOML");
            let keys = read["t"].as_table().expect("a table");
            prop_assert_eq!(keys.len(), 2);
            prop_assert_eq!(keys["key"].as_str(), Some(text.as_str()));
        }
    }

    #[test]
    fn a_table_that_is_commented_out_sets_nothing() {
        let mut table = DraftTable::commented_out("[identity]");
        table.set("issuer", quoted("x"));
        assert_eq!(table.text(), "# [identity]\n# issuer = \"x\"\n");
    }
}
