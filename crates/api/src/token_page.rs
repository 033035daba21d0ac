//! The page at the end of the browser's part: a code to copy, or what went wrong.

use askama::Template;
use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};

/// The style of the page; it stands in the page itself, and its hash in the policy.
const STYLE: &str = include_str!("../templates/style.css");

/// The page.
#[derive(Template)]
#[template(path = "api_token.html")]
pub(crate) struct TokenPage<'p> {
    /// A few words.
    title: &'static str,
    style: &'static str,
    /// The code to copy.
    code: Option<&'p str>,
    /// What went wrong.
    sentence: &'p str,
    /// Where to begin again.
    again: &'static str,
}

impl<'p> TokenPage<'p> {
    /// Shows the code.
    pub(crate) fn code(code: &'p str) -> TokenPage<'p> {
        TokenPage {
            title: "Your code",
            style: STYLE,
            code: Some(code),
            sentence: "",
            again: "",
        }
    }

    /// Says what went wrong; `again` is where to begin again.
    pub(crate) fn failure(sentence: &'p str, again: &'static str) -> TokenPage<'p> {
        TokenPage {
            title: "No code was made",
            style: STYLE,
            code: None,
            sentence,
            again,
        }
    }
}

/// `Content-Security-Policy` of the page: it loads nothing and runs nothing.
pub(crate) fn policy() -> String {
    let hash = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}
