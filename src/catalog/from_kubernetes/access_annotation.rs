//! The access rule in an annotation of a `PhApplication`: JSON, in the form of the configuration
//! file.
//!
//! Invariant: an annotation that cannot be read denies every caller. It never falls back to the
//! scope.

use serde_json::Value;

use super::shown_text::{MAX_TITLE, shown};
use crate::model::access::{Access, compound::WrittenRule};

/// Longest annotation, in bytes: 32 clauses with long names.
const MAX_ANNOTATION: usize = 16 * 1024;

/// The rule, and what is wrong with it if it denies every caller.
pub(super) fn read(annotation: &str) -> (Access, Option<String>) {
    match parse(annotation) {
        Ok(access) => (access, None),
        Err(why) => {
            let written = shown(annotation, MAX_TITLE);
            (Access::Unknown(written.into()), Some(why))
        }
    }
}

fn parse(annotation: &str) -> Result<Access, String> {
    if annotation.len() > MAX_ANNOTATION {
        return Err(format!("is longer than {MAX_ANNOTATION} bytes"));
    }
    let value = serde_json::from_str(annotation).map_err(|error| format!("is no JSON: {error}"))?;
    let written = rule(&value).ok_or("is no text, and no object with the key any or all")?;
    Access::from_written(&written).map_err(|error| shown(&error.to_string(), MAX_TITLE))
}

fn rule(value: &Value) -> Option<WrittenRule> {
    let object = match value {
        Value::String(text) => return Some(WrittenRule::Clause(text.clone())),
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let mut entries = object.iter();
    let (Some((key, list)), None) = (entries.next(), entries.next()) else {
        return None;
    };
    let parts = list.as_array()?.iter().map(rule).collect::<Option<_>>()?;
    match key.as_str() {
        "any" => Some(WrittenRule::Any(parts)),
        "all" => Some(WrittenRule::All(parts)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_holds_a_rule_or_denies() {
        for (annotation, wanted) in [
            (r#""user""#, "user"),
            (r#""group:phusers""#, "group:phusers"),
            (
                r#"{"any": ["group:a", "email:*@x.test"]}"#,
                "any(group:a, email:*@x.test)",
            ),
            (
                r#"{"all": ["user", {"any": ["group:a", "group:b"]}, "deny:owner:eve"]}"#,
                "all(user, any(group:a, group:b)), deny:owner:eve",
            ),
        ] {
            let (access, problem) = read(annotation);
            assert_eq!((access.to_string().as_str(), problem), (wanted, None));
        }
        let long = format!(r#"{{"any": ["group:{}"]}}"#, "a".repeat(MAX_ANNOTATION));
        for bad in [
            "",
            "user",
            "null",
            "[]",
            r#"["user"]"#,
            r#""""#,
            r#""primehub""#,
            "{}",
            r#"{"any": "user"}"#,
            r#"{"any": ["user"], "all": ["user"]}"#,
            r#"{"Any": ["user"]}"#,
            r#"{"any": []}"#,
            r#"{"any": ["user", 7]}"#,
            r#"{"any": ["user", "Group:a"]}"#,
            r#"{"any": ["user"]} x"#,
            long.as_str(),
        ] {
            let (access, problem) = read(bad);
            assert!(matches!(access, Access::Unknown(_)), "{bad}");
            assert!(problem.is_some(), "{bad}");
        }
    }
}
