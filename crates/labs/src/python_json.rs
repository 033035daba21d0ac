//! JSON as Python's `json.dumps` writes it: clients of labs compare some of it as text.

use serde_json::Value;

/// Spaces behind commas and colons, and ASCII only.
pub(crate) fn dumps(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(dumps).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| pair(name, value));
            format!("{{{}}}", fields.collect::<Vec<String>>().join(", "))
        }
        Value::String(text) => string(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// `"name": value`. For objects whose fields have an order.
pub(crate) fn pair(name: &str, value: &Value) -> String {
    format!("{}: {}", string(name), dumps(value))
}

fn string(text: &str) -> String {
    let mut ascii = String::new();
    for letter in Value::from(text).to_string().chars() {
        if letter.is_ascii() {
            ascii.push(letter);
            continue;
        }
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            ascii += &format!("\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_ascii_and_separators_have_spaces() {
        let value = json!({ "message": "Mäx \u{1F600}\n\"x\"", "progress": [1, null] });
        assert_eq!(
            dumps(&value),
            r#"{"message": "M\u00e4x \ud83d\ude00\n\"x\"", "progress": [1, null]}"#
        );
    }
}
