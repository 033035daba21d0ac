//! The alpha configuration: YAML becomes a list of fields with paths.

use serde_json::{Map, Value as Yaml};

use super::value::Value;

/// Deepest field.
const MAX_DEPTH: usize = 12;
/// Maximum number of fields.
const MAX_FIELDS: usize = 10_000;

/// One field.
pub(crate) struct AlphaField {
    /// The path without indexes, such as `providers[].clientID`. Providers after the first have
    /// one name.
    pub(crate) name: String,
    /// The path, such as `providers[0].clientID`.
    pub(crate) path: String,
    /// Its value.
    pub(crate) value: Value,
}

/// Why a text is no alpha configuration. Nothing of the text is quoted.
pub(crate) struct AlphaError {
    /// The line, from 1, where it is known.
    pub(crate) line: Option<usize>,
    /// The problem.
    pub(crate) what: &'static str,
}

/// The fields of a text.
///
/// # Errors
/// It is no YAML, no mapping, or too large.
pub(crate) fn fields(text: &str) -> Result<Vec<AlphaField>, AlphaError> {
    let options = serde_saphyr::options! {
        with_snippet: false,
    };
    let parsed: Result<Yaml, _> = serde_saphyr::from_str_with_options(text, options);
    let root = parsed.map_err(|error| AlphaError {
        line: error
            .location()
            .and_then(|location| usize::try_from(location.line()).ok()),
        what: "is no valid YAML, or has a key twice",
    })?;
    let Some(root) = root.as_object() else {
        return Err(AlphaError {
            line: None,
            what: "expected a mapping with keys such as providers and upstreamConfig",
        });
    };
    let mut walk = Walk { fields: Vec::new() };
    let is_whole = walk.mapping(root, "", "", 0);
    match is_whole {
        Some(()) => Ok(walk.fields),
        None => Err(AlphaError {
            line: None,
            what: "has too many fields, or fields that are nested too deep",
        }),
    }
}

struct Walk {
    fields: Vec<AlphaField>,
}

impl Walk {
    /// `None` where a limit is exceeded.
    fn mapping(
        &mut self,
        mapping: &Map<String, Yaml>,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Option<()> {
        for (key, value) in mapping {
            let dot = if path.is_empty() { "" } else { "." };
            let key_name = format!("{name}{dot}{key}");
            self.field(value, &key_name, &format!("{path}{dot}{key}"), depth + 1)?;
        }
        Some(())
    }

    fn field(&mut self, value: &Yaml, name: &str, path: &str, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH || self.fields.len() >= MAX_FIELDS {
            return None;
        }
        if let Some(mapping) = value.as_object() {
            return self.mapping(mapping, name, path, depth);
        }
        let items = value.as_array().filter(|items| items.iter().any(is_nested));
        let Some(items) = items else {
            self.push(name, path, scalar(value));
            return Some(());
        };
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let name = format!("{name}[]");
            // Names are compared without regard to case.
            let lower = name.to_ascii_lowercase();
            if lower == "providers[]" && index > 0 {
                self.push("providers[1]", &path, Value::Text(path.clone()));
            } else if lower.starts_with("inject") {
                self.push(&name, &path, header(item));
            } else if lower.ends_with(".loginurlparameters[]") {
                let parameter = item.get("name").and_then(Yaml::as_str).unwrap_or("?");
                self.push(&name, &path, Value::Text(parameter.to_owned()));
            } else {
                self.field(item, &name, &path, depth + 1)?;
            }
        }
        Some(())
    }

    fn push(&mut self, name: &str, path: &str, value: Value) {
        self.fields.push(AlphaField {
            name: name.to_owned(),
            path: path.to_owned(),
            value,
        });
    }
}

fn is_nested(value: &Yaml) -> bool {
    value.is_object() || value.is_array()
}

fn scalar(value: &Yaml) -> Value {
    match value {
        Yaml::Null => Value::Text(String::new()),
        Yaml::Bool(is_on) => Value::Switch(*is_on),
        Yaml::Number(number) => Value::Number(number.to_string()),
        Yaml::String(text) => Value::Text(text.clone()),
        Yaml::Array(items) => {
            let texts = items.iter().map(|item| scalar(item).text());
            let texts = texts.collect::<Option<Vec<String>>>();
            texts.map_or(Value::Other("a list of other values"), Value::Texts)
        }
        Yaml::Object(_) => Value::Other("a mapping"),
    }
}

/// A header as `name=claim`; without a claim where it has another source, since that may be a
/// secret.
fn header(header: &Yaml) -> Value {
    let name = header.get("name").and_then(Yaml::as_str).unwrap_or("?");
    let keeps = header.get("preserveRequestValue").and_then(Yaml::as_bool);
    let values = header.get("values").and_then(Yaml::as_array);
    let claim = values
        .filter(|values| values.len() == 1)
        .and_then(|values| {
            let value = values.first()?;
            let source = value.get("claimSource").unwrap_or(value);
            let is_plain = source.as_object()?.len() == 1 && keeps != Some(true);
            source.get("claim")?.as_str().filter(|_| is_plain)
        });
    Value::Text(format!("{name}={}", claim.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_paths_and_secrets_of_headers_are_left_out() {
        let text = "
injectRequestHeaders:
- name: X-Forwarded-User
  values:
  - claim: user
- name: X-Secret
  values:
  - secretSource: {value: Q0FOQVJZ}
- name: X-Forwarded-Email
  values:
  - claimSource: {claim: email}
providers:
- clientID: a
  scope:
  caFiles: [x, y]
  loginURLParameters:
  - name: prompt
    default: [login]
- clientID: b
upstreamConfig:
  upstreams:
  - uri: http://127.0.0.1:80
    passHostHeader: false
";
        let fields = fields(text).ok().expect("read");
        let shown: Vec<(&str, Option<String>)> = fields
            .iter()
            .map(|field| (field.path.as_str(), field.value.text()))
            .collect();
        let text = |text: &str| Some(text.to_owned());
        for wanted in [
            ("injectRequestHeaders[0]", text("X-Forwarded-User=user")),
            ("injectRequestHeaders[1]", text("X-Secret=")),
            ("injectRequestHeaders[2]", text("X-Forwarded-Email=email")),
            ("providers[0].clientID", text("a")),
            ("providers[0].scope", text("")),
            ("providers[0].caFiles", None),
            ("providers[0].loginURLParameters[0]", text("prompt")),
            ("providers[1]", text("providers[1]")),
            ("upstreamConfig.upstreams[0].passHostHeader", text("false")),
            (
                "upstreamConfig.upstreams[0].uri",
                text("http://127.0.0.1:80"),
            ),
        ] {
            assert!(shown.contains(&wanted), "{wanted:?} in {shown:?}");
        }
        assert_eq!(shown.len(), 10);
    }

    #[test]
    fn deep_and_repeated_input_is_an_error() {
        let deep = format!("server: {}{}", "{a: ".repeat(40), "}".repeat(40));
        assert!(fields(&deep).is_err());
        assert!(fields("server: {}\nserver: {}\n").is_err());
        assert!(fields("").is_err());
    }
}
