//! The claims of a token that access rules name.

use serde_json::Value;

use crate::model::{
    access::clause::{ClaimPointer, MAX_CLAIM_VALUE},
    known_claims::{KnownClaim, KnownClaims},
};

/// Maximum number of values of one claim that are kept.
const MAX_VALUES: usize = 64;

/// The kind of a token, which says what a claim means that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An ID token: the person does not have the claim.
    Id,
    /// An access token: nothing is known of the claim.
    Access,
}

/// The values of these claims. A claim with too many values, or too long ones, is not known.
pub(super) fn kept_claims(
    token: &Value,
    pointers: &[ClaimPointer],
    kind: TokenKind,
) -> KnownClaims {
    let known = pointers
        .iter()
        .filter_map(|pointer| known_claim(token, pointer, kind));
    KnownClaims::new(known.collect())
}

fn known_claim(token: &Value, pointer: &ClaimPointer, kind: TokenKind) -> Option<KnownClaim> {
    let values = match token.pointer(pointer.as_str()) {
        Some(value) => values(value)?,
        None if kind == TokenKind::Id => Vec::new(),
        None => return None,
    };
    Some(KnownClaim {
        pointer: pointer.clone(),
        values: values.into(),
    })
}

/// The values as texts: of a list those of its members. Objects and null have none.
fn values(value: &Value) -> Option<Vec<Box<str>>> {
    let members = match value {
        Value::Array(members) => members.as_slice(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            std::slice::from_ref(value)
        }
    };
    let texts: Vec<Box<str>> = members.iter().filter_map(text).collect();
    let fits = texts.len() <= MAX_VALUES && texts.iter().all(|text| text.len() <= MAX_CLAIM_VALUE);
    fits.then_some(texts)
}

fn text(value: &Value) -> Option<Box<str>> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(token: &Value, pointer: &str, kind: TokenKind) -> Option<Vec<String>> {
        let pointer = ClaimPointer::new(pointer).expect("a pointer");
        let claim = known_claim(token, &pointer, kind)?;
        Some(claim.values.iter().map(|value| value.to_string()).collect())
    }

    #[test]
    fn values_are_texts_alone_or_in_a_list() {
        let token = json!({
            "department": "sales", "level": 3, "staff": true, "none": null, "empty": "",
            "roles": ["a", 7, null, {"b": 1}], "realm": {"roles": ["x"]}, "a/b": "c",
        });
        for (pointer, wanted) in [
            ("/department", vec!["sales"]),
            ("/level", vec!["3"]),
            ("/staff", vec!["true"]),
            ("/none", vec![]),
            ("/empty", vec![""]),
            ("/roles", vec!["a", "7"]),
            ("/roles/0", vec!["a"]),
            ("/realm/roles", vec!["x"]),
            ("/realm", vec![]),
            ("/a~1b", vec!["c"]),
        ] {
            let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
            for kind in [TokenKind::Id, TokenKind::Access] {
                assert_eq!(
                    known(&token, pointer, kind),
                    Some(wanted.clone()),
                    "{pointer}"
                );
            }
        }
    }

    #[test]
    fn an_absent_claim_is_known_from_an_id_token_only_and_a_long_one_never() {
        let many: Vec<usize> = (0..=MAX_VALUES).collect();
        let token = json!({ "long": "x".repeat(MAX_CLAIM_VALUE + 1), "many": many });
        assert_eq!(known(&token, "/x", TokenKind::Id), Some(Vec::new()));
        assert_eq!(known(&token, "/x", TokenKind::Access), None);
        for pointer in ["/long", "/many"] {
            assert_eq!(known(&token, pointer, TokenKind::Id), None, "{pointer}");
        }
    }
}
