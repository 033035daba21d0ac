//! What became of each option, and the errors of an unreadable input.

use std::fmt;

/// What became of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportOutcome {
    /// It is a key of the written file.
    Mapped,
    /// Ludgate does the same without a key.
    Default,
    /// Ludgate has no need for it.
    NotNeeded,
    /// Ludgate has nothing like it. Access is never wider for that.
    NotSupported,
    /// It is no option of oauth2-proxy.
    Unknown,
}

impl ImportOutcome {
    /// All, in the order of the summary.
    pub const ALL: [ImportOutcome; 5] = [
        ImportOutcome::Mapped,
        ImportOutcome::Default,
        ImportOutcome::NotNeeded,
        ImportOutcome::NotSupported,
        ImportOutcome::Unknown,
    ];

    /// The words in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            ImportOutcome::Mapped => "mapped",
            ImportOutcome::Default => "default",
            ImportOutcome::NotNeeded => "not needed",
            ImportOutcome::NotSupported => "not supported",
            ImportOutcome::Unknown => "unknown",
        }
    }
}

/// One line of the report. An option whose parts differ has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLine {
    /// The file that has the option.
    pub file: String,
    /// The line in it, from 1, where it is known.
    pub line: Option<usize>,
    /// The option as it is written there.
    pub option: String,
    /// What became of it.
    pub outcome: ImportOutcome,
    /// The key, the reason, or what to do instead. Never holds a secret.
    pub explanation: String,
}

/// What became of all options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// The options, in the order of the input.
    pub lines: Vec<ReportLine>,
    /// What Ludgate needs and the input does not have.
    pub missing: Vec<String>,
}

impl ImportReport {
    /// Whether the written file does all that the input says.
    pub fn is_complete(&self) -> bool {
        let is_lost = |outcome| {
            matches!(
                outcome,
                ImportOutcome::NotSupported | ImportOutcome::Unknown
            )
        };
        self.missing.is_empty() && !self.lines.iter().any(|line| is_lost(line.outcome))
    }

    fn count(&self, outcome: ImportOutcome) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.outcome == outcome).count()
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let place = Place(&line.file, line.line);
            let outcome = line.outcome.as_str();
            write!(f, "{place}: {}: {outcome}", line.option)?;
            match line.explanation.is_empty() {
                true => writeln!(f)?,
                false => writeln!(f, ": {}", line.explanation)?,
            }
        }
        for missing in &self.missing {
            writeln!(f, "missing: {missing}")?;
        }
        let counts = ImportOutcome::ALL.map(|outcome| {
            let count = self.count(outcome);
            format!("{count} {}", outcome.as_str())
        });
        write!(f, "{}", counts.join(", "))?;
        match self.missing.len() {
            0 => Ok(()),
            count => write!(f, ", {count} missing"),
        }
    }
}

/// A file, and a line where it is known.
struct Place<'p>(&'p str, Option<usize>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(line) => write!(f, "{}:{line}", self.0),
            None => f.write_str(self.0),
        }
    }
}

/// One mistake of an input. No value is quoted, since it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// The line in it, from 1, where it is known.
    pub line: Option<usize>,
    /// The problem.
    pub what: String,
}

/// All mistakes of an input that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ImportErrors(pub Vec<ImportError>);

impl fmt::Display for ImportErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let place = Place(&error.file, error.line);
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{place}: {}", error.what)?;
        }
        Ok(())
    }
}
