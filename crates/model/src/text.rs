//! Characters of texts that others wrote and that we show.

/// Whether the character changes the direction of text (Unicode Standard Annex 9, section 2). On a
/// page or in a log it could make a name look like another one.
pub fn is_directional(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_embeddings_overrides_and_isolates_change_the_direction() {
        let directional: Vec<u32> = (0..=0x10_ffff)
            .filter(|code| char::from_u32(*code).is_some_and(is_directional))
            .collect();
        assert_eq!(
            directional,
            [
                0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067,
                0x2068, 0x2069
            ]
        );
        // It joins emoji, and letters of Persian.
        assert!(!is_directional('\u{200d}') && !is_directional('\u{200c}'));
    }
}
