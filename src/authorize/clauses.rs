//! Rules with several clauses. Pure, without allocation.
//!
//! A clause that denies is checked first. What is not known of a person admits no one, and denies.

use super::outcome::{ClauseKind, Denied, Grounds};
use crate::model::{
    access::{
        clause::{ClaimTest, Clause},
        compound::{ClauseIndex, CompoundRule, Requirement},
    },
    principal::Principal,
};

/// Checks a person against a rule.
pub(super) fn check(rule: &CompoundRule, person: &Principal) -> Result<Grounds, Denied> {
    for index in rule.denials() {
        if rule
            .clause(*index)
            .is_none_or(|clause| excludes(clause, person))
        {
            return Err(Denied::Excluded(*index));
        }
    }
    met(rule, rule.requirement(), person).map_err(Denied::NotAdmitted)
}

/// The clause that met the requirement, else the first that would have had to match.
fn met(
    rule: &CompoundRule,
    requirement: &Requirement,
    person: &Principal,
) -> Result<Grounds, ClauseIndex> {
    match requirement {
        Requirement::Clause(index) => {
            let kind = rule
                .clause(*index)
                .and_then(|clause| match_of(clause, person));
            kind.map(|kind| Grounds::Clause(kind, *index)).ok_or(*index)
        }
        Requirement::Any(parts) => {
            let mut first = None;
            for part in parts.iter() {
                match met(rule, part, person) {
                    Ok(grounds) => return Ok(grounds),
                    Err(index) => first = first.or(Some(index)),
                }
            }
            Err(first.unwrap_or(ClauseIndex::FIRST))
        }
        Requirement::All(parts) => {
            let mut last = Err(ClauseIndex::FIRST);
            for part in parts.iter() {
                last = Ok(met(rule, part, person)?);
            }
            last
        }
    }
}

/// By what a clause admits a person; `None`: it does not.
pub fn match_of(clause: &Clause, person: &Principal) -> Option<ClauseKind> {
    match clause {
        Clause::User => (!person.is_foreign).then_some(ClauseKind::User),
        Clause::Group(group) => person.is_in(group).then_some(ClauseKind::Group),
        Clause::Owner(owner) if person.is_identified_by(owner) => Some(ClauseKind::Owner),
        Clause::Owner(_) => person.is_admin.then_some(ClauseKind::Admin),
        Clause::Email(pattern) => {
            let address = person.verified_email()?;
            pattern.matches(address).then_some(ClauseKind::Email)
        }
        Clause::Claim(test) => {
            let values = person.claims.values(&test.pointer)?;
            has(values, test).then_some(ClauseKind::Claim)
        }
    }
}

/// Whether a clause after `deny:` denies the person. Admins are no owners here, and an address
/// need not be verified.
pub fn excludes(clause: &Clause, person: &Principal) -> bool {
    match clause {
        Clause::User => true,
        Clause::Group(group) => person.may_be_in(group),
        Clause::Owner(owner) => person.may_be_identified_by(owner),
        Clause::Email(pattern) => {
            let address = person.email.as_deref();
            address.is_none_or(|address| pattern.matches(address))
        }
        Clause::Claim(test) => {
            let values = person.claims.values(&test.pointer);
            values.is_none_or(|values| has(values, test))
        }
    }
}

fn has(values: &[Box<str>], test: &ClaimTest) -> bool {
    values.contains(&test.value)
}

#[cfg(test)]
mod tests;
