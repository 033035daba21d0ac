//! A script tag in a page, inserted while the page passes. At most the beginning of the page is
//! held.
//!
//! The tag goes right after `<head>`: there no `<base>` changes the URL of the script, and no
//! policy in a `<meta>` refuses it. `</head>` is not searched for: it may be part of a script.

use std::mem;

use bytes::Bytes;
use hyper::body::Frame;

/// Maximum number of bytes that are searched for the place. More are held only if they come in one
/// piece.
const MAX_SEARCHED: usize = 4 * 1024;
/// Enough bytes to recognize every construct before the content: `<!doctype` and one more.
const LOOKAHEAD: usize = 10;

/// The state of one page.
#[derive(Debug)]
pub(super) struct ScriptInsertion {
    tag: &'static str,
    held: Vec<u8>,
    prologue: Prologue,
    is_done: bool,
    /// Trailers that came before the held bytes were passed on.
    pub(super) trailers: Option<Frame<Bytes>>,
}

impl ScriptInsertion {
    /// A page that begins.
    pub(super) fn new(tag: &'static str) -> ScriptInsertion {
        ScriptInsertion {
            tag,
            held: Vec::new(),
            prologue: Prologue::default(),
            is_done: false,
            trailers: None,
        }
    }

    /// The next bytes of the page with the tag, as soon as the place is known.
    pub(super) fn feed(&mut self, data: Bytes) -> Option<Bytes> {
        if self.is_done {
            return Some(data);
        }
        self.held.extend_from_slice(&data);
        match self.prologue.find_place(&self.held) {
            Place::Unknown if self.held.len() < MAX_SEARCHED => None,
            Place::At(at) => {
                let (before, after) = self.held.split_at(at);
                let page = [before, self.tag.as_bytes(), after].concat();
                self.is_done = true;
                self.held = Vec::new();
                Some(page.into())
            }
            Place::Unknown | Place::Nowhere => self.finish(),
        }
    }

    /// The page has ended, or has no place for the tag: the held bytes.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        self.is_done = true;
        let held = mem::take(&mut self.held);
        (!held.is_empty()).then(|| held.into())
    }

    /// Whether nothing is left to be passed on.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.trailers.is_none()
    }
}

/// Where the tag goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    At(usize),
    /// This is no HTML document.
    Nowhere,
    /// More bytes are needed.
    Unknown,
}

/// What comes before the content of a page: blanks, comments, declarations, `<html>`, `<head>`.
#[derive(Debug, Default)]
struct Prologue {
    /// The end of what was recognized.
    at: usize,
    /// A doctype or `<html>` was among it.
    is_html: bool,
}

impl Prologue {
    /// Continues in the page, whose earlier bytes are the same as before.
    fn find_place(&mut self, page: &[u8]) -> Place {
        loop {
            let rest = page.get(self.at..).unwrap_or_default();
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
            let blanks = blanks.count();
            self.at += blanks;
            let rest = &rest[blanks..];
            if rest.len() < LOOKAHEAD {
                return Place::Unknown;
            }
            let end = if self.at == 0 && rest.starts_with(b"\xef\xbb\xbf") {
                Some(3)
            } else if rest.starts_with(b"<!--") {
                comment_end(rest)
            } else if rest.starts_with(b"<!") || rest.starts_with(b"<?") {
                self.is_html |= begins(rest, b"<!doctype");
                rest.iter().position(|byte| *byte == b'>').map(|at| at + 1)
            } else if is_tag(rest, b"<html") {
                self.is_html = true;
                tag_end(rest)
            } else if is_tag(rest, b"<head") {
                return tag_end(rest).map_or(Place::Unknown, |end| Place::At(self.at + end));
            } else if self.is_html {
                // The tags of the head are optional; a script begins one.
                return Place::At(self.at);
            } else {
                return Place::Nowhere;
            };
            match end {
                Some(end) => self.at += end,
                None => return Place::Unknown,
            }
        }
    }
}

fn begins(text: &[u8], name: &[u8]) -> bool {
    text.get(..name.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(name))
}

/// Whether the text begins with a tag of this name, and not of a longer one.
fn is_tag(text: &[u8], name: &[u8]) -> bool {
    let next = text.get(name.len());
    let ends = next.is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    ends && begins(text, name)
}

/// The end of a comment. `<!-->` is a whole one, and `--!>` ends one too.
fn comment_end(text: &[u8]) -> Option<usize> {
    let find = |from: usize, end: &[u8]| {
        let mut windows = text[from..].windows(end.len());
        let at = windows.position(|window| window == end)?;
        Some(from + at + end.len())
    };
    let ends = [find(2, b"-->"), find(4, b"--!>")];
    ends.into_iter().flatten().min()
}

/// The end of a tag. A quote begins a value only after `=`.
fn tag_end(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    // The last byte that is not blank.
    let mut before = b' ';
    for (at, byte) in text.iter().copied().enumerate() {
        match quote {
            Some(open) if open == byte => quote = None,
            Some(_) => {}
            None if byte == b'>' => return Some(at + 1),
            None if matches!(byte, b'"' | b'\'') && before == b'=' => quote = Some(byte),
            None => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "<script></script>";

    /// The page that comes out if it goes in in pieces of this size.
    fn with_tag(page: &str, size: usize) -> String {
        let mut insertion = ScriptInsertion::new(TAG);
        let mut out = Vec::new();
        for piece in page.as_bytes().chunks(size) {
            out.extend(insertion.feed(Bytes::copy_from_slice(piece)));
        }
        out.extend(insertion.finish());
        assert!(insertion.is_empty());
        String::from_utf8(out.concat()).expect("UTF-8")
    }

    #[test]
    fn the_tag_goes_to_the_beginning_of_the_head() {
        // `|` is the place.
        for page in [
            "<!doctype html><html lang=\"en\"><head>|<title>A</title></head><body></body></html>",
            "\u{feff}<!DOCTYPE HTML>\n\n<HTML>\n<HEAD class=\"a>b\" data-x = '>'>|<base href=\"//x/\">",
            "<!-- <head> --><!doctype html><!--> <html><head>|<script>\"</head>\"</script>",
            "<!doctype html><!-- a --!><html><!-- b --> <head\n>|<meta charset=\"utf-8\">",
            "<?xml version=\"1.0\"?><!DOCTYPE html PUBLIC \"-//W3C//DTD\"><html a\"><head>|</head>",
            // The tags of the head are optional.
            "<!doctype html>|<title>A page</title><p>Text",
            "<html>|<body>Text of a page</body></html>",
            "<!doctype html>\n|<header>Not the head</header>",
            "<!doctype html>|Text, and nothing but text",
            "<head>|<title>Without a doctype</title>",
        ] {
            let plain = page.replace('|', "");
            let expected = page.replace('|', TAG);
            for size in [1, 7, plain.len()] {
                assert_eq!(with_tag(&plain, size), expected, "{size}");
            }
        }
    }

    #[test]
    fn what_is_no_whole_document_stays() {
        for page in [
            "",
            "<",
            "<div>A part of a page</div>",
            "{\"json\": \"<html><head>\"}",
            "\u{feff}Text <html><head></head>",
            "<!-- <html><head></head> never ends",
            "<!doctype html><html lang=\"",
            "<headline>No head</headline>",
            "\0<\0h\0t\0m\0l\0>\0<\0h\0e\0a\0d\0>",
        ] {
            for size in [1, 100, page.len().max(1)] {
                assert_eq!(with_tag(page, size), page, "{size}");
            }
        }
        let comment = "x".repeat(MAX_SEARCHED);
        let late = format!("<!doctype html><!--{comment}--><head></head>");
        assert_eq!(with_tag(&late, 100), late);
    }

    #[test]
    fn no_more_than_the_beginning_is_held() {
        let mut insertion = ScriptInsertion::new(TAG);
        let blanks = Bytes::from(vec![b' '; 1024]);
        let mut passed = 0;
        for _ in 0..64 {
            passed += insertion.feed(blanks.clone()).map_or(0, |data| data.len());
            assert!(insertion.held.len() < MAX_SEARCHED);
        }
        assert_eq!(passed, 64 * 1024);
    }
}
