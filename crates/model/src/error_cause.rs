//! The causes behind an error.

use std::{error::Error, io};

/// The messages of an error and its causes, from the outermost. A message that is part of those
/// before it is left out.
pub fn chain_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}

/// The first error of this type among an error and its causes.
pub fn find_cause<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        // The source of an `io::Error` is that of its inner error, so the inner error itself is
        // taken first.
        next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Innermost(u8);

    #[derive(Debug)]
    struct Outer(io::Error);

    impl std::fmt::Display for Innermost {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("innermost")
        }
    }

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("outer")
        }
    }

    impl Error for Innermost {}

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_found_behind_sources_and_inside_io_errors() {
        let inner = io::Error::other(Innermost(1));
        let error = Outer(io::Error::other(inner));
        assert_eq!(find_cause::<Innermost>(&error), Some(&Innermost(1)));
        let itself = Innermost(2);
        assert_eq!(find_cause::<Innermost>(&itself), Some(&itself));
        assert_eq!(chain_text(&error), "outer: innermost");
        assert_eq!(chain_text(&itself), "innermost");
        let other = Outer(io::ErrorKind::BrokenPipe.into());
        assert_eq!(find_cause::<Innermost>(&other), None);
    }
}
