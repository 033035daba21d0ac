//! The order of an answer's first level. Objects of the schema resolve their fields in order, but
//! the root of a query resolves all of them concurrently, and slow ones come last.

use std::collections::HashSet;

use async_graphql::{
    Name, Value,
    parser::types::{DocumentOperations, ExecutableDocument, Selection},
};

/// The keys of the first level, in the order of the document (GraphQL, October 2021, section
/// 7.2.2).
pub(crate) fn root_keys(document: &ExecutableDocument, operation: Option<&str>) -> Vec<Name> {
    let operation = match (&document.operations, operation) {
        (DocumentOperations::Single(operation), _) => Some(operation),
        (DocumentOperations::Multiple(all), Some(name)) => all.get(name),
        // A document with one operation runs it, also if it has a name.
        (DocumentOperations::Multiple(all), None) => all.values().next().filter(|_| all.len() == 1),
    };
    let mut keys = Vec::new();
    // The document is not validated yet, so fragments can be cyclic.
    let mut visited = HashSet::new();
    // No recursion: a long chain of fragments would overflow the stack.
    let root = operation.map(|it| &it.node.selection_set.node);
    let mut open: Vec<_> = root.into_iter().map(|set| set.items.iter()).collect();
    while let Some(selections) = open.last_mut() {
        match selections.next().map(|selection| &selection.node) {
            None => {
                open.pop();
            }
            Some(Selection::Field(field)) => keys.push(field.node.response_key().node.clone()),
            Some(Selection::InlineFragment(inline)) => {
                open.push(inline.node.selection_set.node.items.iter());
            }
            Some(Selection::FragmentSpread(spread)) => {
                let name = &spread.node.fragment_name.node;
                if let Some(fragment) = document.fragments.get(name)
                    && visited.insert(name)
                {
                    open.push(fragment.node.selection_set.node.items.iter());
                }
            }
        }
    }
    keys
}

/// Sorts the first level of an answer.
pub(crate) fn sort_root(data: &mut Value, keys: &[Name]) {
    if let Value::Object(fields) = data {
        fields.sort_by_cached_key(|key, _| keys.iter().position(|it| it == key));
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
            ("query Q { d b c a }", None),
            ("{ d ...F a } fragment F on Query { b ...F c }", None),
        ] {
            assert_eq!(sorted(document, operation), wanted, "{document}");
        }
    }

    #[test]
    fn a_long_chain_of_fragments_needs_no_deep_stack() {
        let chain: String = (0..20_000)
            .map(|at| format!("fragment f{at} on Q{{...f{}}}", at + 1))
            .collect();
        let document = format!("{{...f0}}{chain}fragment f20000 on Q{{a}}");
        let document = parse_query(document).expect("a document");
        assert_eq!(root_keys(&document, None), [Name::new("a")]);
    }
}
