//! One key of the configuration: where it is, its kind, its default and its description.

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// A number, such as `0.5`.
    Decimal,
    /// A duration, such as `30m`.
    Duration,
    /// A size in bytes, such as `64KiB`.
    Size,
    /// A list of texts.
    Texts,
    /// A text, or a list of texts.
    TextOrTexts,
    /// A table of its own.
    Table,
    /// An access rule: a text, or a table.
    Rule,
}

impl Kind {
    /// The kind in words, for messages and the reference.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Switch => "true or false",
            Kind::Number => "a whole number",
            Kind::Decimal => "a number",
            Kind::Duration => "a duration such as \"30m\"",
            Kind::Size => "a size such as \"64KiB\"",
            Kind::Texts => "a list of texts",
            Kind::TextOrTexts => "text, or a list of texts",
            Kind::Table => "a table",
            Kind::Rule => "text, or a table with any or all",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table of the key.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The default, as written in TOML; empty: none.
    pub default: &'static str,
    /// A value for the printed configuration, as written in TOML.
    pub example: &'static str,
    /// One description for the reference. A line of it must not look like TOML (` = `).
    pub purpose: &'static str,
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// One description for the reference. A line of it must not look like TOML (` = `).
    pub purpose: &'static str,
    /// Whether the printed file has it as a comment, because it has no defaults.
    pub is_optional: bool,
}

pub(super) const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    purpose: &'static str,
) -> Key {
    Key {
        section,
        name,
        kind,
        default,
        example,
        purpose,
    }
}
