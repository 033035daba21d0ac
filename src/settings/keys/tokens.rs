//! Keys of service tokens.

use super::key::{Key, Kind, Section, key};

/// The table.
pub const SECTION: Section = Section {
    name: "tokens",
    purpose: "Service tokens: credentials of programs, made by ludgate tokens create. See docs/programs.md.",
    is_optional: true,
};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "tokens",
        "file",
        Kind::Text,
        "",
        "\"service-tokens.json\"",
        "File with the hashes of tokens and with what they are for. The gateway reads it, and loads it again within a second of a change. One of file and store is required.",
    ),
    key(
        "tokens",
        "store",
        Kind::Text,
        "",
        "\"session\"",
        "\"session\": the tokens are in the Redis of session.store, which must keep its data over a restart. A revocation takes effect within ten seconds.",
    ),
];
