//! References `$(NAME)` in `command`, `args` and values of `env`. Kubernetes expands a reference
//! only to a defined variable, and in `env` only to an earlier one. Otherwise the text stays.

use serde_json::Value;

use crate::application::environment::PRESET_NAMES;

/// A reference that Kubernetes does not replace.
pub struct UndefinedReference {
    /// Where it is.
    pub field: String,
    /// The name in it.
    pub name: String,
    /// The rest of the sentence `no variable …`.
    pub reason: &'static str,
}

/// The undefined references in a pod's first container, and in the default values of the variables
/// that people are asked for; these come after those of the pod.
pub fn undefined(pod: &Value, asked: &[Value]) -> Vec<UndefinedReference> {
    let container = &pod["containers"][0];
    let own = list(&container["env"]);
    let mut found = Vec::new();
    let mut defined: Vec<&str> = PRESET_NAMES.to_vec();
    let own_values = own.iter().enumerate().map(|(at, variable)| {
        let field = format!("spec.template.spec.podTemplate.spec.containers[0].env[{at}].value");
        (field, variable, "value")
    });
    let asked_values = asked.iter().enumerate().map(|(at, variable)| {
        let field = format!("spec.defaultEnvs[{at}].defaultValue");
        (field, variable, "defaultValue")
    });
    for (field, variable, key) in own_values.chain(asked_values) {
        let value = variable[key].as_str().unwrap_or_default();
        for name in names(value).filter(|name| !defined.contains(name)) {
            found.push(UndefinedReference {
                field: field.clone(),
                name: name.to_owned(),
                reason: "of this name is defined above it",
            });
        }
        defined.extend(variable["name"].as_str());
    }
    for kind in ["command", "args"] {
        for (at, text) in list(&container[kind]).iter().enumerate() {
            let text = text.as_str().unwrap_or_default();
            for name in names(text).filter(|name| !defined.contains(name)) {
                found.push(UndefinedReference {
                    field: format!(
                        "spec.template.spec.podTemplate.spec.containers[0].{kind}[{at}]"
                    ),
                    name: name.to_owned(),
                    reason: "has this name",
                });
            }
        }
    }
    found
}

/// The names in references. Lower-case names are left out: in a shell, `$(date)` runs a program.
/// `$$(NAME)` is an escaped one.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("$(").filter_map(|(at, _)| {
        let (name, _) = text[at + 2..].split_once(')')?;
        let is_inner = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
        let is_name = !name.is_empty() && name.bytes().all(is_inner);
        (is_name && !text[..at].ends_with('$')).then_some(name)
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_needs_a_variable_above_it() {
        let pod = json!({ "containers": [{
            "env": [
                { "name": "FIRST", "value": "$(SECOND) $(PRIMEHUB_APP_ROOT)/x" },
                { "name": "SECOND", "value": "$(FIRST) $(ASKED)" },
            ],
            "command": ["sh", "-c"],
            "args": ["echo $(ASKED) $(dirname $X) $(date) $$(HOME) $(HOME) $(UNCLOSED"],
        }] });
        let asked = [
            json!({ "name": "ASKED", "defaultValue": "$(SECOND)$(LATER)" }),
            json!({ "name": "LATER" }),
        ];
        let found = undefined(&pod, &asked);
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.field.rsplit_once('.').expect("a path").1,
                    it.name.as_str(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("value", "SECOND"),
                ("value", "ASKED"),
                ("defaultValue", "LATER"),
                ("args[0]", "HOME"),
            ]
        );
    }
}
