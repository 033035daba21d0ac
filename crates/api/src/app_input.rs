//! What people ask for when they make or change an app, checked before anything is written.

use ludgate_model::principal::Principal;
use serde_json::Value;

use crate::{
    error::OperationError,
    platform::PlatformSettings,
    variables::{self, Variable},
};

/// Longest id: `init-<id>` is the name of a container, and so a DNS label.
pub const MAX_ID: usize = 58;
/// Longest name for people, in characters.
const MAX_DISPLAY_NAME: usize = 128;
/// The values of `scope`.
const SCOPES: [&str; 3] = ["public", "primehub", "group"];

/// A request for a new app, as it was written.
#[derive(Clone, Debug, Default)]
pub struct WrittenApp {
    /// Its name in the cluster and in its URL.
    pub id: String,
    /// The template.
    pub template: Option<String>,
    /// The name for people.
    pub display_name: Option<String>,
    /// The group it belongs to.
    pub group: Option<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// Who may open it.
    pub scope: Option<String>,
    /// The environment variables.
    pub env: Option<Value>,
}

/// A request for a new app that is valid by itself.
#[derive(Clone, Debug)]
pub struct NewApp {
    /// Its name in the cluster and in its URL.
    pub id: String,
    /// The template.
    pub template: String,
    /// The name for people.
    pub display_name: String,
    /// The group it belongs to.
    pub group: String,
    /// The instance type.
    pub instance_type: String,
    /// Who may open it.
    pub scope: String,
    /// The environment variables.
    pub variables: Vec<Variable>,
}

/// A change of an app, as it was written; what is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub struct WrittenChange {
    /// The name for people.
    pub display_name: Option<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// Who may open it.
    pub scope: Option<String>,
    /// All environment variables.
    pub env: Option<Value>,
}

/// A change that is valid by itself.
#[derive(Clone, Debug, Default)]
pub struct AppChange {
    /// The name for people.
    pub display_name: Option<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// Who may open it.
    pub scope: Option<String>,
    /// All environment variables.
    pub variables: Option<Vec<Variable>>,
}

impl NewApp {
    /// Checks a request of a person.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] for the first mistake; [`OperationError::NotAuthorised`] if the
    /// person is not in the group.
    pub fn parse(
        written: WrittenApp,
        person: &Principal,
        platform: &PlatformSettings,
    ) -> Result<NewApp, OperationError> {
        check_id(&written.id)?;
        let template = required("templateId", written.template)?;
        let display_name = required("displayName", written.display_name)?;
        check_display_name(&display_name)?;
        let group = required("groupName", written.group)?;
        let instance_type = required("instanceType", written.instance_type)?;
        let scope = required("scope", written.scope)?;
        check_scope(&scope)?;
        let variables = match &written.env {
            None | Some(Value::Null) => Vec::new(),
            Some(env) => variables::parse(env)?,
        };
        if !PlatformSettings::may_manage(person, &group) {
            return Err(OperationError::NotAuthorised);
        }
        if !platform.groups.contains_key(&group) {
            return invalid(format!("groupName: the platform has no group {group:?}"));
        }
        Ok(NewApp {
            id: written.id,
            template,
            display_name,
            group,
            instance_type,
            scope,
            variables,
        })
    }
}

impl AppChange {
    /// Checks a change.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] for the first mistake.
    pub fn parse(written: WrittenChange) -> Result<AppChange, OperationError> {
        if let Some(name) = &written.display_name {
            check_display_name(name)?;
        }
        if let Some(scope) = &written.scope {
            check_scope(scope)?;
        }
        let variables = match &written.env {
            None | Some(Value::Null) => None,
            Some(env) => Some(variables::parse(env)?),
        };
        Ok(AppChange {
            display_name: written.display_name,
            instance_type: written.instance_type,
            scope: written.scope,
            variables,
        })
    }
}

fn invalid<T>(what: impl Into<String>) -> Result<T, OperationError> {
    Err(OperationError::Invalid(what.into()))
}

fn required(field: &str, written: Option<String>) -> Result<String, OperationError> {
    match written.filter(|text| !text.is_empty()) {
        Some(text) => Ok(text),
        None => invalid(format!("{field}: is required")),
    }
}

fn check_id(id: &str) -> Result<(), OperationError> {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_label = !id.is_empty()
        && id.len() <= MAX_ID
        && id.bytes().all(is_inner)
        && !id.starts_with('-')
        && !id.ends_with('-');
    if is_label {
        return Ok(());
    }
    invalid(format!(
        "id: {:?} is not valid; it has 1 to {MAX_ID} lower-case letters, digits and inner dashes",
        id.chars().take(80).collect::<String>()
    ))
}

fn check_display_name(name: &str) -> Result<(), OperationError> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return invalid("displayName: must have a visible character, and no control characters");
    }
    if name.chars().count() > MAX_DISPLAY_NAME {
        return invalid(format!(
            "displayName: at most {MAX_DISPLAY_NAME} characters"
        ));
    }
    Ok(())
}

fn check_scope(scope: &str) -> Result<(), OperationError> {
    match SCOPES.contains(&scope) {
        true => Ok(()),
        false => invalid(format!("scope: must be one of {}", SCOPES.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{person, platform};

    fn written() -> WrittenApp {
        let text = |text: &str| Some(text.to_owned());
        WrittenApp {
            id: "mlflow-1a2b3".to_owned(),
            template: text("mlflow"),
            display_name: text("My MLflow"),
            group: text("phusers"),
            instance_type: text("cpu-1"),
            scope: text("group"),
            env: None,
        }
    }

    fn parse(written: WrittenApp) -> Result<NewApp, OperationError> {
        NewApp::parse(written, &person(&["phusers"]), &platform())
    }

    fn message(written: WrittenApp) -> String {
        parse(written).expect_err("not valid").to_string()
    }

    #[test]
    fn an_id_is_a_short_dns_label() {
        for id in ["a", "7", "a-b", &"a".repeat(58)] {
            let written = WrittenApp {
                id: id.to_owned(),
                ..written()
            };
            assert!(parse(written).is_ok(), "{id}");
        }
        for id in [
            "",
            "-a",
            "mlflow-",
            "a.b",
            "A",
            "ä",
            "a b",
            "a/b",
            &"a".repeat(59),
        ] {
            let written = WrittenApp {
                id: id.to_owned(),
                ..written()
            };
            let said = message(written);
            assert!(said.starts_with("id: ") && said.len() < 200, "{said}");
        }
    }

    #[test]
    fn each_field_is_required_and_checked() {
        type Change = fn(&mut WrittenApp);
        let cases: [(Change, &str); 8] = [
            (|app| app.template = None, "templateId: is required"),
            (
                |app| app.group = Some(String::new()),
                "groupName: is required",
            ),
            (|app| app.instance_type = None, "instanceType: is required"),
            (|app| app.scope = None, "scope: is required"),
            (
                |app| app.scope = Some("all".into()),
                "scope: must be one of public, primehub, group",
            ),
            (
                |app| app.display_name = Some(" ".into()),
                "displayName: must have a visible character, and no control characters",
            ),
            (
                |app| app.display_name = Some("x".repeat(129)),
                "displayName: at most 128 characters",
            ),
            (
                |app| app.env = Some(json!([{ "name": "A", "valueFrom": {} }])),
                "env[0]: A: valueFrom is not allowed, only name and value",
            ),
        ];
        for (change, wanted) in cases {
            let mut app = written();
            change(&mut app);
            assert_eq!(message(app), wanted);
        }
    }

    #[test]
    fn a_group_of_others_is_refused_like_one_that_does_not_exist() {
        for group in ["others", "nowhere", "PHUSERS"] {
            let written = WrittenApp {
                group: Some(group.into()),
                ..written()
            };
            assert_eq!(
                parse(written).expect_err("refused"),
                OperationError::NotAuthorised
            );
        }
        let unknown = WrittenApp {
            group: Some("nowhere".into()),
            ..written()
        };
        let member = NewApp::parse(unknown, &person(&["nowhere"]), &platform());
        let said = member.expect_err("refused").to_string();
        assert_eq!(said, "groupName: the platform has no group \"nowhere\"");
    }

    #[test]
    fn a_change_may_be_empty_and_is_checked_like_a_new_app() {
        assert!(AppChange::parse(WrittenChange::default()).is_ok());
        let cleared = WrittenChange {
            env: Some(json!([])),
            ..WrittenChange::default()
        };
        let cleared = AppChange::parse(cleared).expect("valid");
        assert_eq!(cleared.variables, Some(Vec::new()));
        let wrong = WrittenChange {
            scope: Some("all".into()),
            ..WrittenChange::default()
        };
        assert!(AppChange::parse(wrong).is_err());
    }
}
