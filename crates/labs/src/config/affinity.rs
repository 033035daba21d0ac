//! Affinity of pods: passed on with its keys checked, since Kubernetes would drop unknown ones
//! without a word.

use serde_json::{Map, Value};

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
    /// A list of texts, which may be left out.
    Texts,
    /// A section with these keys.
    Keys(&'static [(&'static str, Shape)]),
    /// A list of such sections.
    List(&'static [(&'static str, Shape)]),
}

const REQUIREMENT: &[(&str, Shape)] = &[
    ("key", Shape::Plain),
    ("operator", Shape::Plain),
    ("values", Shape::Texts),
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
        read(value, place, Shape::Keys(AFFINITY)).map(Affinity)
    }
}

/// The rules with the keys of Kubernetes, however they are written.
fn read(value: &ConfigValue, mut place: Place<'_>, shape: Shape) -> Option<Value> {
    match shape {
        Shape::Plain | Shape::Texts => Some(value.to_json()),
        Shape::Keys(keys) => {
            let mut section = Section::open(value, place)?;
            let mut entries = Map::new();
            let mut is_read = true;
            for (key, shape) in keys {
                let entry = match section.value(key) {
                    Some(value) => read(value, section.at(key), *shape),
                    // Nublado has a list here in any case.
                    None if matches!(shape, Shape::Texts) => Some(Value::Array(Vec::new())),
                    None => continue,
                };
                match entry {
                    Some(entry) => {
                        entries.insert((*key).to_owned(), entry);
                    }
                    None => is_read = false,
                }
            }
            section.finish();
            is_read.then_some(Value::Object(entries))
        }
        Shape::List(keys) => {
            let ConfigValue::List(list) = value else {
                let found = value.describe();
                place.complain(format!("expected a list, found {found}"));
                return None;
            };
            let entries = list.iter();
            let entries = entries.map(|entry| read(entry, place.at("[]"), Shape::Keys(keys)));
            // Also after the first problem, the others are looked for.
            let entries: Vec<Option<Value>> = entries.collect();
            entries
                .into_iter()
                .collect::<Option<Vec<Value>>>()
                .map(Value::Array)
        }
    }
}
