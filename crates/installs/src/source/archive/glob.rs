//! Patterns of file names with `*`, `?`, `[a-z]`, `[^a]` and `\`, none of which match a slash.

/// A pattern.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<Token>);

#[derive(Clone, Debug)]
enum Token {
    /// `*`
    AnyText,
    /// `?`
    AnyLetter,
    Letter(char),
    /// What stands in square brackets.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl Glob {
    /// Reads a pattern; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Glob> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some((first, behind)) = split_letter(rest) {
            let (token, behind) = match first {
                '*' => (Token::AnyText, behind),
                '?' => (Token::AnyLetter, behind),
                '[' => class(behind)?,
                '\\' => {
                    let (letter, behind) = split_letter(behind)?;
                    (Token::Letter(letter), behind)
                }
                letter => (Token::Letter(letter), behind),
            };
            tokens.push(token);
            rest = behind;
        }
        Some(Glob(tokens))
    }

    /// Whether the whole text matches. The time is the product of both lengths at most.
    pub(super) fn matches(&self, text: &str) -> bool {
        // At `reached[n]`: the letters so far match the first n tokens.
        let mut reached = vec![false; self.0.len() + 1];
        if let Some(start) = reached.first_mut() {
            *start = true;
        }
        self.skip_stars(&mut reached);
        for letter in text.chars() {
            let mut next = vec![false; reached.len()];
            for (at, token) in self.0.iter().enumerate() {
                if !reached.get(at).copied().unwrap_or_default() || !token.accepts(letter) {
                    continue;
                }
                let target = match token {
                    Token::AnyText => at,
                    Token::AnyLetter | Token::Letter(_) | Token::Class { .. } => at + 1,
                };
                if let Some(state) = next.get_mut(target) {
                    *state = true;
                }
            }
            self.skip_stars(&mut next);
            reached = next;
        }
        reached.last().copied().unwrap_or_default()
    }

    /// A star may also match nothing.
    fn skip_stars(&self, reached: &mut [bool]) {
        for (at, token) in self.0.iter().enumerate() {
            let is_reached = reached.get(at).copied().unwrap_or_default();
            if is_reached
                && matches!(token, Token::AnyText)
                && let Some(state) = reached.get_mut(at + 1)
            {
                *state = true;
            }
        }
    }
}

impl Token {
    fn accepts(&self, letter: char) -> bool {
        match self {
            Token::Letter(wanted) => *wanted == letter,
            Token::AnyText | Token::AnyLetter => letter != '/',
            Token::Class { ranges, is_negated } => {
                let is_in = ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&letter));
                letter != '/' && is_in != *is_negated
            }
        }
    }
}

fn split_letter(text: &str) -> Option<(char, &str)> {
    let mut letters = text.chars();
    Some((letters.next()?, letters.as_str()))
}

/// The class that begins behind a bracket, and what is behind it.
fn class(text: &str) -> Option<(Token, &str)> {
    let (mut rest, is_negated) = match text.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let mut ranges = Vec::new();
    loop {
        let end = rest.strip_prefix(']').filter(|_| !ranges.is_empty());
        if let Some(behind) = end {
            return Some((Token::Class { ranges, is_negated }, behind));
        }
        let (low, behind) = class_letter(rest)?;
        let (high, behind) = match behind.strip_prefix('-') {
            Some(behind) => class_letter(behind)?,
            None => (low, behind),
        };
        ranges.push((low, high));
        rest = behind;
    }
}

fn class_letter(text: &str) -> Option<(char, &str)> {
    match split_letter(text)? {
        ('\\', rest) => split_letter(rest),
        ('-' | ']', _) => None,
        letter => Some(letter),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a/b", false),
            ("*.swp", ".swp", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "/", false),
            ("?x", "üx", true),
            ("[a-c]", "b", true),
            ("[^a-c]", "b", false),
            ("[^a-c]", "/", false),
            ("[a-c-]", "-", false),
            ("[\\]]", "]", true),
            ("[xyz]", "y", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            let found = Glob::parse(pattern).is_some_and(|glob| glob.matches(text));
            assert_eq!(found, wanted, "{pattern} {text}");
        }
        for pattern in ["[", "[a", "[]", "[^]", "a\\", "[a-]", "[-a]", "*["] {
            assert!(Glob::parse(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = "*a".repeat(500) + "b";
        assert!(
            !Glob::parse(&pattern)
                .expect("valid")
                .matches(&"a".repeat(1000))
        );
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_a_star(text in "[a-z.]{0,20}", cut in 0_usize..20) {
            let (start, _) = text.split_at(cut.min(text.len()));
            for pattern in [text.clone(), format!("{start}*")] {
                prop_assert!(Glob::parse(&pattern).is_some_and(|glob| glob.matches(&text)));
            }
        }
    }
}
