//! Headers that an app's table adds to its requests: constants, and values of the person.
//!
//! Invariant: no value adds a header or a line, and where a template has several values, none can
//! be mistaken for a part of another.

use http::{HeaderName, HeaderValue};
use percent_encoding::percent_encode_byte;

use super::{
    access::{GroupName, clause::ClaimPointer},
    identity_headers::{GroupsHeader, group_value},
    principal::Principal,
};

/// Longest value of such a header, in bytes. A longer one is not sent.
const MAX_LENGTH: usize = 16 * 1024;

/// A header of an app's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppHeader {
    /// Its name. A client's headers of this name, in any spelling, are removed.
    pub name: HeaderName,
    /// Its value.
    pub value: HeaderTemplate,
}

/// The value of a header: constant text and values of the person, such as `{subject} <{email}>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTemplate {
    parts: Box<[TemplatePart]>,
    /// Characters between the values. They are escaped inside values.
    separators: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(Box<str>),
    Value(PersonValue),
}

/// A value of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PersonValue {
    Subject,
    Email,
    PreferredUsername,
    DisplayName,
    Groups,
    Claim(ClaimPointer),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderTemplateError {
    /// Receivers trim outer spaces, and drop empty fields.
    #[error("must be a text that neither begins nor ends with a space")]
    OuterSpace,
    /// A control character, or one outside of ASCII.
    #[error("has a character that no header can hold; constant text must be printable ASCII")]
    Unprintable,
    /// A single brace.
    #[error("has a {{ or }} that belongs to no value; write {{{{ or }}}} for the character itself")]
    Brace,
    /// Not one of the known values. It is not quoted, since constant text may be a secret.
    #[error(
        "has an unknown value in braces; there are {{subject}}, {{email}}, {{preferred_username}}, {{display_name}}, {{groups}} and {{claim:<JSON pointer>}}"
    )]
    UnknownValue,
    /// Two values that a reader could not tell apart.
    #[error(
        "has two values without a separator; write a space or a punctuation character between them"
    )]
    Inseparable,
    /// The comma separates the members of a list.
    #[error(
        "has a comma between values, and one of them is a list with commas; use another separator"
    )]
    CommaBesideList,
}

impl HeaderTemplate {
    /// Parses a text in which `{subject}`, `{email}`, `{preferred_username}`, `{display_name}`,
    /// `{groups}` and `{claim:<JSON pointer>}` are values of the person. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// See [`HeaderTemplateError`].
    pub fn parse(text: &str) -> Result<HeaderTemplate, HeaderTemplateError> {
        if text.is_empty() || text.starts_with(' ') || text.ends_with(' ') {
            return Err(HeaderTemplateError::OuterSpace);
        }
        let parts = parts(text)?;
        let mut values = parts.iter().filter(|part| part.value().is_some()).count();
        let mut separators: Vec<u8> = Vec::new();
        let mut is_after_value = false;
        let mut can_separate = true;
        for part in &parts {
            match part {
                TemplatePart::Text(text) => {
                    let found = text.bytes().filter(|byte| is_separator(*byte));
                    // Text before the first value and after the last one separates nothing.
                    if is_after_value && values > 0 {
                        separators.extend(found.clone());
                    }
                    can_separate = found.count() > 0;
                }
                TemplatePart::Value(_) if is_after_value && !can_separate => {
                    return Err(HeaderTemplateError::Inseparable);
                }
                TemplatePart::Value(_) => {
                    values -= 1;
                    (is_after_value, can_separate) = (true, false);
                }
            }
        }
        let has_list = parts
            .iter()
            .filter_map(TemplatePart::value)
            .any(PersonValue::is_list);
        if has_list && separators.contains(&b',') {
            return Err(HeaderTemplateError::CommaBesideList);
        }
        Ok(HeaderTemplate {
            parts: parts.into(),
            separators: separators.into(),
        })
    }

    /// The claims that it names.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimPointer> {
        self.parts.iter().filter_map(|part| match part.value()? {
            PersonValue::Claim(pointer) => Some(pointer),
            PersonValue::Subject
            | PersonValue::Email
            | PersonValue::PreferredUsername
            | PersonValue::DisplayName
            | PersonValue::Groups => None,
        })
    }

    /// The value for a person; `admitting_group` stands for groups that do not fit into a header.
    /// `None`: one of its values is not known, or the text would be too long.
    pub fn render(
        &self,
        person: Option<&Principal>,
        admitting_group: Option<&GroupName>,
    ) -> Option<HeaderValue> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Value(value) => {
                    let before = out.len();
                    self.push_value(&mut out, value, person?, admitting_group)?;
                    if out.len() == before {
                        return None;
                    }
                }
            }
        }
        let fits = out.len() <= MAX_LENGTH;
        HeaderValue::try_from(out).ok().filter(|_| fits)
    }

    fn push_value(
        &self,
        out: &mut String,
        value: &PersonValue,
        person: &Principal,
        admitting_group: Option<&GroupName>,
    ) -> Option<()> {
        match value {
            PersonValue::Subject => self.push_text(out, &person.subject),
            PersonValue::Email => self.push_text(out, person.email.as_deref()?),
            PersonValue::PreferredUsername => {
                self.push_text(out, person.preferred_username.as_deref()?)
            }
            PersonValue::DisplayName => self.push_text(out, &person.display_name),
            PersonValue::Groups => {
                let list = match &person.headers.groups {
                    GroupsHeader::Absent => None,
                    GroupsHeader::Whole(list) => Some(list.clone()),
                    GroupsHeader::TooLong => admitting_group.and_then(group_value),
                };
                // It is encoded already.
                push_escaped(out, list?.to_str().ok()?, |byte| self.separates(byte));
            }
            PersonValue::Claim(pointer) => {
                for (at, member) in person.claims.values(pointer)?.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.push_member(out, member);
                }
            }
        }
        Some(())
    }

    fn push_text(&self, out: &mut String, text: &str) {
        let has_outer_space = has_outer_space(text);
        push_escaped(out, text, |byte| {
            byte == b'%' || (has_outer_space && byte == b' ') || self.separates(byte)
        });
    }

    /// A member of a list, or a claim that may be one.
    fn push_member(&self, out: &mut String, text: &str) {
        let has_outer_space = has_outer_space(text);
        push_escaped(out, text, |byte| {
            matches!(byte, b'%' | b',') || (has_outer_space && byte == b' ') || self.separates(byte)
        });
    }

    fn separates(&self, byte: u8) -> bool {
        self.separators.contains(&byte)
    }
}

impl TemplatePart {
    fn value(&self) -> Option<&PersonValue> {
        match self {
            TemplatePart::Text(_) => None,
            TemplatePart::Value(value) => Some(value),
        }
    }
}

impl PersonValue {
    fn parse(name: &str) -> Option<PersonValue> {
        match name {
            "subject" => Some(PersonValue::Subject),
            "email" => Some(PersonValue::Email),
            "preferred_username" => Some(PersonValue::PreferredUsername),
            "display_name" => Some(PersonValue::DisplayName),
            "groups" => Some(PersonValue::Groups),
            _ => {
                let pointer = ClaimPointer::new(name.strip_prefix("claim:")?);
                pointer.map(PersonValue::Claim)
            }
        }
    }

    /// Whether it may have commas between its members.
    fn is_list(&self) -> bool {
        match self {
            PersonValue::Groups | PersonValue::Claim(_) => true,
            PersonValue::Subject
            | PersonValue::Email
            | PersonValue::PreferredUsername
            | PersonValue::DisplayName => false,
        }
    }
}

fn parts(text: &str) -> Result<Vec<TemplatePart>, HeaderTemplateError> {
    let mut parts = Vec::new();
    let mut constant = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        constant.push_str(before);
        if let Some(after) = from.strip_prefix("{{") {
            constant.push('{');
            rest = after;
        } else if let Some(after) = from.strip_prefix("}}") {
            constant.push('}');
            rest = after;
        } else {
            let inside = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let (name, after) = inside.ok_or(HeaderTemplateError::Brace)?;
            let value = PersonValue::parse(name).ok_or(HeaderTemplateError::UnknownValue)?;
            push_constant(&mut parts, std::mem::take(&mut constant))?;
            parts.push(TemplatePart::Value(value));
            rest = after;
        }
    }
    constant.push_str(rest);
    push_constant(&mut parts, constant)?;
    Ok(parts)
}

fn push_constant(parts: &mut Vec<TemplatePart>, text: String) -> Result<(), HeaderTemplateError> {
    if !text.bytes().all(is_printable) {
        return Err(HeaderTemplateError::Unprintable);
    }
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text.into()));
    }
    Ok(())
}

/// Appends a text. Control characters and all bytes outside of ASCII are percent-encoded too, as in
/// `X-Forwarded-User`.
fn push_escaped(out: &mut String, text: &str, is_escaped: impl Fn(u8) -> bool) {
    for byte in text.bytes() {
        if is_printable(byte) && !is_escaped(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(percent_encode_byte(byte));
        }
    }
}

fn is_printable(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

/// Whether a byte can separate values: escapes are written with letters, digits and `%`.
fn is_separator(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte != b'%'
}

/// Whether receivers of a header would trim the text.
fn has_outer_space(text: &str) -> bool {
    text.starts_with(' ') || text.ends_with(' ')
}

#[cfg(test)]
mod tests;
