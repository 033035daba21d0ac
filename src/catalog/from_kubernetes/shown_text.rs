//! Texts of objects, as pages and logs show them.

use crate::model::text::is_directional;

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 256;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 1024;

/// A text without control characters and bidirectional overrides, cut to `most` bytes.
pub fn shown(text: &str, most: usize) -> String {
    let clean = text.trim().chars().filter(|character| {
        (!character.is_control() || *character == '\n') && !is_directional(*character)
    });
    let mut short = String::new();
    for character in clean {
        if short.len() + character.len_utf8() > most {
            short.push('…');
            break;
        }
        short.push(character);
    }
    short
}
