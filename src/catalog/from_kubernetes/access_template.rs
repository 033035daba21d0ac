//! The access rule of viewers: one rule for all, with names and labels of each namespace in it.
//!
//! Invariant: the kind of the rule is fixed; only the group or the person of it comes from the
//! cluster. A value that is absent or empty denies everybody.

use std::{borrow::Cow, collections::BTreeMap};

use crate::model::access::Access;

/// A template of an access rule, such as `group:ns-{namespace}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessTemplate {
    /// Texts and placeholders, in order.
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Namespace,
    Name,
    Label(String),
    Annotation(String),
}

/// The viewer that a rule is for.
#[derive(Clone, Copy, Debug)]
pub struct ViewerIdentity<'v> {
    /// Its namespace.
    pub namespace: &'v str,
    /// Its name.
    pub name: &'v str,
    /// What is known of the namespace.
    pub metadata: Option<&'v NamespaceMetadata>,
}

/// Labels and annotations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceMetadata {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What may be written in a template.
const ALLOWED: &str = "public, user, group:<name> or owner:<subject>, with {namespace}, {name}, \
     {label:<key>} and {annotation:<key>} in the name or subject";

/// The rule of [`AccessTemplate::absent`], which is no rule and so denies.
const ABSENT: &str = "kubernetes.viewers.access is not set";

impl AccessTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(written: &str) -> Result<AccessTemplate, String> {
        let mut parts = Vec::new();
        let mut rest = written;
        while let Some(open) = rest.find('{') {
            let (text, after) = rest.split_at(open);
            let close = after
                .find('}')
                .ok_or_else(|| format!("{written:?} has a {{ without a }}: {ALLOWED}"))?;
            parts.extend(text_part(text));
            parts.push(placeholder(&after[1..close])?);
            rest = &after[close + 1..];
        }
        parts.extend(text_part(rest));
        let template = AccessTemplate { parts };
        let is_kind_fixed = match written.split_once('{') {
            None => true,
            Some((before, _)) => before.starts_with("group:") || before.starts_with("owner:"),
        };
        // Each placeholder has some value, so a sample shows whether the rule can be read.
        let sample = Access::parse(&template.fill(|_| Some("x".into())).unwrap_or_default());
        match sample {
            Access::Public | Access::User | Access::Group(_) | Access::Owner(_)
                if is_kind_fixed =>
            {
                Ok(template)
            }
            Access::Public
            | Access::User
            | Access::Group(_)
            | Access::Owner(_)
            | Access::Admins
            | Access::Person(_)
            | Access::Compound(_)
            | Access::Unknown(_) => Err(format!("{written:?} is no access rule: {ALLOWED}")),
        }
    }

    /// A template that denies everybody, since none is configured.
    pub fn absent() -> AccessTemplate {
        AccessTemplate {
            parts: text_part(ABSENT).into_iter().collect(),
        }
    }

    /// Whether labels or annotations of namespaces are in it.
    pub fn reads_namespaces(&self) -> bool {
        let is_mark = |part: &TemplatePart| match part {
            TemplatePart::Label(_) | TemplatePart::Annotation(_) => true,
            TemplatePart::Text(_) | TemplatePart::Namespace | TemplatePart::Name => false,
        };
        self.parts.iter().any(is_mark)
    }

    /// The rule for a viewer.
    ///
    /// # Errors
    /// What the namespace does not have: a label, an annotation, or a valid value of one.
    pub fn access(&self, viewer: ViewerIdentity<'_>) -> Result<Access, String> {
        let labels = viewer.metadata.map(|metadata| &metadata.labels);
        let annotations = viewer.metadata.map(|metadata| &metadata.annotations);
        let value = |part: &TemplatePart| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Namespace => Some(viewer.namespace.to_owned()),
            TemplatePart::Name => Some(viewer.name.to_owned()),
            TemplatePart::Label(key) => labels?.get(key).cloned(),
            TemplatePart::Annotation(key) => annotations?.get(key).cloned(),
        };
        let rule = self.fill(value)?;
        let access = Access::parse(&rule);
        if matches!(access, Access::Unknown(_)) && rule != ABSENT {
            return Err(format!("valid value for the rule {rule:?}"));
        }
        Ok(access)
    }

    /// The template with a value for each placeholder.
    ///
    /// # Errors
    /// The placeholder that has no value, in words.
    fn fill(&self, value: impl Fn(&TemplatePart) -> Option<String>) -> Result<String, String> {
        let filled = self.parts.iter().map(|part| match part {
            TemplatePart::Text(text) => Ok(Cow::Borrowed(text.as_str())),
            TemplatePart::Namespace
            | TemplatePart::Name
            | TemplatePart::Label(_)
            | TemplatePart::Annotation(_) => {
                let found = value(part).filter(|value| !value.is_empty());
                found.map(Cow::Owned).ok_or_else(|| part.in_words())
            }
        });
        filled.collect()
    }
}

impl TemplatePart {
    fn in_words(&self) -> String {
        match self {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Namespace => "namespace".to_owned(),
            TemplatePart::Name => "name".to_owned(),
            TemplatePart::Label(key) => format!("label {key:?}"),
            TemplatePart::Annotation(key) => format!("annotation {key:?}"),
        }
    }
}

fn text_part(text: &str) -> Option<TemplatePart> {
    (!text.is_empty()).then(|| TemplatePart::Text(text.to_owned()))
}

fn placeholder(written: &str) -> Result<TemplatePart, String> {
    match written.split_once(':') {
        None if written == "namespace" => Ok(TemplatePart::Namespace),
        None if written == "name" => Ok(TemplatePart::Name),
        Some(("label", key)) if !key.is_empty() => Ok(TemplatePart::Label(key.to_owned())),
        Some(("annotation", key)) if !key.is_empty() => {
            Ok(TemplatePart::Annotation(key.to_owned()))
        }
        Some(_) | None => Err(format!("{{{written}}} is no placeholder: {ALLOWED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, metadata: Option<&NamespaceMetadata>) -> String {
        let viewer = ViewerIdentity {
            namespace: "team",
            name: "v",
            metadata,
        };
        let template = AccessTemplate::parse(template).expect("a template");
        match template.access(viewer) {
            Ok(access) => access.to_string(),
            Err(missing) => format!("no {missing}"),
        }
    }

    fn metadata() -> NamespaceMetadata {
        let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        NamespaceMetadata {
            labels: one("example.com/group", "blue"),
            annotations: one("owner", "alice@example.com"),
        }
    }

    #[test]
    fn names_labels_and_annotations_take_the_places_of_their_placeholders() {
        for (template, wanted) in [
            ("public", "public"),
            ("user", "user"),
            ("group:phusers", "group:phusers"),
            ("group:ns-{namespace}", "group:ns-team"),
            ("group:{namespace}/{name}-x", "group:team/v-x"),
            ("group:{label:example.com/group}", "group:blue"),
            ("owner:{annotation:owner}", "owner:alice@example.com"),
        ] {
            assert_eq!(filled(template, Some(&metadata())), wanted, "{template}");
        }
    }

    #[test]
    fn a_value_that_the_namespace_does_not_have_denies() {
        let mut empty = metadata();
        empty.labels.insert("empty".to_owned(), String::new());
        for template in [
            "group:{label:owner}",
            "group:ns-{label:empty}",
            "owner:x{label:owner}",
        ] {
            assert!(filled(template, Some(&empty)).starts_with("no label"));
            assert!(filled(template, None).starts_with("no label"));
        }
        let annotation = "owner:{annotation:example.com/group}";
        assert_eq!(
            filled(annotation, Some(&empty)),
            "no annotation \"example.com/group\""
        );
    }

    #[test]
    fn the_kind_of_the_rule_and_its_placeholders_are_fixed() {
        for bad in [
            "",
            "Public",
            "{label:access}",
            "{namespace}:x",
            "gro{name}up:x",
            "public{name}",
            "user:{name}",
            "admins",
            "group:",
            "group:{Namespace}",
            "group:{label}",
            "group:{label:}",
            "group:{uid}",
            "group:{namespace",
        ] {
            let error = AccessTemplate::parse(bad).expect_err(bad);
            assert!(error.contains("{namespace}, {name}"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn without_a_template_everybody_is_denied() {
        let viewer = ViewerIdentity {
            namespace: "team",
            name: "v",
            metadata: None,
        };
        let access = AccessTemplate::absent().access(viewer);
        assert_eq!(access, Ok(Access::Unknown(ABSENT.into())));
    }

    #[test]
    fn namespaces_are_read_only_for_their_labels_and_annotations() {
        let reads = |template: &str| {
            let template = AccessTemplate::parse(template).expect("a template");
            template.reads_namespaces()
        };
        assert!(reads("group:{label:a}") && reads("owner:{annotation:a}"));
        assert!(!reads("group:{namespace}-{name}") && !reads("user"));
    }
}
