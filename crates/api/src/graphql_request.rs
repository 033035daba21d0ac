//! The body of a GraphQL request: JSON, or a form whose `variables` are JSON text, as PrimeHub's
//! Python client sends it.

use async_graphql::{Request, Variables};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

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
    let mut request = Request::new(fields.query.ok_or_else(missing)?);
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
