//! The lines of `ludgate explain` about access rules and their clauses.

use crate::{
    authorize::{Denied, Permit, excludes, match_of},
    decide::{Decision, Reason},
    model::{
        access::{Access, clause::Clause, compound::CompoundRule},
        app::App,
        destination::Destination,
        path_rule::RuleIndex,
        principal::Principal,
    },
};

/// The rules that apply, and for rules with several clauses whether each matches the person.
pub(super) fn applied(destination: &Destination, person: Option<&Principal>) -> String {
    let app = &destination.app;
    let mut text = String::new();
    if destination.rules().is_for_preflight() {
        text += "preflight needs no person\n";
    }
    for index in destination.rules().iter() {
        let access = app.rule(index);
        text += &format!("access    {access}{}\n", for_paths(app, index));
        if let (Access::Compound(rule), Some(person)) = (access, person) {
            text += &clauses(rule, person);
        }
    }
    if let Some(requirement) = &app.spec.authentication {
        text += &format!("sign-in   {requirement}\n");
    }
    text
}

/// What a rule of paths is for; empty for the app's own rule.
fn for_paths(app: &App, index: RuleIndex) -> String {
    let Some(rule) = app.spec.paths.get(index) else {
        return String::new();
    };
    let methods = rule.methods().iter().map(|method| format!("{method} "));
    let methods: String = methods.collect();
    format!(", for {methods}{}/", rule.prefix())
}

fn clauses(rule: &CompoundRule, person: &Principal) -> String {
    let lines = rule.clauses().map(|(_, clause, denies)| {
        let is_match = match denies {
            true => excludes(clause, person),
            false => match_of(clause, person).is_some(),
        };
        let word = if is_match {
            "matches"
        } else {
            "does not match"
        };
        format!("clause    {}: {word}\n", written(clause, denies))
    });
    lines.collect()
}

fn written(clause: &Clause, denies: bool) -> String {
    match denies {
        true => format!("deny:{clause}"),
        false => clause.to_string(),
    }
}

/// The clause that admitted the person, where there are several.
pub(super) fn admitted_by(permit: &Permit) -> String {
    let clause = permit.admitting_clause();
    clause.map_or_else(String::new, |clause| format!("admitted  by {clause}\n"))
}

/// The clause for which access is denied, where there are several.
pub(super) fn denied_by(decision: &Decision) -> String {
    denial(decision).unwrap_or_default()
}

fn denial(decision: &Decision) -> Option<String> {
    let Decision::Refuse(refusal) = decision else {
        return None;
    };
    let Reason::Denied(denied) = refusal.reason else {
        return None;
    };
    let rule = refusal.app.as_ref()?.rule(refusal.rule).compound()?;
    match denied {
        Denied::NotAdmitted(index) => {
            let clause = rule.clause(index)?;
            Some(format!("denied    no match, such as of {clause}\n"))
        }
        Denied::Excluded(index) => {
            let clause = rule.clause(index)?;
            Some(format!("denied    by deny:{clause}\n"))
        }
        Denied::Anonymous
        | Denied::NotInGroup
        | Denied::NotOwner
        | Denied::OtherIssuer
        | Denied::InsufficientAuthentication(_)
        | Denied::UnknownAccess => None,
    }
}
