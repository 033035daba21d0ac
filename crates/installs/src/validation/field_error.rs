//! Errors of single fields, in the words of the Kubernetes API.

use std::fmt;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.method`.
    pub field: String,
    /// What is wrong.
    pub text: String,
}

impl FieldError {
    /// An error of a field.
    pub fn new(field: impl Into<String>, text: impl Into<String>) -> FieldError {
        FieldError {
            field: field.into(),
            text: text.into(),
        }
    }

    /// The field names something that does not exist.
    pub fn not_found(field: &str, value: &str) -> FieldError {
        FieldError::new(field, format!("Not found: \"{value}\""))
    }

    /// The value is none of those that are allowed.
    pub fn unsupported(field: &str, value: &str, supported: &[&str]) -> FieldError {
        let supported: Vec<_> = supported.iter().map(|one| format!("\"{one}\"")).collect();
        let supported = supported.join(", ");
        let text = format!("Unsupported value: \"{value}\": supported values: {supported}");
        FieldError::new(field, text)
    }

    /// The field was changed, and must not be.
    pub fn immutable(field: &str) -> FieldError {
        FieldError::new(field, "field is immutable")
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.text)
    }
}

/// All errors as one message.
pub fn message(errors: &[FieldError]) -> String {
    let errors: Vec<_> = errors.iter().map(FieldError::to_string).collect();
    match errors.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_all_errors() {
        let one = FieldError::not_found("spec.applicationRef.name", "x");
        let two = FieldError::unsupported("spec.method", "y", &["helm"]);
        assert_eq!(message(&[]), "");
        assert_eq!(
            message(std::slice::from_ref(&one)),
            "spec.applicationRef.name: Not found: \"x\""
        );
        assert_eq!(
            message(&[one, two]),
            "[spec.applicationRef.name: Not found: \"x\", spec.method: Unsupported value: \"y\": \
             supported values: \"helm\"]"
        );
    }
}
