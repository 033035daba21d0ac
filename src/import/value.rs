//! Values of options, read as loosely as oauth2-proxy reads them itself.

use crate::model::go_duration;

/// The value of an option.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// `true` or `false`.
    Switch(bool),
    /// A number, as it is written.
    Number(String),
    /// Another type, by its name.
    Other(&'static str),
}

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// A duration in the notation of Go.
    Duration,
}

impl ValueKind {
    /// The type in words, for messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            ValueKind::Text => "text",
            ValueKind::Texts => "a list of texts",
            ValueKind::Switch => "true or false",
            ValueKind::Number => "a whole number",
            ValueKind::Duration => "a duration such as \"168h\"",
        }
    }

    /// Whether a value is of this type.
    pub(crate) fn admits(self, value: &Value) -> bool {
        match self {
            ValueKind::Text => value.text().is_some(),
            ValueKind::Texts => value.texts().is_some(),
            ValueKind::Switch => value.switch().is_some(),
            ValueKind::Number => value.text().is_some_and(|text| is_whole(&text)),
            ValueKind::Duration => value.milliseconds().is_some(),
        }
    }
}

impl Value {
    /// The type of the value in words, for messages. The value itself may be a secret.
    pub(crate) fn type_words(&self) -> &'static str {
        match self {
            Value::Text(_) => "text",
            Value::Texts(_) => "a list of texts",
            Value::Switch(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Other(name) => name,
        }
    }

    /// Whether it is an empty text or list: the same as an absent option.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Text(text) => text.trim().is_empty(),
            Value::Texts(texts) => texts.iter().all(|text| text.trim().is_empty()),
            Value::Switch(_) | Value::Number(_) | Value::Other(_) => false,
        }
    }

    /// Whether it has entries, all of them blank.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty() && self.is_empty(),
            Value::Texts(texts) => !texts.is_empty() && self.is_empty(),
            Value::Switch(_) | Value::Number(_) | Value::Other(_) => false,
        }
    }

    /// As a text.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Switch(is_on) => Some(is_on.to_string()),
            Value::Texts(_) | Value::Other(_) => None,
        }
    }

    /// As a list. A text is a list with commas.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let plain = |text: &String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        match self {
            Value::Text(text) | Value::Number(text) => {
                let parts = text.split(',').map(str::to_owned);
                Some(parts.filter_map(|part| plain(&part)).collect())
            }
            Value::Texts(texts) => Some(texts.iter().filter_map(plain).collect()),
            Value::Switch(_) | Value::Other(_) => None,
        }
    }

    /// As a boolean.
    pub(crate) fn switch(&self) -> Option<bool> {
        match self {
            Value::Switch(is_on) => Some(*is_on),
            Value::Text(text) | Value::Number(text) => match text.trim() {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => Some(true),
                "false" | "False" | "FALSE" | "f" | "F" | "0" => Some(false),
                _ => None,
            },
            Value::Texts(_) | Value::Other(_) => None,
        }
    }

    /// As a duration in the notation of Go, such as `1h30m`, in milliseconds.
    pub(crate) fn milliseconds(&self) -> Option<u64> {
        match self {
            // A number counts nanoseconds, which only 0 can mean.
            Value::Text(text) | Value::Number(text) => {
                let duration = go_duration::parse_positive(text.trim())?;
                u64::try_from(duration.as_millis()).ok()
            }
            Value::Switch(_) | Value::Texts(_) | Value::Other(_) => None,
        }
    }
}

fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A duration as this project writes it, such as `90s`.
pub(crate) fn duration_text(milliseconds: u64) -> String {
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = units
        .iter()
        .find(|(unit, _)| milliseconds.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read_and_written_in_one_unit() {
        let read = |text: &str| Value::Text(text.to_owned()).milliseconds();
        for (written, wanted) in [
            ("168h0m0s", "168h"),
            ("1h30m", "90m"),
            ("1.5h", "90m"),
            ("90s", "90s"),
            ("1500ms", "1500ms"),
            ("2m0.5s", "120500ms"),
        ] {
            assert_eq!(read(written).map(duration_text).as_deref(), Some(wanted));
        }
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("0s"), Some(0));
        for bad in [
            "",
            "1",
            "h",
            "-1h",
            "1 h",
            "1d",
            "1h2",
            "1..2h",
            "1e9h",
            "99999999h",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn values_are_converted_as_oauth2_proxy_does() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            text("a, b,,c").texts(),
            Some(["a", "b", "c"].map(str::to_owned).to_vec())
        );
        assert_eq!(text("TRUE").switch(), Some(true));
        assert_eq!(text("yes").switch(), None);
        assert_eq!(Value::Number("1".to_owned()).switch(), Some(true));
        assert_eq!(Value::Number("12".to_owned()).text().as_deref(), Some("12"));
        assert!(text(" ").is_empty() && Value::Texts(Vec::new()).is_empty());
        assert!(text(" ").is_blank() && Value::Texts(vec![String::new()]).is_blank());
        assert!(!text("").is_blank() && !Value::Texts(Vec::new()).is_blank());
        assert!(!ValueKind::Texts.admits(&Value::Switch(true)));
        assert!(!ValueKind::Text.admits(&Value::Other("a table")));
        assert!(ValueKind::Number.admits(&text("-1")) && !ValueKind::Number.admits(&text("1.5")));
    }
}
