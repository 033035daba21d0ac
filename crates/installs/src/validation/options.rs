//! The rules of Helm's options.

use ludgate_cluster::crd::app_target::DeployOptions;
use ludgate_model::go_duration;

use super::field_error::FieldError;

/// Checks options after their defaults were set.
pub fn validate_options(options: Option<&DeployOptions>, field: &str) -> Vec<FieldError> {
    let Some(helm) = options.and_then(|options| options.helm.as_ref()) else {
        return Vec::new();
    };
    let field = format!("{field}.helm");
    let written = helm.timeout.as_deref().unwrap_or("0");
    let timeout = match go_duration::parse(written) {
        Some(timeout) if timeout >= 0 => timeout,
        Some(_) | None => {
            let text = format!("Invalid value: \"{written}\": must be a duration such as 5m");
            return vec![FieldError::new(format!("{field}.timeout"), text)];
        }
    };
    let mut errors = Vec::new();
    let mut check = |is_wrong: bool, text: &str| {
        if is_wrong {
            errors.push(FieldError::new(&field, text));
        }
    };
    let is_unwaited = helm.atomic && !helm.wait;
    check(is_unwaited, "if atomic=true then wait must also be true");
    let is_endless = helm.wait && timeout == 0;
    check(
        is_endless,
        "if wait = true then timeout must be greater than 0",
    );
    let is_unused = !helm.wait && timeout > 0;
    check(is_unused, "if timeout is defined then wait must be true");
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn atomic_needs_wait_and_wait_needs_a_timeout() {
        for (helm, wanted) in [
            (json!({}), None),
            (
                json!({ "wait": true, "timeout": "5ns", "atomic": true }),
                None,
            ),
            (json!({ "wait": true, "timeout": "5ns" }), None),
            (json!({ "enableDNS": true }), None),
            (
                json!({ "atomic": true }),
                Some("if atomic=true then wait must also be true"),
            ),
            (
                json!({ "wait": true, "timeout": "0s" }),
                Some("if wait = true then timeout must be greater than 0"),
            ),
            (
                json!({ "timeout": "5m" }),
                Some("if timeout is defined then wait must be true"),
            ),
            (
                json!({ "wait": true, "timeout": "-5m" }),
                Some("Invalid value: \"-5m\": must be a duration such as 5m"),
            ),
        ] {
            let options = json!({ "helm": helm });
            let options: DeployOptions = serde_json::from_value(options).expect("options");
            let errors = validate_options(Some(&options), "spec.deployOptions");
            let texts: Vec<_> = errors.iter().map(|error| error.text.as_str()).collect();
            assert_eq!(texts, wanted.into_iter().collect::<Vec<_>>(), "{helm}");
        }
        assert_eq!(validate_options(None, "x"), []);
        assert_eq!(validate_options(Some(&DeployOptions::default()), "x"), []);
    }
}
