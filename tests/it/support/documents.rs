//! Documents whose examples tests run.

/// The blocks of code of a text in this language, in order.
pub fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let start = format!("```{language}\n");
    let rest = text.split(start.as_str()).skip(1);
    rest.map(|rest| {
        let (block, _) = rest.split_once("\n```").expect("the end of the block");
        block
    })
    .collect()
}
