//! YAML of servers and charts, within a budget.

use serde::de::DeserializeOwned;

use super::error::SourceError;

/// Parser events of the largest index: public repositories have some hundred thousand versions.
const MAX_EVENTS: usize = 20_000_000;
/// Nodes of the same.
const MAX_NODES: usize = 10_000_000;

/// Reads one YAML document. `name` is that of the file. Blocks for some seconds when it is large.
///
/// # Errors
/// Permanent, with the place of the first problem.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T, SourceError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: MAX_EVENTS, max_nodes: MAX_NODES },
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(text, options).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().next().unwrap_or_default();
        SourceError::permanent(format!("{name} is not as expected: {line}"))
    })
}
