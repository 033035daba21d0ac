//! Checks whether a person may reach an app. Pure: no IO, no clock, no allocation; runs on every
//! request.
//!
//! Invariant: a [`Permit`] can only be made here, and `forward` takes nothing else.

mod clauses;
mod outcome;

use std::sync::Arc;

use crate::model::{
    access::{Access, GroupName, clause::Clause},
    app::{App, AppKind},
    authentication::AuthenticationEvent,
    destination::Destination,
    path_rule::{RuleIndex, RuleSet},
    principal::Principal,
};
pub use clauses::{excludes, match_of};
pub use outcome::{Admission, ClauseKind, Denial, Denied, Grounds};

/// The right to send one request to one app, created by [`authorize`] and consumed by `forward`.
#[derive(Debug)]
pub struct Permit {
    destination: Destination,
    principal: Option<Arc<Principal>>,
    admission: Admission,
}

impl Permit {
    /// The authorized destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.destination.app
    }

    /// The person, unless the request needs none.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Why it was granted.
    pub fn grounds(&self) -> Grounds {
        self.admission.grounds
    }

    /// Why it was granted, and by which rule of the app.
    pub fn admission(&self) -> Admission {
        self.admission
    }

    /// Whether path or method of the request decided which rule admits it, so that no header may
    /// replace them.
    pub fn depends_on_target(&self) -> bool {
        self.grounds() == Grounds::Preflight || !self.app().spec.paths.is_empty()
    }

    /// The rule that granted it.
    pub fn access(&self) -> &Access {
        self.destination.app.rule(self.admission.rule)
    }

    /// The clause that granted it, where the rule has several.
    pub fn admitting_clause(&self) -> Option<&Clause> {
        match self.admission.grounds {
            Grounds::Clause(_, index) => self.access().compound()?.clause(index),
            Grounds::Public
            | Grounds::Preflight
            | Grounds::Console
            | Grounds::User
            | Grounds::Group
            | Grounds::Owner
            | Grounds::Admin => None,
        }
    }

    /// The group whose members the rule admits, if access was granted because the person is one.
    pub fn admitting_group(&self) -> Option<&GroupName> {
        match self.admission.grounds {
            Grounds::Group => self.access().group(),
            Grounds::Clause(ClauseKind::Group, _) => self.admitting_clause()?.group(),
            Grounds::Public
            | Grounds::Preflight
            | Grounds::Console
            | Grounds::User
            | Grounds::Owner
            | Grounds::Admin
            | Grounds::Clause(
                ClauseKind::User
                | ClauseKind::Owner
                | ClauseKind::Admin
                | ClauseKind::Email
                | ClauseKind::Claim,
                _,
            ) => None,
        }
    }
}

/// Checks the person against the app's own rule; the default is to deny.
///
/// # Errors
/// Why access is denied.
pub fn grounds(app: &App, person: Option<&Principal>) -> Result<Grounds, Denied> {
    if app.kind == AppKind::Console {
        return Ok(Grounds::Console);
    }
    check(&app.spec.access, person)
}

/// Checks the person against one rule; the default is to deny.
fn check(access: &Access, person: Option<&Principal>) -> Result<Grounds, Denied> {
    match (access, person) {
        (Access::Public, _) => Ok(Grounds::Public),
        // Also for anonymous callers: a sign-in would not help, so they are not asked to sign in.
        (Access::Unknown(_), _) => Err(Denied::UnknownAccess),
        (
            Access::User
            | Access::Group(_)
            | Access::Owner(_)
            | Access::Admins
            | Access::Person(_)
            | Access::Compound(_),
            None,
        ) => Err(Denied::Anonymous),
        // A trusted issuer vouches for its own accounts, not for people of ours.
        (Access::User, Some(person)) if person.is_foreign => Err(Denied::OtherIssuer),
        (Access::User, Some(_)) => Ok(Grounds::User),
        (Access::Group(group), Some(person)) if person.is_in(group) => Ok(Grounds::Group),
        (Access::Group(_), Some(_)) => Err(Denied::NotInGroup),
        (Access::Owner(owner), Some(person)) if person.is_identified_by(owner) => {
            Ok(Grounds::Owner)
        }
        (Access::Owner(_) | Access::Admins, Some(person)) if person.is_admin => Ok(Grounds::Admin),
        (Access::Person(name), Some(person)) if person.is_named(name) => Ok(Grounds::Owner),
        (Access::Owner(_) | Access::Admins | Access::Person(_), Some(_)) => Err(Denied::NotOwner),
        (Access::Compound(rule), Some(person)) => clauses::check(rule, person),
    }
}

/// Checks the person against some rules of an app, each of which must admit them.
///
/// # Errors
/// Why the first rule that denies access does.
pub fn check_rules(
    app: &App,
    rules: RuleSet,
    person: Option<&Principal>,
) -> Result<Admission, Denial> {
    if rules == RuleSet::OWN || app.kind == AppKind::Console {
        let rule = RuleIndex::OWN;
        return match grounds(app, person) {
            Ok(grounds) => Ok(Admission { grounds, rule }),
            Err(denied) => Err(Denial { denied, rule }),
        };
    }
    let mut admission: Option<Admission> = None;
    for rule in rules.iter() {
        let access = app.rule(rule);
        let is_valid = !matches!(access, Access::Unknown(_));
        let grounds = if rules.is_for_preflight() && is_valid {
            Ok(Grounds::Preflight)
        } else {
            check(access, person)
        };
        let grounds = grounds.map_err(|denied| Denial { denied, rule })?;
        // A rule that asks for a person says more than a public one.
        if admission.is_none_or(|known| known.grounds == Grounds::Public) {
            admission = Some(Admission { grounds, rule });
        }
    }
    admission.ok_or(Denial {
        denied: Denied::UnknownAccess,
        rule: RuleIndex::OWN,
    })
}

/// Checks the authentication of a person that the rules admit. After the rules, so that no one is
/// asked to sign in again in vain.
fn check_authentication(
    app: &App,
    admission: Admission,
    person: Option<&Principal>,
    now: i64,
) -> Result<Admission, Denial> {
    let Some(requirement) = &app.spec.authentication else {
        return Ok(admission);
    };
    if !admission.grounds.needs_person() {
        return Ok(admission);
    }
    let unknown = AuthenticationEvent::default();
    let authentication = person.map_or(&unknown, |person| &person.authentication);
    match requirement.check(authentication, now) {
        Ok(()) => Ok(admission),
        Err(insufficient) => Err(Denial {
            denied: Denied::InsufficientAuthentication(insufficient),
            rule: admission.rule,
        }),
    }
}

/// Turns a destination into a permit, or returns it with the reason for the denial. `now` is the
/// app's [`decision_time`](App::decision_time).
///
/// # Errors
/// The destination, and why access to it is denied.
pub fn authorize(
    destination: Destination,
    person: Option<&Arc<Principal>>,
    now: i64,
) -> Result<Permit, (Destination, Denial)> {
    let app = &destination.app;
    let known = person.map(Arc::as_ref);
    let checked = check_rules(app, destination.rules(), known)
        .and_then(|admission| check_authentication(app, admission, known, now));
    match checked {
        Ok(admission) => {
            // Public apps and the console get no identity from the gateway.
            let needs_person = admission.grounds.needs_person();
            let principal = person.filter(|_| needs_person).cloned();
            Ok(Permit {
                destination,
                principal,
                admission,
            })
        }
        Err(denial) => Err((destination, denial)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::uri::PathAndQuery;

    use super::*;
    use crate::model::{
        access::{PersonName, UsernameClaim},
        app::{AppId, AppSpec, Upstream, UpstreamScheme},
        authentication::{AuthenticationRequirement, InsufficientAuthentication},
        principal::PersonClaims,
    };

    fn lab(claim: UsernameClaim, name: &str) -> App {
        let id = AppId::for_lab("rachel").expect("an id");
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "lab".into(),
            port: 8888,
        };
        let name = name.into();
        let access = Access::Person(PersonName { claim, name });
        App::on_host(AppSpec::new(id, upstream, access, Duration::from_secs(1)))
    }

    fn person(subject: &str, username: Option<&str>, group: &str) -> Principal {
        let groups: Vec<GroupName> = GroupName::new(group).into_iter().collect();
        let claims = PersonClaims {
            subject: subject.to_owned(),
            preferred_username: username.map(str::to_owned),
            groups,
            ..PersonClaims::default()
        };
        Principal::new(
            claims,
            &GroupName::new("admins").into_iter().collect::<Vec<_>>(),
        )
    }

    /// An app that requires a recent and strong sign-in.
    fn strict_app(access: &str) -> Arc<App> {
        let id = AppId::new("strict").expect("an id");
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "app".into(),
            port: 80,
        };
        let requirement = AuthenticationRequirement::from_parameters(Some("900"), Some("gold"));
        let requirement = requirement.expect("valid").expect("a requirement");
        let access = Access::parse(access);
        Arc::new(App::on_host(AppSpec {
            authentication: Some(Box::new(requirement)),
            ..AppSpec::new(id, upstream, access, Duration::from_secs(1))
        }))
    }

    #[test]
    fn only_a_person_whom_the_rule_admits_is_asked_to_sign_in_again() {
        let at = |time, context| {
            let mut alice = person("alice", None, "science");
            alice.authentication = AuthenticationEvent::new(time, context);
            Some(Arc::new(alice))
        };
        let insufficient = |why| Err(Denied::InsufficientAuthentication(why));
        for (access, person, wanted) in [
            ("user", at(Some(100), Some("gold")), Ok(Grounds::User)),
            (
                "user",
                at(Some(99), Some("gold")),
                insufficient(InsufficientAuthentication::TooOld),
            ),
            (
                "user",
                at(None, Some("gold")),
                insufficient(InsufficientAuthentication::TooOld),
            ),
            (
                "group:science",
                at(Some(100), None),
                insufficient(InsufficientAuthentication::OtherContext),
            ),
            ("group:other", at(None, None), Err(Denied::NotInGroup)),
            ("user", None, Err(Denied::Anonymous)),
            ("public", at(None, None), Ok(Grounds::Public)),
            ("public", None, Ok(Grounds::Public)),
        ] {
            let app = strict_app(access);
            let destination = Destination::new(app, PathAndQuery::from_static("/x"), 0);
            let decided = authorize(destination, person.as_ref(), 1000);
            let decided = decided.map(|permit| permit.grounds());
            let decided = decided.map_err(|(_, denial)| denial.denied);
            assert_eq!(decided, wanted, "{access}: {person:?}");
        }
    }

    #[test]
    fn the_app_of_one_person_is_for_nobody_else_and_for_no_admin() {
        let by_username = lab(UsernameClaim::PreferredUsername, "rachel");
        let by_subject = lab(UsernameClaim::Subject, "rachel");
        let rachel = person("f81d4fae", Some("rachel"), "science");
        // A person whose subject is her username.
        let other = person("rachel", Some("other"), "science");
        let admin = person("root", Some("root"), "admins");
        let unnamed = person("17", None, "science");
        assert!(admin.is_admin);
        for (app, person, wanted) in [
            (&by_username, Some(&rachel), Ok(Grounds::Owner)),
            (&by_username, Some(&other), Err(Denied::NotOwner)),
            (&by_username, Some(&admin), Err(Denied::NotOwner)),
            (&by_username, Some(&unnamed), Err(Denied::NotOwner)),
            (&by_username, None, Err(Denied::Anonymous)),
            (&by_subject, Some(&other), Ok(Grounds::Owner)),
            (&by_subject, Some(&rachel), Err(Denied::NotOwner)),
        ] {
            assert_eq!(grounds(app, person), wanted, "{person:?}");
        }
    }
}
