//! Access rules in words, for pages. No other person is named.

use crate::model::access::{
    Access,
    clause::Clause,
    compound::{CompoundRule, Requirement},
};

/// Who may open an app, in words.
pub fn who(access: &Access) -> String {
    match access {
        Access::Public => "open to everyone".into(),
        Access::User => "anyone who signs in".into(),
        Access::Group(group) => format!("members of {group}"),
        Access::Owner(_) | Access::Person(_) => "its owner".into(),
        Access::Admins => "admins".into(),
        Access::Compound(_) => "selected people".into(),
        Access::Unknown(_) => "no one: its access rule is not valid".into(),
    }
}

/// What an access rule requires, in words, for a person who was refused.
pub fn needed(access: &Access) -> String {
    match access {
        Access::Group(group) => format!("membership of the group {group}"),
        Access::Owner(_) | Access::Person(_) => "to be its owner".into(),
        Access::Admins => "to be an admin".into(),
        Access::User => "to be signed in".into(),
        Access::Public => "nothing".into(),
        Access::Compound(rule) => required(rule, rule.requirement()),
        Access::Unknown(_) => "a valid access rule; the app's author can help".into(),
    }
}

/// What a rule with several clauses requires.
fn required(rule: &CompoundRule, requirement: &Requirement) -> String {
    let (parts, word) = match requirement {
        Requirement::Clause(index) => {
            return rule.clause(*index).map_or_else(String::new, in_words);
        }
        Requirement::Any(parts) => (parts, " or "),
        Requirement::All(parts) => (parts, " and "),
    };
    let texts = parts.iter().map(|part| match part {
        Requirement::Clause(_) => required(rule, part),
        Requirement::Any(_) | Requirement::All(_) => format!("({})", required(rule, part)),
    });
    texts.collect::<Vec<_>>().join(word)
}

fn in_words(clause: &Clause) -> String {
    match clause {
        Clause::User => "to be signed in".into(),
        Clause::Group(group) => format!("membership of the group {group}"),
        Clause::Owner(_) => "to be its owner".into(),
        Clause::Email(pattern) => match pattern.whole_domain() {
            Some(domain) => format!("a verified e-mail address at {domain}"),
            None => "a certain verified e-mail address".into(),
        },
        Clause::Claim(_) => "a certain property of the account".into(),
    }
}
