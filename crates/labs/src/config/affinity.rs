//! Affinity of pods: passed on as it is, but with its keys checked, since Kubernetes would drop
//! unknown ones without a word.

use serde_json::Value;

use super::{
    decode::{Decode, Place, Section},
    value::ConfigValue,
};

/// Rules of affinity, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Affinity(pub(crate) Value);

/// What may stand at a key.
#[derive(Clone, Copy)]
enum Shape {
    /// Texts, numbers, and lists and maps of them.
    Plain,
    /// A section with these keys.
    Keys(&'static [(&'static str, Shape)]),
    /// A list of such sections.
    List(&'static [(&'static str, Shape)]),
}

const REQUIREMENT: &[(&str, Shape)] = &[
    ("key", Shape::Plain),
    ("operator", Shape::Plain),
    ("values", Shape::Plain),
];
const NODE_TERM: &[(&str, Shape)] = &[
    ("matchExpressions", Shape::List(REQUIREMENT)),
    ("matchFields", Shape::List(REQUIREMENT)),
];
const SELECTOR: &[(&str, Shape)] = &[
    ("matchExpressions", Shape::List(REQUIREMENT)),
    ("matchLabels", Shape::Plain),
];
const POD_TERM: &[(&str, Shape)] = &[
    ("labelSelector", Shape::Keys(SELECTOR)),
    ("namespaceSelector", Shape::Keys(SELECTOR)),
    ("namespaces", Shape::Plain),
    ("topologyKey", Shape::Plain),
    ("matchLabelKeys", Shape::Plain),
    ("mismatchLabelKeys", Shape::Plain),
];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const POD_RULES: &[(&str, Shape)] = &[
    (REQUIRED, Shape::List(POD_TERM)),
    (
        PREFERRED,
        Shape::List(&[
            ("weight", Shape::Plain),
            ("podAffinityTerm", Shape::Keys(POD_TERM)),
        ]),
    ),
];
const AFFINITY: &[(&str, Shape)] = &[
    (
        "nodeAffinity",
        Shape::Keys(&[
            (
                REQUIRED,
                Shape::Keys(&[("nodeSelectorTerms", Shape::List(NODE_TERM))]),
            ),
            (
                PREFERRED,
                Shape::List(&[
                    ("weight", Shape::Plain),
                    ("preference", Shape::Keys(NODE_TERM)),
                ]),
            ),
        ]),
    ),
    ("podAffinity", Shape::Keys(POD_RULES)),
    ("podAntiAffinity", Shape::Keys(POD_RULES)),
];

impl Decode for Affinity {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<Affinity> {
        check(value, place, Shape::Keys(AFFINITY))?;
        Some(Affinity(value.to_json()))
    }
}

fn check(value: &ConfigValue, mut place: Place<'_>, shape: Shape) -> Option<()> {
    match shape {
        Shape::Plain => {}
        Shape::Keys(keys) => {
            let mut section = Section::open(value, place)?;
            for (key, shape) in keys {
                if let Some(value) = section.value(key) {
                    check(value, section.at(key), *shape)?;
                }
            }
            section.finish();
        }
        Shape::List(keys) => {
            let ConfigValue::List(list) = value else {
                let found = value.describe();
                place.complain(format!("expected a list, found {found}"));
                return None;
            };
            for value in list {
                check(value, place.at("[]"), Shape::Keys(keys))?;
            }
        }
    }
    Some(())
}
