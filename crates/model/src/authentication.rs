//! How and when a person authenticated, and what an app requires of that (OpenID Connect Core
//! sections 2 and 3.1.2.1, RFC 9470).

use std::{fmt, time::Duration};

/// Longest `acr` value, in bytes.
const MAX_CONTEXT: usize = 128;
/// Maximum number of `acr` values of one app.
const MAX_CONTEXTS: usize = 8;
/// The clock of the provider may be ahead by this much, in seconds.
const SKEW: i64 = 60;

/// How and when a person authenticated, as far as the provider says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationEvent {
    /// When the person entered credentials (`auth_time`), in seconds since 1970.
    pub time: Option<i64>,
    /// The authentication context class (`acr`).
    pub context: Option<Box<str>>,
}

impl AuthenticationEvent {
    /// The authentication that a token describes. A context that no app can require is dropped.
    pub fn new(time: Option<i64>, context: Option<&str>) -> AuthenticationEvent {
        AuthenticationEvent {
            time,
            context: context
                .filter(|context| is_context(context))
                .map(Into::into),
        }
    }
}

/// What an app requires of the sign-in of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationRequirement {
    /// Greatest age, in seconds; `None`: any.
    max_age: Option<u32>,
    /// One of these contexts; empty: any.
    contexts: Box<[Box<str>]>,
}

/// Why an authentication does not meet a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsufficientAuthentication {
    /// It was too long ago, or its time is not known.
    #[error("the time of the authentication is too long ago, or not known")]
    TooOld,
    /// Its context is another one, or not known.
    #[error("the authentication context is another one, or not known")]
    OtherContext,
}

/// A requirement is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// The greatest age is no number of seconds of 32 bits.
    #[error("is no number of seconds up to 4294967295")]
    MaxAge,
    /// A context is empty, too long, or has other characters.
    #[error("has a value that is not 1 to 128 printable ASCII characters without space, \" and \\")]
    Context,
    /// There are too many contexts.
    #[error("has more than 8 values")]
    TooMany,
}

impl AuthenticationRequirement {
    /// A requirement; `None` if it requires nothing.
    ///
    /// # Errors
    /// What is not valid.
    pub fn new(
        max_age: Option<Duration>,
        contexts: &[&str],
    ) -> Result<Option<AuthenticationRequirement>, InvalidRequirement> {
        let seconds = |age: Duration| u32::try_from(age.as_secs());
        let max_age = max_age.map(seconds).transpose();
        let max_age = max_age.map_err(|_| InvalidRequirement::MaxAge)?;
        if contexts.len() > MAX_CONTEXTS {
            return Err(InvalidRequirement::TooMany);
        }
        if !contexts.iter().all(|context| is_context(context)) {
            return Err(InvalidRequirement::Context);
        }
        let is_empty = max_age.is_none() && contexts.is_empty();
        Ok((!is_empty).then(|| AuthenticationRequirement {
            max_age,
            contexts: contexts.iter().map(|context| Box::from(*context)).collect(),
        }))
    }

    /// Reads the parameters `max_age` and `acr_values`; `None` if neither requires anything.
    ///
    /// # Errors
    /// Which of them is not valid.
    pub fn from_parameters(
        max_age: Option<&str>,
        acr_values: Option<&str>,
    ) -> Result<Option<AuthenticationRequirement>, InvalidRequirement> {
        let seconds = max_age.map(str::parse::<u32>).transpose();
        let seconds = seconds.map_err(|_| InvalidRequirement::MaxAge)?;
        let max_age = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let values = acr_values.unwrap_or_default().split(' ');
        let contexts: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
        AuthenticationRequirement::new(max_age, &contexts)
    }

    /// The value of the parameter `max_age`, in seconds.
    pub fn max_age(&self) -> Option<u32> {
        self.max_age
    }

    /// The accepted contexts, the preferred one first; empty: any.
    pub fn contexts(&self) -> &[Box<str>] {
        &self.contexts
    }

    /// The value of the parameter `acr_values`; `None`: every context is accepted.
    pub fn acr_values(&self) -> Option<String> {
        (!self.contexts.is_empty()).then(|| self.contexts.join(" "))
    }

    /// Whether an authentication meets the requirement. What is not known meets none. `now` is in
    /// seconds since 1970.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(
        &self,
        authentication: &AuthenticationEvent,
        now: i64,
    ) -> Result<(), InsufficientAuthentication> {
        if let Some(max_age) = self.max_age {
            let age = authentication.time.map(|time| now.saturating_sub(time));
            if !age.is_some_and(|age| (-SKEW..=i64::from(max_age)).contains(&age)) {
                return Err(InsufficientAuthentication::TooOld);
            }
        }
        let is_accepted = |context: &str| self.contexts.iter().any(|known| **known == *context);
        if self.contexts.is_empty() || authentication.context.as_deref().is_some_and(is_accepted) {
            Ok(())
        } else {
            Err(InsufficientAuthentication::OtherContext)
        }
    }
}

impl fmt::Display for AuthenticationRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(max_age) = self.max_age {
            write!(f, "at most {max_age} s ago")?;
        }
        if !self.contexts.is_empty() {
            let separator = if self.max_age.is_some() { ", " } else { "" };
            write!(f, "{separator}acr {}", self.contexts.join(" or "))?;
        }
        Ok(())
    }
}

/// Whether a text can stand in `acr_values` and in a quoted string of a challenge.
fn is_context(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=MAX_CONTEXT).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(max_age: Option<&str>, acr_values: Option<&str>) -> AuthenticationRequirement {
        let read = AuthenticationRequirement::from_parameters(max_age, acr_values);
        read.expect("valid").expect("a requirement")
    }

    #[test]
    fn what_is_not_known_meets_no_requirement() {
        use InsufficientAuthentication::{OtherContext, TooOld};
        let recent = required(Some("900"), None);
        let strong = required(None, Some("gold silver"));
        let both = required(Some("900"), Some("gold"));
        for (requirement, time, context, wanted) in [
            (&recent, None, Some("gold"), Err(TooOld)),
            (&recent, Some(100), None, Ok(())),
            (&recent, Some(99), None, Err(TooOld)),
            (&recent, Some(1060), None, Ok(())),
            (&recent, Some(1061), None, Err(TooOld)),
            (&recent, Some(i64::MIN), None, Err(TooOld)),
            (&recent, Some(i64::MAX), None, Err(TooOld)),
            (&strong, None, Some("gold"), Ok(())),
            (&strong, None, Some("silver"), Ok(())),
            (&strong, None, Some("Gold"), Err(OtherContext)),
            (&strong, None, Some("gold silver"), Err(OtherContext)),
            (&strong, Some(1000), None, Err(OtherContext)),
            (&both, Some(1000), Some("gold"), Ok(())),
            (&both, Some(1000), Some("silver"), Err(OtherContext)),
            (&both, Some(0), Some("gold"), Err(TooOld)),
        ] {
            let authentication = AuthenticationEvent::new(time, context);
            let checked = requirement.check(&authentication, 1000);
            assert_eq!(checked, wanted, "{requirement}: {authentication:?}");
        }
    }

    #[test]
    fn a_requirement_is_the_same_after_its_parameters_were_read() {
        for (max_age, acr_values) in [
            (Some("900"), None),
            (Some("0"), Some("gold")),
            (None, Some("urn:mace:incommon:iap:silver phr")),
        ] {
            let requirement = required(max_age, acr_values);
            let seconds = requirement.max_age().map(|seconds| seconds.to_string());
            assert_eq!(seconds.as_deref(), max_age);
            assert_eq!(requirement.acr_values().as_deref(), acr_values);
        }
    }

    #[test]
    fn parameters_that_no_provider_takes_are_refused() {
        let many = ["a"; MAX_CONTEXTS + 1].join(" ");
        let long = "a".repeat(MAX_CONTEXT + 1);
        for (max_age, acr_values, wanted) in [
            (Some("-1"), None, InvalidRequirement::MaxAge),
            (Some("15m"), None, InvalidRequirement::MaxAge),
            (Some(""), None, InvalidRequirement::MaxAge),
            (Some("4294967296"), None, InvalidRequirement::MaxAge),
            (None, Some("a\"b"), InvalidRequirement::Context),
            (None, Some("a\\b"), InvalidRequirement::Context),
            (None, Some("a\nb"), InvalidRequirement::Context),
            (None, Some("ä"), InvalidRequirement::Context),
            (None, Some(&*long), InvalidRequirement::Context),
            (None, Some(&*many), InvalidRequirement::TooMany),
        ] {
            let read = AuthenticationRequirement::from_parameters(max_age, acr_values);
            assert_eq!(read, Err(wanted), "{max_age:?} {acr_values:?}");
        }
        for nothing in [None, Some(""), Some(" ")] {
            let read = AuthenticationRequirement::from_parameters(None, nothing);
            assert_eq!(read, Ok(None), "{nothing:?}");
        }
    }

    #[test]
    fn a_requirement_is_one_line() {
        for (max_age, acr_values, wanted) in [
            (Some("900"), None, "at most 900 s ago"),
            (None, Some("a b"), "acr a or b"),
            (Some("60"), Some("a"), "at most 60 s ago, acr a"),
        ] {
            assert_eq!(required(max_age, acr_values).to_string(), wanted);
        }
    }
}
