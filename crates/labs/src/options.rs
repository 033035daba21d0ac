//! What a hub asks for: the options of the form, and the variables of the lab.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    dialect::Dialect,
    error::{BodyProblem, LabError},
    size::LabSize,
};

/// Value of the radio button that leaves the choice to the drop-down list.
pub const USE_DROPDOWN: &str = "use_image_from_dropdown";
/// The variable with the path at which the hub serves the lab.
pub const SERVICE_PREFIX: &str = "JUPYTERHUB_SERVICE_PREFIX";

/// Maximum number of variables, and of their bytes together, that fit into a ConfigMap with room to
/// spare.
const MAX_VARIABLES: usize = 1000;
const MAX_VARIABLE_BYTES: usize = 500_000;

/// A class of images.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum ImageClass {
    /// The recommended image.
    Recommended,
    /// The newest release.
    LatestRelease,
    /// The newest weekly.
    LatestWeekly,
    /// The newest daily.
    LatestDaily,
}

impl ImageClass {
    const ALL: [ImageClass; 4] = [
        ImageClass::Recommended,
        ImageClass::LatestRelease,
        ImageClass::LatestWeekly,
        ImageClass::LatestDaily,
    ];

    fn as_str(self) -> &'static str {
        match self {
            ImageClass::Recommended => "recommended",
            ImageClass::LatestRelease => "latest-release",
            ImageClass::LatestWeekly => "latest-weekly",
            ImageClass::LatestDaily => "latest-daily",
        }
    }
}

impl fmt::Display for ImageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the image was chosen.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum ImageChoice {
    /// A reference, by a radio button.
    List(String),
    /// A reference, from the drop-down list.
    Dropdown(String),
    /// A class.
    Class(ImageClass),
    /// A tag.
    Tag(String),
}

impl ImageChoice {
    /// The field of the options, for errors.
    pub fn field(&self, dialect: Dialect) -> &'static str {
        match self {
            ImageChoice::List(_) => "image_list",
            ImageChoice::Dropdown(_) => "image_dropdown",
            ImageChoice::Class(_) => class_field(dialect),
            ImageChoice::Tag(_) => "image_tag",
        }
    }
}

/// The options of a lab.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct LabOptions {
    /// The image.
    pub image: ImageChoice,
    /// The size.
    pub size: LabSize,
    /// Whether the lab logs details.
    pub enable_debug: bool,
    /// Whether the lab moves the configuration of the person out of the way.
    pub reset_user_env: bool,
}

/// What a hub asks for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct LabSpecification {
    /// The options of the form.
    pub options: LabOptions,
    /// The variables of the hub. Some are secrets.
    pub env: BTreeMap<String, String>,
}

impl LabSpecification {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// [`LabError::InvalidBody`] with all problems.
    pub fn parse(body: &Value, dialect: Dialect) -> Result<LabSpecification, LabError> {
        let mut problems = Vec::new();
        let parsed = parse(body, dialect, &mut problems);
        match parsed {
            Some(specification) if problems.is_empty() => Ok(specification),
            _ => Err(LabError::InvalidBody(problems)),
        }
    }
}

type Problems = Vec<BodyProblem>;

fn problem(location: &[&str], kind: &'static str, message: impl Into<String>) -> BodyProblem {
    BodyProblem {
        location: location.iter().map(|part| (*part).to_owned()).collect(),
        kind,
        message: message.into(),
    }
}

fn parse(body: &Value, dialect: Dialect, problems: &mut Problems) -> Option<LabSpecification> {
    let Value::Object(body) = body else {
        problems.push(problem(&["body"], "dict_type", "Input should be an object"));
        return None;
    };
    for key in body
        .keys()
        .filter(|key| !["options", "env"].contains(&key.as_str()))
    {
        problems.push(problem(&["body", key], "extra_forbidden", "Unknown field"));
    }
    let options = section(body, "options", problems)
        .and_then(|options| parse_options(options, dialect, problems));
    let env = section(body, "env", problems).and_then(|env| parse_env(env, dialect, problems));
    Some(LabSpecification {
        options: options?,
        env: env?,
    })
}

fn section<'b>(
    body: &'b Map<String, Value>,
    name: &str,
    problems: &mut Problems,
) -> Option<&'b Map<String, Value>> {
    match body.get(name) {
        Some(Value::Object(section)) => Some(section),
        Some(_) => {
            problems.push(problem(
                &["body", name],
                "dict_type",
                "Input should be an object",
            ));
            None
        }
        None => {
            problems.push(problem(&["body", name], "missing", "Field required"));
            None
        }
    }
}

fn parse_env(
    env: &Map<String, Value>,
    dialect: Dialect,
    problems: &mut Problems,
) -> Option<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for (name, value) in env {
        let location = ["body", "env", name.as_str()];
        if !is_variable(name) {
            let message = "No name of an environment variable";
            problems.push(problem(&location, "value_error", message));
            continue;
        }
        match value.as_str().filter(|text| !text.contains('\0')) {
            Some(text) if name == SERVICE_PREFIX && !is_path(text) => {
                let message = format!("{SERVICE_PREFIX} must be a path");
                problems.push(problem(&location, "value_error", message));
            }
            Some(text) => {
                variables.insert(name.clone(), text.to_owned());
            }
            None => problems.push(problem(
                &location,
                "string_type",
                "Input should be a string",
            )),
        }
    }
    let bytes: usize = variables
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if variables.len() > MAX_VARIABLES || bytes > MAX_VARIABLE_BYTES {
        problems.push(problem(
            &["body", "env"],
            "too_long",
            "Too many environment variables",
        ));
    }
    if dialect == Dialect::Nublado && !env.contains_key(SERVICE_PREFIX) {
        let message = format!("{SERVICE_PREFIX} must be set");
        problems.push(problem(&["body", "env"], "value_error", message));
    }
    Some(variables)
}

/// Whether Kubernetes takes a text as the name of a variable and as the key of a ConfigMap.
fn is_variable(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    (1..=253).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
}

/// Whether a text is an absolute path of a URL (RFC 3986 section 3.3). Behind a host it then cannot
/// become a part of the host.
pub(crate) fn is_path(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/".contains(&b);
    text.starts_with('/') && text.bytes().all(allowed)
}

/// The options, each a plain value. Hubs send lists of one.
fn parse_options(
    options: &Map<String, Value>,
    dialect: Dialect,
    problems: &mut Problems,
) -> Option<LabOptions> {
    let fields = Fields::read(options, class_field(dialect), problems);
    let image = fields.image(dialect, problems);
    let size = fields.size(problems);
    let enable_debug = fields.boolean("enable_debug", problems);
    let reset_user_env = fields.boolean("reset_user_env", problems);
    Some(LabOptions {
        image: image?,
        size: size?,
        enable_debug: enable_debug?,
        reset_user_env: reset_user_env?,
    })
}

fn class_field(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqr066 => "image_type",
        Dialect::Nublado => "image_class",
    }
}

struct Fields<'o> {
    values: BTreeMap<&'o str, &'o Value>,
    class_field: &'static str,
}

impl<'o> Fields<'o> {
    fn read(
        options: &'o Map<String, Value>,
        class_field: &'static str,
        problems: &mut Problems,
    ) -> Fields<'o> {
        let known = [
            "image_list",
            "image_dropdown",
            "image_tag",
            class_field,
            "size",
            "enable_debug",
            "reset_user_env",
        ];
        let mut values = BTreeMap::new();
        for (key, value) in options {
            let location = ["body", "options", key.as_str()];
            // Forms of JupyterHub have a field against forged requests.
            if key == "_xsrf" {
                continue;
            }
            if !known.contains(&key.as_str()) {
                problems.push(problem(&location, "extra_forbidden", "Unknown field"));
                continue;
            }
            let one = match value.as_array().map(Vec::as_slice) {
                None => value,
                Some([]) => continue,
                Some([one]) => one,
                Some(_) => {
                    let message = format!("Too many values for {key}");
                    problems.push(problem(&location, "value_error", message));
                    continue;
                }
            };
            if !one.is_null() {
                values.insert(key.as_str(), one);
            }
        }
        Fields {
            values,
            class_field,
        }
    }

    /// A text. An empty one is like none.
    fn text(&self, name: &str, problems: &mut Problems) -> Option<String> {
        let value = self.values.get(name)?;
        if let Some(text) = value.as_str() {
            return (!text.is_empty()).then(|| text.to_owned());
        }
        let message = "Input should be a string";
        problems.push(problem(&["body", "options", name], "string_type", message));
        None
    }

    fn image(&self, dialect: Dialect, problems: &mut Problems) -> Option<ImageChoice> {
        let before = problems.len();
        let list = self
            .text("image_list", problems)
            .filter(|list| list != USE_DROPDOWN);
        // A form sends its drop-down list in any case.
        let dropdown = self
            .text("image_dropdown", problems)
            .filter(|_| list.is_none());
        let tag = self.text("image_tag", problems);
        let class = self.class(problems);
        let both = tag.is_some() && class.is_some();
        // The document says which of the two takes precedence.
        let class = class.filter(|_| !(both && dialect == Dialect::Sqr066));
        let mut choices: Vec<ImageChoice> = [
            list.map(ImageChoice::List),
            dropdown.map(ImageChoice::Dropdown),
            class.map(ImageChoice::Class),
            tag.map(ImageChoice::Tag),
        ]
        .into_iter()
        .flatten()
        .collect();
        match choices.len() {
            1 => choices.pop(),
            0 if problems.len() > before => None,
            0 => {
                let message = "No image to spawn specified";
                problems.push(problem(&["body", "options"], "value_error", message));
                None
            }
            _ => {
                let names: Vec<&str> = choices.iter().map(|choice| choice.field(dialect)).collect();
                let message = format!("Image specified multiple ways ({})", names.join(", "));
                problems.push(problem(&["body", "options"], "value_error", message));
                None
            }
        }
    }

    fn class(&self, problems: &mut Problems) -> Option<ImageClass> {
        let name = self.class_field;
        let text = self.text(name, problems)?;
        let class = ImageClass::ALL
            .into_iter()
            .find(|class| class.as_str() == text);
        if class.is_none() {
            let classes = ImageClass::ALL.map(ImageClass::as_str);
            let message = format!("Input should be one of {}", classes.join(", "));
            problems.push(problem(&["body", "options", name], "enum", message));
        }
        class
    }

    fn size(&self, problems: &mut Problems) -> Option<LabSize> {
        let location = ["body", "options", "size"];
        let before = problems.len();
        let Some(text) = self.text("size", problems) else {
            if problems.len() == before {
                problems.push(problem(&location, "missing", "Field required"));
            }
            return None;
        };
        let size = LabSize::parse(&text);
        if size.is_none() {
            let sizes = LabSize::CHOICES.map(LabSize::as_str);
            let message = format!("Input should be one of {}", sizes.join(", "));
            problems.push(problem(&location, "enum", message));
        }
        size
    }

    fn boolean(&self, name: &'static str, problems: &mut Problems) -> Option<bool> {
        match self.values.get(name) {
            None => Some(false),
            Some(Value::Bool(value)) => Some(*value),
            Some(Value::String(text)) if text == "true" => Some(true),
            Some(Value::String(text)) if text == "false" => Some(false),
            Some(value) => {
                let message = format!("Invalid boolean value {value}");
                problems.push(problem(&["body", "options", name], "value_error", message));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
