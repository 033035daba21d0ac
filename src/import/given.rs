//! The options of an input, and the answers for them.

use std::{cell::RefCell, collections::HashMap};

use super::{
    draft::one_line,
    options::{self, Treatment},
    report::{ImportOutcome, ImportReport, ReportLine},
    value::Value,
};

/// An option as it is given.
pub(crate) struct Given {
    /// Its name in the table of options; the name as it is written, if it is unknown.
    pub(crate) option: String,
    /// The name as it is written.
    pub(crate) written: String,
    /// The file that has it.
    pub(crate) file: String,
    /// The line in it, from 1.
    pub(crate) line: Option<usize>,
    /// Its value.
    pub(crate) value: Value,
}

/// All options of an input. Of two with one name, the last one counts.
pub(crate) struct GivenOptions {
    given: Vec<Given>,
    /// The numbers of the options that count: the last ones of their names that are not empty.
    last: HashMap<String, usize>,
    answers: RefCell<Vec<Answer>>,
    missing: RefCell<Vec<String>>,
}

struct Answer {
    at: usize,
    outcome: ImportOutcome,
    explanation: String,
}

impl GivenOptions {
    /// Options of an input. Empty and replaced ones are answered here.
    pub(crate) fn new(given: Vec<Given>) -> GivenOptions {
        let numbered = given.iter().enumerate();
        let last = numbered
            .filter(|(_, given)| !given.value.is_empty())
            .map(|(at, given)| (given.option.clone(), at))
            .collect();
        let options = GivenOptions {
            given,
            last,
            answers: RefCell::default(),
            missing: RefCell::default(),
        };
        for (at, given) in options.given.iter().enumerate() {
            let last = options.position(&given.option);
            if is_blank_restriction(given) {
                let what = "it has only blank entries, so the rule admits no one";
                options.answer_at(at, ImportOutcome::NotSupported, what);
            } else if given.value.is_empty() {
                let what = "it is empty, which is the same as absent";
                options.answer_at(at, ImportOutcome::Default, what);
            } else if let Some(last) = last.filter(|last| *last != at)
                && !given.option.contains("[]")
                && let Some(other) = options.given.get(last)
            {
                let what = format!("{} of {} replaces it", other.written, other.file);
                options.answer_at(at, ImportOutcome::NotNeeded, what);
            }
        }
        options
    }

    /// Whether an option has a value.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.position(option).is_some()
    }

    /// Whether any option has a name that begins so.
    pub(crate) fn has_any(&self, start: &str) -> bool {
        self.given
            .iter()
            .any(|given| given.option.starts_with(start))
    }

    /// Whether the options may restrict access in a way that is not understood: an option is
    /// unknown, or a list has only blank entries.
    pub(crate) fn may_restrict_further(&self) -> bool {
        let is_unknown =
            |given: &Given| !given.value.is_empty() && options::find(&given.option).is_none();
        self.given
            .iter()
            .any(|given| is_unknown(given) || is_blank_restriction(given))
    }

    /// The text of an option.
    pub(crate) fn text(&self, option: &str) -> Option<String> {
        let text = self.value(option)?.text()?;
        Some(text.trim().to_owned())
    }

    /// The texts of an option; none, if it is absent.
    pub(crate) fn texts(&self, option: &str) -> Vec<String> {
        self.value(option)
            .and_then(Value::texts)
            .unwrap_or_default()
    }

    /// The boolean of an option.
    pub(crate) fn switch(&self, option: &str) -> Option<bool> {
        self.value(option)?.switch()
    }

    /// The duration of an option, in milliseconds.
    pub(crate) fn milliseconds(&self, option: &str) -> Option<u64> {
        self.value(option)?.milliseconds()
    }

    /// The options of a name, each with its number.
    pub(crate) fn each(&self, option: &str) -> impl Iterator<Item = (usize, &Given)> {
        let numbered = self.given.iter().enumerate();
        numbered.filter(move |(_, given)| given.option == option && !given.value.is_empty())
    }

    /// The options of which the name begins so, each with its number.
    pub(crate) fn each_of(&self, start: &str) -> impl Iterator<Item = (usize, &Given)> {
        let numbered = self.given.iter().enumerate();
        numbered.filter(move |(_, given)| given.option.starts_with(start))
    }

    /// Answers an option, if it is there.
    pub(crate) fn answer(
        &self,
        option: &str,
        outcome: ImportOutcome,
        explanation: impl Into<String>,
    ) {
        if let Some(at) = self.position(option) {
            self.answer_at(at, outcome, explanation);
        }
    }

    /// Answers an option by its number.
    pub(crate) fn answer_at(
        &self,
        at: usize,
        outcome: ImportOutcome,
        explanation: impl Into<String>,
    ) {
        let explanation = one_line(&explanation.into());
        let mut answers = self.answers.borrow_mut();
        answers.push(Answer {
            at,
            outcome,
            explanation,
        });
    }

    /// An option is a key of the written file.
    pub(crate) fn mapped(&self, option: &str, key: impl Into<String>) {
        self.answer(option, ImportOutcome::Mapped, key);
    }

    /// An option has no counterpart.
    pub(crate) fn not_supported(&self, option: &str, instead: impl Into<String>) {
        self.answer(option, ImportOutcome::NotSupported, instead);
    }

    /// Ludgate needs something that the input does not have.
    pub(crate) fn miss(&self, what: impl Into<String>) {
        self.missing.borrow_mut().push(what.into());
    }

    /// The report; options without an answer get that of the table.
    pub(crate) fn into_report(self) -> ImportReport {
        let mut answers = self.answers.into_inner();
        // Answers of one option keep their order.
        answers.sort_by_key(|answer| answer.at);
        let mut answers = answers.into_iter().peekable();
        let mut lines = Vec::new();
        for (at, given) in self.given.iter().enumerate() {
            let mut own: Vec<(ImportOutcome, String)> = Vec::new();
            while let Some(answer) = answers.next_if(|answer| answer.at == at) {
                own.push((answer.outcome, answer.explanation));
            }
            if own.is_empty() {
                own.push(answer_of_table(given));
            }
            lines.extend(own.into_iter().map(|(outcome, explanation)| ReportLine {
                file: given.file.clone(),
                line: given.line,
                option: one_line(&given.written),
                outcome,
                explanation,
            }));
        }
        ImportReport {
            lines,
            missing: self.missing.into_inner(),
        }
    }

    /// The number of the option that counts.
    fn position(&self, option: &str) -> Option<usize> {
        self.last.get(option).copied()
    }

    fn value(&self, option: &str) -> Option<&Value> {
        let given = self.given.get(self.position(option)?)?;
        Some(&given.value)
    }
}

fn is_blank_restriction(given: &Given) -> bool {
    given.value.is_blank() && options::is_restriction(&given.option)
}

fn answer_of_table(given: &Given) -> (ImportOutcome, String) {
    let Some(entry) = options::find(&given.option) else {
        let near = options::nearest(&given.option);
        let hint = near.map(|name| format!("did you mean {name}?"));
        return (ImportOutcome::Unknown, hint.unwrap_or_default());
    };
    match entry.treatment {
        Treatment::Fixed(value, _) if is_value(&given.value, value) => {
            (ImportOutcome::Default, String::new())
        }
        Treatment::NotNeeded(reason) => (ImportOutcome::NotNeeded, reason.to_owned()),
        Treatment::Fixed(_, instead) | Treatment::NotSupported(instead) => {
            (ImportOutcome::NotSupported, instead.to_owned())
        }
        Treatment::Translated => {
            let what = "it has no effect together with the other options";
            (ImportOutcome::NotSupported, what.to_owned())
        }
    }
}

fn is_value(value: &Value, wanted: &str) -> bool {
    let is_switch = value
        .switch()
        .is_some_and(|is_on| is_on.to_string() == wanted);
    let is_text = value
        .texts()
        .is_some_and(|texts| texts.iter().all(|text| text.eq_ignore_ascii_case(wanted)));
    is_switch || is_text
}
