//! The entries of the table of keys.

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, possibly with a further syntax.
    Text,
    /// A boolean.
    Switch,
    /// A whole number.
    Number,
    /// A duration such as `30m`.
    Duration,
    /// A size such as `64KiB`.
    Size,
    /// A list of texts.
    Texts,
    /// A table of its own.
    Table,
}

impl Kind {
    /// The words for errors and the reference.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Switch => "true or false",
            Kind::Number => "a whole number",
            Kind::Duration => "a duration such as \"30m\"",
            Kind::Size => "a size such as \"64KiB\"",
            Kind::Texts => "a list of texts",
            Kind::Table => "a table",
        }
    }
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of its table.
    pub section: &'static str,
    /// Name as written.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Default as written; empty: none.
    pub default: &'static str,
    /// A value for the printed configuration, as written.
    pub example: &'static str,
    /// Description for the reference.
    pub purpose: &'static str,
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name as written.
    pub name: &'static str,
    /// Description for the reference.
    pub purpose: &'static str,
}

/// One entry, in the order of its fields.
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
