//! The three forms of an input: a configuration file in TOML, the alpha configuration in YAML, and
//! variables of the environment.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

use super::{alpha, given::Given, options, report::ImportError, value::Value};

/// Largest input, in bytes.
pub(crate) const MAX_INPUT: usize = 1 << 20;
/// Maximum of errors that are reported for one file.
const MAX_ERRORS: usize = 20;
/// Prefix of the names of variables.
const VARIABLE_PREFIX: &str = "OAUTH2_PROXY_";
/// Tables of the alpha configuration.
const ALPHA_TABLES: [&str; 6] = [
    "upstreamConfig",
    "injectRequestHeaders",
    "injectResponseHeaders",
    "server",
    "metricsServer",
    "providers",
];

/// An input of an import.
#[derive(Clone)]
pub struct ImportSource {
    /// The name of the file, for messages.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// The form of an input. Later variants override earlier ones, as in oauth2-proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InputForm {
    /// A configuration file.
    Toml,
    /// The alpha configuration.
    Alpha,
    /// Variables.
    Environment,
}

/// Reads an input.
///
/// # Errors
/// All mistakes of the file, up to 20.
pub(crate) fn read(source: &ImportSource) -> Result<(InputForm, Vec<Given>), Vec<ImportError>> {
    let reader = Reader {
        file: &source.name,
        errors: Vec::new(),
    };
    if source.content.len() > MAX_INPUT {
        return Err(reader.fail(None, "is larger than 1 MiB"));
    }
    let Ok(text) = std::str::from_utf8(&source.content) else {
        return Err(reader.fail(None, "is no text in UTF-8"));
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err(reader.fail(None, "is no text: it has a zero byte"));
    }
    let form = form(&source.name, text);
    let (given, errors) = match form {
        InputForm::Toml => reader.toml(text),
        InputForm::Alpha => reader.yaml(text),
        InputForm::Environment => reader.variables(text),
    };
    match errors.is_empty() {
        true => Ok((form, given)),
        false => Err(errors),
    }
}

/// The form of a text.
fn form(name: &str, text: &str) -> InputForm {
    let is_yaml_name = name.ends_with(".yaml") || name.ends_with(".yml");
    let mut lines = text.lines();
    let is_table = |line: &str| {
        let key = line.split_once(':').map(|(key, _)| key);
        key.is_some_and(|key| ALPHA_TABLES.contains(&key))
    };
    if is_yaml_name || lines.clone().any(is_table) {
        return InputForm::Alpha;
    }
    match lines
        .any(|line| variable(line).is_some_and(|(name, _)| name.starts_with(VARIABLE_PREFIX)))
    {
        true => InputForm::Environment,
        false => InputForm::Toml,
    }
}

/// The name and the value of a line such as `NAME=value` or `export NAME="value"`.
fn variable(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    is_name.then_some((name, value))
}

/// Reads one file, and collects its errors.
struct Reader<'r> {
    file: &'r str,
    errors: Vec<ImportError>,
}

impl Reader<'_> {
    fn fail(mut self, line: Option<usize>, what: &str) -> Vec<ImportError> {
        self.report(line, what);
        self.errors
    }

    fn report(&mut self, line: Option<usize>, what: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(ImportError {
                file: self.file.to_owned(),
                line,
                what: what.into(),
            });
        }
    }

    /// An option of a file, of which the type is checked.
    fn option(&mut self, written: &str, line: Option<usize>, value: Value) -> Given {
        let entry = options::find(written);
        if let Some(entry) = entry.filter(|entry| !entry.kind.admits(&value) && !value.is_empty()) {
            let (wanted, found) = (entry.kind.words(), value.type_words());
            self.report(line, format!("{written}: expected {wanted}, found {found}"));
        }
        Given {
            option: entry.map_or(written, |entry| entry.name).to_owned(),
            written: written.to_owned(),
            file: self.file.to_owned(),
            line,
            value,
        }
    }

    fn toml(mut self, text: &str) -> (Vec<Given>, Vec<ImportError>) {
        let line = |offset: usize| {
            let before = text.as_bytes().get(..offset).unwrap_or_default();
            1 + memchr::memchr_iter(b'\n', before).count()
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors.iter().take(MAX_ERRORS) {
            // The message must not quote the text, which may contain a secret.
            let at = error.span().map(|span| line(span.start));
            self.report(at, error.message());
        }
        if !self.errors.is_empty() {
            return (Vec::new(), self.errors);
        }
        let root = root.into_inner();
        let mut entries: Vec<_> = root.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut given = Vec::new();
        let mut names = BTreeSet::new();
        for (key, value) in entries {
            let name: &str = key.get_ref();
            let at = Some(line(key.span().start));
            if !names.insert(name.replace('-', "_").to_ascii_lowercase()) {
                self.report(
                    at,
                    format!("{name}: is given twice, in different spellings"),
                );
            }
            given.push(self.option(name, at, toml_value(value.get_ref())));
        }
        (given, self.errors)
    }

    fn variables(mut self, text: &str) -> (Vec<Given>, Vec<ImportError>) {
        let mut given = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let number = Some(at + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = variable(line) else {
                self.report(
                    number,
                    "expected a line such as OAUTH2_PROXY_CLIENT_ID=value",
                );
                continue;
            };
            // Other variables belong to other programs.
            if let Some(option) = name.strip_prefix(VARIABLE_PREFIX) {
                let value = Value::Text(value.to_owned());
                let read = self.option(&option.to_ascii_lowercase(), number, value);
                given.push(Given {
                    written: name.to_owned(),
                    ..read
                });
            }
        }
        (given, self.errors)
    }

    fn yaml(mut self, text: &str) -> (Vec<Given>, Vec<ImportError>) {
        let fields = match alpha::fields(text) {
            Ok(fields) => fields,
            Err(error) => {
                self.report(error.line, error.what);
                return (Vec::new(), self.errors);
            }
        };
        let mut given = Vec::new();
        for field in fields {
            let option = options::find_alpha(&field.name).unwrap_or(&field.name);
            let read = self.option(option, None, field.value);
            given.push(Given {
                written: field.path,
                ..read
            });
        }
        (given, self.errors)
    }
}

fn toml_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Number(number.as_str().replace('_', "")),
        DeValue::Float(number) => Value::Number(number.as_str().replace('_', "")),
        DeValue::Boolean(is_on) => Value::Switch(*is_on),
        DeValue::Datetime(_) => Value::Other("a time"),
        DeValue::Table(_) => Value::Other("a table"),
        DeValue::Array(items) => {
            let texts = items
                .iter()
                .map(|item| toml_value(item.get_ref()).text())
                .collect::<Option<Vec<String>>>();
            texts.map_or(Value::Other("a list of other values"), Value::Texts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> ImportSource {
        ImportSource {
            name: name.to_owned(),
            content: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_form_is_found_by_name_or_content() {
        for (name, text, wanted) in [
            ("a.cfg", "client_id = \"x\"\n", InputForm::Toml),
            ("a.cfg", "", InputForm::Toml),
            (
                "a.cfg",
                "# OAUTH2_PROXY_X=1\nemail_domains = \"*\"",
                InputForm::Toml,
            ),
            ("a.yaml", "", InputForm::Alpha),
            ("a", "providers:\n- id: x\n", InputForm::Alpha),
            (
                "env",
                "PATH=/bin\nexport OAUTH2_PROXY_CLIENT_ID='x'",
                InputForm::Environment,
            ),
        ] {
            assert_eq!(form(name, text), wanted, "{text:?}");
        }
    }

    #[test]
    fn odd_input_is_an_error_with_its_line_and_without_its_values() {
        let secret = "CANARY";
        for (name, text, line, wanted) in [
            (
                "a",
                "client_id = \"a\"\nclient_id = \"CANARY\"\n",
                Some(2),
                "duplicate key",
            ),
            (
                "a",
                "client_id = \"a\"\nClient_ID = \"CANARY\"\n",
                Some(2),
                "given twice",
            ),
            ("a", "client_secret = CANARY\n", Some(1), "string"),
            ("a", "client_secret = \"CANARY\n", Some(1), ""),
            (
                "a",
                "cookie_secret = [\"CANARY\"]\n",
                Some(1),
                "cookie_secret: expected text",
            ),
            (
                "a",
                "\nemail_domains = true\n",
                Some(2),
                "expected a list of texts, found true",
            ),
            (
                "a",
                "upstreams = [[\"CANARY\"]]\n",
                Some(1),
                "found a list of other values",
            ),
            (
                "a",
                "cookie_expire = \"CANARY\"\n",
                Some(1),
                "expected a duration",
            ),
            ("a", "cookie_expire = 30\n", Some(1), "expected a duration"),
            (
                "a",
                "pass_host_header = \"CANARY\"\n",
                Some(1),
                "expected true or false",
            ),
            (
                "a",
                "logging_max_age = 1.5\n",
                Some(1),
                "expected a whole number",
            ),
            ("a", "[client_id]\nx = 1\n", Some(1), "found a table"),
            ("a", "client_id = 2026-01-01\n", Some(1), "found a time"),
            ("a", "client_id = \"\0\"\n", None, "zero byte"),
            (
                "e",
                "OAUTH2_PROXY_CLIENT_ID=x\nCANARY\n",
                Some(2),
                "expected a line such as",
            ),
            (
                "e",
                "OAUTH2_PROXY_REVERSE_PROXY=CANARY\n",
                Some(1),
                "expected true or false",
            ),
            ("a.yaml", "providers: [CANARY\n", None, "YAML"),
            ("a.yaml", "- CANARY\n", None, "expected a mapping"),
            (
                "a.yaml",
                "providers:\n- clientID: [CANARY]\n",
                None,
                "expected text",
            ),
        ] {
            let errors = read(&source(name, text)).err().expect(text);
            let first = errors.first().expect("an error");
            assert!(first.what.contains(wanted), "{text:?}: {}", first.what);
            if line.is_some() {
                assert_eq!(first.line, line, "{text:?}");
            }
            assert!(!first.what.contains(secret), "{}", first.what);
        }
    }

    #[test]
    fn binary_and_large_input_is_refused_and_errors_are_limited() {
        let read_bytes = |content: Vec<u8>| {
            let name = "a".to_owned();
            read(&ImportSource { name, content })
                .err()
                .expect("refused")
        };
        assert!(read_bytes(vec![0xff, 0xfe, 0x00])[0].what.contains("UTF-8"));
        assert!(
            read_bytes(vec![b'#'; MAX_INPUT + 1])[0]
                .what
                .contains("1 MiB")
        );
        let many = "a = \"\n".repeat(100_000);
        assert!(read_bytes(many.into_bytes()).len() <= MAX_ERRORS);
        // The largest permitted input: one comment.
        let read = read(&ImportSource {
            name: "a".to_owned(),
            content: vec![b'#'; MAX_INPUT],
        });
        assert!(read.is_ok_and(|(_, given)| given.is_empty()));
    }
}
