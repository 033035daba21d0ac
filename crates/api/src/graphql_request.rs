//! The body of a GraphQL request: JSON, or a form whose `variables` are JSON text, as PrimeHub's
//! Python client sends it.

use async_graphql::{Request, Variables};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

/// Deepest nesting of brackets in a document. The parser recurses on each, and a deep one would
/// overflow its stack.
const MAX_NESTING: usize = 64;

/// The fields of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    variables: Option<Value>,
    #[serde(default)]
    operation_name: Option<String>,
}

/// Why a body is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// The content type is neither of the two.
    #[error("the content type must be application/json or application/x-www-form-urlencoded")]
    ContentType,
    /// The body, or the variables in a form, cannot be read.
    #[error("{0}")]
    Syntax(String),
}

/// Reads a body.
///
/// # Errors
/// See [`BadBody`].
pub fn parse(content_type: &str, body: &[u8]) -> Result<Request, BadBody> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let fields = if kind.eq_ignore_ascii_case("application/json") {
        let wrong = |error| BadBody::Syntax(format!("the body is no JSON request: {error}"));
        serde_json::from_slice(body).map_err(wrong)?
    } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        form(body)?
    } else {
        return Err(BadBody::ContentType);
    };
    let missing = || BadBody::Syntax("query: is required".to_owned());
    let query = fields.query.ok_or_else(missing)?;
    if is_too_deep(&query) {
        let what = format!("query: is nested deeper than {MAX_NESTING} levels");
        return Err(BadBody::Syntax(what));
    }
    let mut request = Request::new(query);
    request.operation_name = fields.operation_name.filter(|name| !name.is_empty());
    match fields.variables {
        None | Some(Value::Null) => Ok(request),
        Some(variables) if variables.is_object() => {
            Ok(request.variables(Variables::from_json(variables)))
        }
        Some(_) => Err(BadBody::Syntax("variables: must be an object".to_owned())),
    }
}

fn form(body: &[u8]) -> Result<Fields, BadBody> {
    let mut fields = Fields::default();
    for (name, value) in form_urlencoded::parse(body) {
        match &*name {
            "query" => fields.query = Some(value.into_owned()),
            "operationName" => fields.operation_name = Some(value.into_owned()),
            "variables" if !value.is_empty() => {
                let wrong = |error| BadBody::Syntax(format!("variables: are no JSON: {error}"));
                fields.variables = Some(serde_json::from_str(&value).map_err(wrong)?);
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// Whether brackets outside of texts and comments are nested too deeply.
fn is_too_deep(query: &str) -> bool {
    let mut depth = 0usize;
    let mut rest = query.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            b'#' => rest = after_byte(rest, |byte| matches!(byte, b'\n' | b'\r')),
            b'"' => rest = after_text(rest),
            _ => {}
        }
        if depth > MAX_NESTING {
            return true;
        }
    }
    false
}

/// What follows a text (GraphQL, October 2021, section 2.9.4). `rest` begins after its first quote.
fn after_text(rest: &[u8]) -> &[u8] {
    let Some(mut block) = rest.strip_prefix(b"\"\"") else {
        let mut is_escaped = false;
        return after_byte(rest, |byte| {
            let is_end = !is_escaped && byte == b'"';
            is_escaped = !is_escaped && byte == b'\\';
            is_end || byte == b'\n'
        });
    };
    while !block.is_empty() {
        if let Some(after) = block.strip_prefix(b"\"\"\"") {
            return after;
        }
        block = block.strip_prefix(b"\\\"\"\"").unwrap_or(&block[1..]);
    }
    block
}

fn after_byte(rest: &[u8], is_end: impl FnMut(u8) -> bool) -> &[u8] {
    let mut is_end = is_end;
    let at = rest.iter().position(|byte| is_end(*byte));
    at.map_or(&[], |at| &rest[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_and_json_are_the_same_request() {
        let form = "query=%7Bme%7Bid%7D%7D&variables=%7B%22a%22%3A1%7D";
        let json = r#"{"query":"{me{id}}","variables":{"a":1}}"#;
        for (kind, body) in [
            ("application/x-www-form-urlencoded", form),
            ("application/json; charset=utf-8", json),
        ] {
            let request = parse(kind, body.as_bytes()).expect("a request");
            assert_eq!(request.query, "{me{id}}");
            assert_eq!(request.variables.len(), 1);
        }
    }

    #[test]
    fn variables_may_be_absent_empty_or_null() {
        for (kind, body) in [
            (
                "application/json",
                r#"{"query":"{me{id}}","variables":null}"#,
            ),
            ("application/json", r#"{"query":"{me{id}}"}"#),
            ("application/x-www-form-urlencoded", "query=x&variables="),
            (
                "application/x-www-form-urlencoded",
                "query=x&variables=null",
            ),
        ] {
            assert!(parse(kind, body.as_bytes()).is_ok(), "{body}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_the_parser_follows_it() {
        let nested = |depth: usize| format!("{{ a(b: {}) }}", "[".repeat(depth));
        for depth in [100, 100_000] {
            assert!(is_too_deep(&nested(depth)), "{depth}");
        }
        let deepest = nested(MAX_NESTING - 2);
        assert!(!is_too_deep(&deepest));
        assert!(
            async_graphql::parser::parse_query(deepest).is_err(),
            "and the stack holds"
        );
        let many = "{ a } ".repeat(10_000);
        assert!(!is_too_deep(&many));
        let brackets = "[".repeat(100);
        for text in [
            format!("{{ a(b: \"{brackets}\") }}"),
            format!("{{ a(b: \"\\\"{brackets}\") }}"),
            format!("{{ a(b: \"\"\"x\" \\\"\"\" {brackets}\"\"\") }}"),
            format!("# {brackets}\n{{ a }}"),
        ] {
            assert!(!is_too_deep(&text), "{text}");
            assert!(is_too_deep(&format!("{text} {brackets}")), "{text}");
        }
    }

    #[test]
    fn anything_else_has_a_clear_error() {
        for (kind, body, wanted) in [
            ("text/plain", "{}", "the content type must be"),
            ("", "{}", "the content type must be"),
            ("application/json", "{}", "query: is required"),
            ("application/json", "7", "the body is no JSON request"),
            ("application/json", "\u{0}", "the body is no JSON request"),
            (
                "application/json",
                r#"{"query":7}"#,
                "the body is no JSON request",
            ),
            (
                "application/json",
                r#"{"query":"x","variables":[]}"#,
                "variables: must be an object",
            ),
            (
                "application/x-www-form-urlencoded",
                "",
                "query: is required",
            ),
            (
                "application/x-www-form-urlencoded",
                "query=x&variables=%7B",
                "variables: are no JSON",
            ),
        ] {
            let error = parse(kind, body.as_bytes()).expect_err("bad").to_string();
            assert!(error.starts_with(wanted), "{body}: {error}");
        }
    }
}
