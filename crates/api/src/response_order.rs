//! The order of an answer's first level. Objects of the schema resolve their fields in order, but
//! the root of a query resolves all of them concurrently, and slow ones come last.

use std::collections::HashSet;

use async_graphql::{
    Name, Value,
    parser::types::{DocumentOperations, ExecutableDocument, Selection, SelectionSet},
};

/// The keys of the first level, in the order of the document (GraphQL, October 2021, section
/// 7.2.2).
pub(crate) fn root_keys(document: &ExecutableDocument, operation: Option<&str>) -> Vec<Name> {
    let operation = match (&document.operations, operation) {
        (DocumentOperations::Single(operation), _) => Some(operation),
        (DocumentOperations::Multiple(all), Some(name)) => all.get(name),
        (DocumentOperations::Multiple(_), None) => None,
    };
    let mut walk = Walk {
        document,
        keys: Vec::new(),
        fragments: HashSet::new(),
    };
    if let Some(operation) = operation {
        walk.add(&operation.node.selection_set.node);
    }
    walk.keys
}

/// Sorts the first level of an answer.
pub(crate) fn sort_root(data: &mut Value, keys: &[Name]) {
    if let Value::Object(fields) = data {
        fields.sort_by_cached_key(|key, _| keys.iter().position(|it| it == key));
    }
}

struct Walk<'d> {
    document: &'d ExecutableDocument,
    keys: Vec<Name>,
    /// Visited, since a document that is not validated yet can have cyclic fragments.
    fragments: HashSet<&'d Name>,
}

impl<'d> Walk<'d> {
    fn add(&mut self, set: &'d SelectionSet) {
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => self.keys.push(field.node.response_key().node.clone()),
                Selection::InlineFragment(inline) => self.add(&inline.node.selection_set.node),
                Selection::FragmentSpread(spread) => {
                    self.add_fragment(&spread.node.fragment_name.node)
                }
            }
        }
    }

    fn add_fragment(&mut self, name: &'d Name) {
        if let Some(fragment) = self.document.fragments.get(name)
            && self.fragments.insert(name)
        {
            self.add(&fragment.node.selection_set.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    fn sorted(document: &str, operation: Option<&str>) -> String {
        let document = parse_query(document).expect("a document");
        let keys = root_keys(&document, operation);
        let object = serde_json::json!({ "a": 1, "b": 2, "c": 3, "d": 4 });
        let mut data = Value::from_json(object).expect("a value");
        sort_root(&mut data, &keys);
        serde_json::to_string(&data).expect("JSON")
    }

    #[test]
    fn the_first_level_has_the_order_of_the_document() {
        let wanted = r#"{"d":4,"b":2,"c":3,"a":1}"#;
        for (document, operation) in [
            ("{ d: me b: me c: me a: me }", None),
            (
                "{ d ...F a } fragment F on Query { b ... on Query { c d } }",
                None,
            ),
            ("query Q { d b c a } query R { a b c d }", Some("Q")),
            ("{ d ...F a } fragment F on Query { b ...F c }", None),
        ] {
            assert_eq!(sorted(document, operation), wanted, "{document}");
        }
    }
}
