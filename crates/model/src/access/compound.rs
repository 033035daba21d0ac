//! Access rules with several clauses.
//!
//! Invariant: all clauses are known, at least one of them admits, and none is `public`.

use std::{fmt, iter};

use super::clause::{ClaimPointer, Clause};

/// Maximum nesting of tables.
const MAX_DEPTH: usize = 3;
/// Maximum of clauses in one rule.
const MAX_CLAUSES: usize = 32;

/// A rule as it is written: a text, or a table with the key `any` or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenRule {
    /// One clause.
    Clause(String),
    /// One of these must match.
    Any(Vec<WrittenRule>),
    /// All of these must match.
    All(Vec<WrittenRule>),
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// An unknown clause.
    #[error("{0:?} is no access rule")]
    NoClause(String),
    /// `any` or `all` without a clause.
    #[error("has a list without a clause")]
    Empty,
    /// Too many tables inside each other.
    #[error("has more than 3 tables inside each other")]
    TooDeep,
    /// Too many clauses.
    #[error("has more than 32 clauses")]
    TooMany,
    /// No clause admits a person.
    #[error("has only clauses that deny, so it admits no one; add \"user\"")]
    OnlyDenies,
    /// `public` with `deny:`: a denied person could come without signing in.
    #[error("has \"public\" and \"deny:\"; denied people could come without a sign-in")]
    DenyWithPublic,
}

/// The number of a clause in its rule, in the order in which they are written; from 0. `public` is
/// not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClauseIndex(u8);

impl ClauseIndex {
    /// The first clause.
    pub const FIRST: ClauseIndex = ClauseIndex(0);
}

/// When a person is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The clause matches.
    Clause(ClauseIndex),
    /// One of these is met.
    Any(Box<[Requirement]>),
    /// All of these are met.
    All(Box<[Requirement]>),
}

/// A rule with several clauses, or with one that only such rules can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundRule {
    /// All clauses, those that deny among them.
    clauses: Box<[Clause]>,
    /// The clauses that deny. They take precedence over all others, wherever they are written.
    denials: Box<[ClauseIndex]>,
    requirement: Requirement,
}

/// The meaning of a written rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The same as `public`.
    Public,
    /// The same as this clause alone.
    Clause(Clause),
    /// Several clauses.
    Compound(CompoundRule),
}

impl CompoundRule {
    /// Reads a rule. `public` in `any` makes the whole list public; in `all` it adds nothing.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn parse(written: &WrittenRule) -> Result<Meaning, RuleError> {
        let mut builder = Builder::default();
        let part = builder.part(written, 0)?;
        let Builder {
            mut clauses,
            denials,
        } = builder;
        match part {
            Part::Always if denials.is_empty() => Ok(Meaning::Public),
            Part::Always => Err(RuleError::DenyWithPublic),
            Part::Denials => Err(RuleError::OnlyDenies),
            Part::Requirement(requirement) => match (requirement, clauses.pop()) {
                (Requirement::Clause(ClauseIndex::FIRST), Some(clause)) if clauses.is_empty() => {
                    Ok(Meaning::Clause(clause))
                }
                (requirement, last) => {
                    clauses.extend(last);
                    Ok(Meaning::Compound(CompoundRule {
                        clauses: clauses.into(),
                        denials: denials.into(),
                        requirement,
                    }))
                }
            },
        }
    }

    /// A rule of one clause.
    pub fn single(clause: Clause) -> CompoundRule {
        CompoundRule {
            clauses: iter::once(clause).collect(),
            denials: Box::default(),
            requirement: Requirement::Clause(ClauseIndex::FIRST),
        }
    }

    /// A clause by its number.
    pub fn clause(&self, index: ClauseIndex) -> Option<&Clause> {
        self.clauses.get(usize::from(index.0))
    }

    /// All clauses in the order in which they are written, each with whether it denies.
    pub fn clauses(&self) -> impl Iterator<Item = (ClauseIndex, &Clause, bool)> {
        let numbers = (0..=u8::MAX).map(ClauseIndex);
        let numbered = numbers.zip(self.clauses.iter());
        numbered.map(|(index, clause)| (index, clause, self.denials.contains(&index)))
    }

    /// The clauses that deny.
    pub fn denials(&self) -> &[ClauseIndex] {
        &self.denials
    }

    /// The condition for a person that no clause denies.
    pub fn requirement(&self) -> &Requirement {
        &self.requirement
    }

    /// The claims that the rule reads.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimPointer> {
        self.clauses.iter().filter_map(Clause::claim)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, requirement: &Requirement) -> fmt::Result {
        let (name, parts) = match requirement {
            Requirement::Clause(index) => {
                let clause = self.clause(*index);
                return clause.map_or(Ok(()), |clause| write!(f, "{clause}"));
            }
            Requirement::Any(parts) => ("any", parts),
            Requirement::All(parts) => ("all", parts),
        };
        write!(f, "{name}(")?;
        for (at, part) in parts.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            self.write(f, part)?;
        }
        f.write_str(")")
    }
}

/// `any(group:a, all(user, email:*@example.com)), deny:group:b`
impl fmt::Display for CompoundRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &self.requirement)?;
        let denials = self.denials.iter();
        for clause in denials.filter_map(|index| self.clause(*index)) {
            write!(f, ", deny:{clause}")?;
        }
        Ok(())
    }
}

/// The meaning of a part of a rule.
enum Part {
    /// Every request.
    Always,
    /// Nothing of its own: its clauses deny.
    Denials,
    Requirement(Requirement),
}

#[derive(Default)]
struct Builder {
    clauses: Vec<Clause>,
    denials: Vec<ClauseIndex>,
}

impl Builder {
    fn part(&mut self, written: &WrittenRule, depth: usize) -> Result<Part, RuleError> {
        let (parts, is_any) = match written {
            WrittenRule::Clause(text) => return self.clause(text),
            WrittenRule::Any(parts) => (parts, true),
            WrittenRule::All(parts) => (parts, false),
        };
        if depth == MAX_DEPTH {
            return Err(RuleError::TooDeep);
        }
        if parts.is_empty() {
            return Err(RuleError::Empty);
        }
        let (mut requirements, mut has_public) = (Vec::new(), false);
        for part in parts {
            match self.part(part, depth + 1)? {
                Part::Always => has_public = true,
                Part::Denials => {}
                Part::Requirement(requirement) => requirements.push(requirement),
            }
        }
        if has_public && (is_any || requirements.is_empty()) {
            return Ok(Part::Always);
        }
        Ok(match requirements.pop() {
            None => Part::Denials,
            Some(only) if requirements.is_empty() => Part::Requirement(only),
            Some(last) => {
                requirements.push(last);
                let requirements = requirements.into();
                Part::Requirement(match is_any {
                    true => Requirement::Any(requirements),
                    false => Requirement::All(requirements),
                })
            }
        })
    }

    fn clause(&mut self, text: &str) -> Result<Part, RuleError> {
        if text == "public" {
            return Ok(Part::Always);
        }
        let unknown = || RuleError::NoClause(text.to_owned());
        let denied = text.strip_prefix("deny:");
        let clause = Clause::parse(denied.unwrap_or(text)).ok_or_else(unknown)?;
        // `deny:user` would deny every person.
        if denied.is_some() && clause == Clause::User {
            return Err(unknown());
        }
        let number = self.clauses.len();
        let index = u8::try_from(number).ok().filter(|_| number < MAX_CLAUSES);
        let index = ClauseIndex(index.ok_or(RuleError::TooMany)?);
        self.clauses.push(clause);
        if denied.is_some() {
            self.denials.push(index);
            return Ok(Part::Denials);
        }
        Ok(Part::Requirement(Requirement::Clause(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> WrittenRule {
        WrittenRule::Clause(text.to_owned())
    }

    fn any(texts: &[&str]) -> WrittenRule {
        WrittenRule::Any(texts.iter().copied().map(text).collect())
    }

    fn all(texts: &[&str]) -> WrittenRule {
        WrittenRule::All(texts.iter().copied().map(text).collect())
    }

    fn read(written: &WrittenRule) -> String {
        match CompoundRule::parse(written) {
            Ok(Meaning::Public) => "public".to_owned(),
            Ok(Meaning::Clause(clause)) => format!("only {clause}"),
            Ok(Meaning::Compound(rule)) => rule.to_string(),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn a_rule_is_read_with_its_clauses_in_order() {
        let nested = WrittenRule::Any(vec![text("group:a"), all(&["user", "email:*@x.test"])]);
        let deep = |inner| WrittenRule::All(vec![WrittenRule::Any(vec![text("user"), inner])]);
        for (written, wanted) in [
            (text("group:a"), "only group:a"),
            (any(&["group:a"]), "only group:a"),
            (any(&["group:a", "group:b"]), "any(group:a, group:b)"),
            (all(&["group:a", "group:b"]), "all(group:a, group:b)"),
            (nested, "any(group:a, all(user, email:*@x.test))"),
            (any(&["deny:owner:eve", "user"]), "user, deny:owner:eve"),
            (any(&["public", "group:a"]), "public"),
            (all(&["public", "group:a"]), "only group:a"),
            (all(&["public"]), "public"),
            (
                deep(all(&["group:a", "group:b"])),
                "any(user, all(group:a, group:b))",
            ),
        ] {
            assert_eq!(read(&written), wanted, "{written:?}");
        }
    }

    #[test]
    fn a_rule_that_cannot_mean_what_its_author_wants_is_refused() {
        let many: Vec<String> = (0..33).map(|number| format!("group:g{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut deep = any(&["user", "group:a"]);
        for _ in 0..3 {
            deep = WrittenRule::All(vec![text("group:b"), deep]);
        }
        for (written, wanted) in [
            (any(&[]), "Empty"),
            (WrittenRule::All(vec![text("user"), any(&[])]), "Empty"),
            (any(&["user", "Group:a"]), "NoClause(\"Group:a\")"),
            (any(&["user", "deny:user"]), "NoClause(\"deny:user\")"),
            (any(&["user", "deny:public"]), "NoClause(\"deny:public\")"),
            (
                any(&["user", "deny:deny:group:a"]),
                "NoClause(\"deny:deny:group:a\")",
            ),
            (text("deny:group:a"), "OnlyDenies"),
            (all(&["deny:group:a", "deny:group:b"]), "OnlyDenies"),
            (any(&["public", "deny:group:a"]), "DenyWithPublic"),
            (all(&["public", "deny:group:a"]), "DenyWithPublic"),
            (any(&many), "TooMany"),
            (deep, "TooDeep"),
        ] {
            assert_eq!(read(&written), wanted, "{written:?}");
        }
    }
}
