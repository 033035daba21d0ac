//! One option of oauth2-proxy, and what becomes of it.

use crate::import::value::ValueKind;

/// One option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionEntry {
    /// Its name in the configuration file.
    pub(crate) name: &'static str,
    /// The type of its value.
    pub(crate) kind: ValueKind,
    /// What becomes of it.
    pub(crate) treatment: Treatment,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Treatment {
    /// The code of a subject translates it, together with others.
    Translated,
    /// Ludgate always does what this value says. Another value is not supported, for this reason.
    Fixed(&'static str, &'static str),
    /// Not needed, for this reason.
    NotNeeded(&'static str),
    /// Not supported: the meaning, and what to do instead.
    NotSupported(&'static str),
}

const fn option(name: &'static str, kind: ValueKind, treatment: Treatment) -> OptionEntry {
    OptionEntry {
        name,
        kind,
        treatment,
    }
}

/// An option that is translated.
pub(crate) const fn translated(name: &'static str, kind: ValueKind) -> OptionEntry {
    option(name, kind, Treatment::Translated)
}

/// An option of which Ludgate always has one value.
pub(crate) const fn fixed(
    name: &'static str,
    kind: ValueKind,
    value: &'static str,
    otherwise: &'static str,
) -> OptionEntry {
    option(name, kind, Treatment::Fixed(value, otherwise))
}

/// An option without a need.
pub(crate) const fn unneeded(
    name: &'static str,
    kind: ValueKind,
    reason: &'static str,
) -> OptionEntry {
    option(name, kind, Treatment::NotNeeded(reason))
}

/// An option without a counterpart.
pub(crate) const fn unsupported(
    name: &'static str,
    kind: ValueKind,
    instead: &'static str,
) -> OptionEntry {
    option(name, kind, Treatment::NotSupported(instead))
}
