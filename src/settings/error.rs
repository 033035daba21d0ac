//! Configuration errors: all of a file at once, each with key path, line and a suggestion.

use std::fmt;

/// One error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Key path, such as `apps[2].access`.
    pub key: String,
    /// Line in the file, from 1; `None` for missing keys and for variables.
    pub line: Option<usize>,
    /// The problem, as the rest of a sentence that begins with the key.
    pub what: String,
    /// A valid example or the nearest valid spelling.
    pub suggestion: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}: {}", self.key, self.what)?,
            None => write!(f, "{}: {}", self.key, self.what)?,
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "\n    {suggestion}"),
            None => Ok(()),
        }
    }
}

/// All errors of an invalid configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.0 {
            writeln!(f, "{error}")?;
        }
        let plural = if self.0.len() == 1 {
            "mistake"
        } else {
            "mistakes"
        };
        write!(f, "{} {plural}", self.0.len())
    }
}
