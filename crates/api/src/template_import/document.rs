//! The text of a template.

use ludgate_controllers::{application::template, pod_policy::PodPolicy};
use serde_json::Value;

use crate::error::OperationError;

/// PrimeHub's message for an invalid template.
const NO_TEMPLATE: &str = "Invalid PhAppTemplate yaml";
/// Maximum number of problems that an error names.
const MAX_PROBLEMS: usize = 5;
/// Longest error, in characters.
const MAX_TEXT: usize = 1000;

/// A template that was checked.
#[derive(Clone, Debug)]
pub struct ImportedTemplate {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: Value,
}

/// Reads the first YAML document of a text. Only the name and the spec of it are kept.
///
/// # Errors
/// [`OperationError::Invalid`] if that is no template, or one with problems.
pub(super) fn parse(text: &[u8], policy: &PodPolicy) -> Result<ImportedTemplate, OperationError> {
    let wrong = |what: String| {
        let is_shown = |character: &char| !character.is_control();
        let what = what.chars().filter(is_shown).take(MAX_TEXT).collect();
        OperationError::Invalid(what)
    };
    let no_template = || wrong(NO_TEMPLATE.to_owned());
    let text = std::str::from_utf8(text).map_err(|_| no_template())?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().next().unwrap_or_default();
        wrong(format!("{NO_TEMPLATE}: {line}"))
    })?;
    let first = documents.first();
    let document = first.filter(|document| document["kind"] == "PhAppTemplate");
    let document = document.ok_or_else(no_template)?;
    let problems = template::problems(document, policy);
    if !problems.is_empty() {
        let shown: Vec<String> = problems
            .iter()
            .take(MAX_PROBLEMS)
            .map(ToString::to_string)
            .collect();
        let more = match problems.len().saturating_sub(MAX_PROBLEMS) {
            0 => String::new(),
            count => format!("; and {count} more"),
        };
        return Err(wrong(format!("{NO_TEMPLATE}: {}{more}", shown.join("; "))));
    }
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    Ok(ImportedTemplate {
        name: name.to_owned(),
        spec: document["spec"].clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "apiVersion: primehub.io/v1alpha1
kind: PhAppTemplate
metadata:
  name: web
  namespace: elsewhere
  labels: { a: b }
spec:
  name: Web
  description: A web server.
  version: v1
  template:
    spec:
      httpPort: 8080
      podTemplate:
        spec:
          containers:
            - name: web
              image: web:1
              ports: [{ name: http, containerPort: 8080 }]
      svcTemplate:
        spec:
          ports: [{ name: http, port: 8080, targetPort: http }]
";

    fn refused(text: &str) -> String {
        let refused = parse(text.as_bytes(), &PodPolicy::default());
        refused.expect_err("refused").to_string()
    }

    #[test]
    fn the_first_document_is_the_template() {
        let text = format!("---\n{TEMPLATE}---\nkind: Secret\n");
        let read = parse(text.as_bytes(), &PodPolicy::default()).expect("a template");
        assert_eq!(read.name, "web");
        assert_eq!(read.spec["template"]["spec"]["httpPort"], 8080);
    }

    #[test]
    fn what_is_no_template_is_refused_with_the_text_of_primehub() {
        let second = format!("kind: Secret\n---\n{TEMPLATE}");
        for text in ["", "kind: Secret", "7", "[]", "<html></html>", &second] {
            assert_eq!(refused(text), NO_TEMPLATE, "{text}");
        }
        let binary = parse(b"\xff\xfe", &PodPolicy::default());
        assert_eq!(binary.expect_err("refused").to_string(), NO_TEMPLATE);
        let deep = format!("kind: {}", "[".repeat(100_000));
        for text in ["kind: [", "a: b: c", &deep] {
            let said = refused(text);
            assert!(said.starts_with(NO_TEMPLATE), "{said}");
            assert!(said.len() < 2000 && said.lines().count() == 1, "{said}");
        }
    }

    #[test]
    fn a_template_with_problems_is_refused_by_field() {
        let privileged = TEMPLATE.replace(
            "image: web:1\n",
            "image: web:1\n              securityContext: { privileged: true }\n",
        );
        let unknown = TEMPLATE.replace("httpPort", "httPort");
        for (text, wanted) in [(privileged, "privileged"), (unknown, "httPort")] {
            let said = refused(&text);
            assert!(
                said.starts_with("Invalid PhAppTemplate yaml: spec."),
                "{said}"
            );
            assert!(said.contains(wanted), "{said}");
        }
    }
}
