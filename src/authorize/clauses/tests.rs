//! Rules with several clauses: examples, and properties of all rules.

use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{
    authorize::grounds,
    model::{
        access::{Access, GroupName, clause::ClaimPointer, compound::WrittenRule},
        app::{App, AppId, AppSpec, Upstream, UpstreamScheme},
        known_claims::{KnownClaim, KnownClaims},
        principal::PersonClaims,
    },
};

const CLAUSES: [&str; 8] = [
    "user",
    "group:a",
    "group:b",
    "owner:alice",
    "email:alice@x.test",
    "email:*@x.test",
    "claim:/d=s",
    "claim:/n=1",
];

fn app(access: Access) -> App {
    let upstream = Upstream {
        scheme: UpstreamScheme::Http,
        host: "app".into(),
        port: 80,
    };
    let id = AppId::new("app").expect("an id");
    App::on_host(AppSpec::new(id, upstream, access, Duration::from_secs(1)))
}

fn decided(rule: &WrittenRule, person: Option<&Principal>) -> Result<Grounds, Denied> {
    let access = Access::from_written(rule);
    let access = access.unwrap_or_else(|error| Access::Unknown(error.to_string().into()));
    grounds(&app(access), person)
}

fn is_valid(rule: &WrittenRule) -> bool {
    Access::from_written(rule).is_ok()
}

fn clause(text: &str) -> WrittenRule {
    WrittenRule::Clause(text.to_owned())
}

fn any_of(texts: &[&str]) -> WrittenRule {
    WrittenRule::Any(texts.iter().copied().map(clause).collect())
}

fn all_of(texts: &[&str]) -> WrittenRule {
    WrittenRule::All(texts.iter().copied().map(clause).collect())
}

fn groups(names: &[&str]) -> Vec<GroupName> {
    names
        .iter()
        .filter_map(|name| GroupName::new(name))
        .collect()
}

fn known(pointer: &str, values: &[&str]) -> KnownClaim {
    KnownClaim {
        pointer: ClaimPointer::new(pointer).expect("a pointer"),
        values: values.iter().copied().map(Into::into).collect(),
    }
}

fn alice() -> PersonClaims {
    PersonClaims {
        subject: "alice".to_owned(),
        email: Some("alice@X.test".to_owned()),
        is_email_verified: true,
        groups: groups(&["a"]),
        claims: KnownClaims::new(vec![known("/d", &["r", "s"]), known("/n", &[])]),
        ..PersonClaims::default()
    }
}

fn number(index: ClauseIndex, rule: &WrittenRule) -> String {
    let access = Access::from_written(rule).expect("a rule");
    let clause = access.compound().and_then(|rule| rule.clause(index));
    clause.map(ToString::to_string).unwrap_or_default()
}

/// The deciding clause, in words.
fn decision(rule: &WrittenRule, person: &Principal) -> String {
    match decided(rule, Some(person)) {
        Ok(Grounds::Clause(kind, index)) => format!("{} by {}", kind.as_str(), number(index, rule)),
        Ok(grounds) => grounds.as_str().to_owned(),
        Err(Denied::NotAdmitted(index)) => format!("not {}", number(index, rule)),
        Err(Denied::Excluded(index)) => format!("denied by {}", number(index, rule)),
        Err(denied) => format!("{denied:?}"),
    }
}

#[test]
fn the_clause_that_decides_is_named() {
    let alice = Principal::new(alice(), &[]);
    let nested = WrittenRule::Any(vec![
        clause("group:b"),
        all_of(&["user", "claim:/d=s"]),
        clause("deny:group:c"),
    ]);
    for (rule, wanted) in [
        (any_of(&["group:b", "group:a", "user"]), "group by group:a"),
        (any_of(&["group:b", "group:c"]), "not group:b"),
        (all_of(&["user", "group:a"]), "group by group:a"),
        (all_of(&["user", "group:b", "group:c"]), "not group:b"),
        (nested, "claim by claim:/d=s"),
        (any_of(&["user", "deny:group:a"]), "denied by group:a"),
        (any_of(&["user", "deny:group:b"]), "user by user"),
        (any_of(&["user", "deny:claim:/n=1"]), "user by user"),
        (any_of(&["user", "deny:claim:/x=1"]), "denied by claim:/x=1"),
        (clause("email:alice@x.test"), "email by email:alice@x.test"),
        (clause("email:Alice@x.test"), "not email:Alice@x.test"),
        (any_of(&["group:a"]), "group"),
        (any_of(&["public", "group:b"]), "public"),
        (any_of(&["public", "deny:group:a"]), "UnknownAccess"),
    ] {
        assert_eq!(decision(&rule, &alice), wanted, "{rule:?}");
        let wanted = match wanted {
            "public" => Ok(Grounds::Public),
            "UnknownAccess" => Err(Denied::UnknownAccess),
            _ => Err(Denied::Anonymous),
        };
        assert_eq!(decided(&rule, None), wanted, "{rule:?}");
    }
}

#[test]
fn an_account_of_another_issuer_matches_only_what_names_it() {
    let account = Principal::new(
        PersonClaims {
            subject: "ci:deploy".to_owned(),
            groups: groups(&["ci:builders"]),
            claims: KnownClaims::new(vec![known("/d", &["r"])]),
            is_foreign: true,
            ..PersonClaims::default()
        },
        &[],
    );
    for (rule, wanted) in [
        (clause("user"), "OtherIssuer"),
        (clause("owner:ci:deploy"), "owner"),
        (clause("owner:deploy"), "NotOwner"),
        (clause("group:ci:builders"), "group"),
        (clause("group:builders"), "NotInGroup"),
        (clause("claim:/d=r"), "claim by claim:/d=r"),
        (
            any_of(&["user", "group:ci:builders"]),
            "group by group:ci:builders",
        ),
        (any_of(&["user", "email:*@x.test"]), "not user"),
        (all_of(&["user", "group:ci:builders"]), "not user"),
        (
            any_of(&["group:ci:builders", "deny:owner:ci:deploy"]),
            "denied by owner:ci:deploy",
        ),
        (
            any_of(&["group:ci:builders", "deny:email:*@y.test"]),
            "denied by email:*@y.test",
        ),
    ] {
        assert_eq!(decision(&rule, &account), wanted, "{rule:?}");
    }
}

#[test]
fn what_is_not_known_of_a_person_admits_no_one_and_denies() {
    let rules = [
        ("email:*@x.test", any_of(&["user", "deny:email:*@y.test"])),
        ("group:a", any_of(&["user", "deny:group:c"])),
        ("claim:/d=s", any_of(&["user", "deny:claim:/d=z"])),
    ];
    let known = Principal::new(alice(), &[]);
    let unknown = Principal::new(
        PersonClaims {
            subject: "alice".to_owned(),
            are_groups_partial: true,
            ..PersonClaims::default()
        },
        &[],
    );
    for (admitting, denying) in rules {
        for (person, wanted) in [(&known, true), (&unknown, false)] {
            let is_admitted = decided(&clause(admitting), Some(person)).is_ok();
            assert_eq!(is_admitted, wanted, "{admitting}");
            assert_eq!(
                decided(&denying, Some(person)).is_ok(),
                wanted,
                "{denying:?}"
            );
        }
    }
    let unverified = PersonClaims {
        is_email_verified: false,
        ..alice()
    };
    let unverified = Principal::new(unverified, &[]);
    assert!(decided(&clause("email:*@x.test"), Some(&unverified)).is_err());
    let denied = any_of(&["user", "deny:email:*@x.test"]);
    assert!(decided(&denied, Some(&unverified)).is_err());
}

#[test]
fn an_admin_is_every_owner_but_is_not_denied_as_one() {
    let claims = PersonClaims {
        subject: "root".to_owned(),
        groups: groups(&["admins"]),
        ..PersonClaims::default()
    };
    let admin = Principal::new(claims, &groups(&["admins"]));
    let owner = any_of(&["owner:alice", "group:b"]);
    assert_eq!(decision(&owner, &admin), "admin by owner:alice");
    let denied = any_of(&["user", "deny:owner:alice"]);
    assert_eq!(decision(&denied, &admin), "user by user");
    assert_eq!(
        decision(&denied, &Principal::new(alice(), &[])),
        "denied by owner:alice"
    );
}

#[test]
fn an_arvados_user_who_may_be_meant_is_denied() {
    const ALICE: &str = "zzzzz-tpzed-000000000000001";
    const BOB: &str = "zzzzz-tpzed-000000000000002";
    let person = |subject: &str, other_id: Option<&str>| {
        let claims = PersonClaims {
            subject: subject.to_owned(),
            ..PersonClaims::default()
        };
        let mut person = Principal::new(claims, &[]);
        person.other_id = other_id.map(Into::into);
        person
    };
    for (denied, person, wanted) in [
        (ALICE, person("alice", None), false),
        (ALICE, person("alice", Some(ALICE)), false),
        (ALICE, person("alice", Some(BOB)), true),
        // The provider's subjects are Arvados uuids, or an Arvados token identifies the person.
        (ALICE, person(ALICE, None), false),
        (ALICE, person(BOB, None), true),
        ("alice", person("bob", None), true),
        ("alice", person("alice", Some(BOB)), false),
    ] {
        let rule = any_of(&["user", &format!("deny:owner:{denied}")]);
        assert_eq!(is_admitted(&rule, &person), wanted, "{denied} {person:?}");
        // `owner:` needs a known id, while `deny:owner:` also matches an unknown one.
        let owner = clause(&format!("owner:{denied}"));
        let is_owner = person.is_identified_by(denied);
        assert_eq!(
            is_admitted(&owner, &person),
            is_owner,
            "{denied} {person:?}"
        );
    }
}

fn admitting() -> impl Strategy<Value = WrittenRule> {
    select(CLAUSES.to_vec()).prop_map(clause)
}

fn denial() -> impl Strategy<Value = WrittenRule> {
    select(CLAUSES[1..].to_vec()).prop_map(|text| clause(&format!("deny:{text}")))
}

fn rule() -> impl Strategy<Value = WrittenRule> {
    let leaf = prop_oneof![4 => admitting(), 1 => denial()];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(WrittenRule::Any),
            vec(inner, 1..4).prop_map(WrittenRule::All),
        ]
    })
}

fn person() -> impl Strategy<Value = PersonClaims> {
    let subject = select(vec!["alice", "bob"]);
    let email = select(vec![
        None,
        Some("alice@x.test"),
        Some("bob@X.TEST"),
        Some("a@y.test"),
    ]);
    let values = select(vec![
        None,
        Some(vec![]),
        Some(vec!["s"]),
        Some(vec!["1", "s"]),
    ]);
    let flags = any::<[bool; 5]>();
    (subject, email, values.clone(), values, flags).prop_map(|(subject, email, d, n, flags)| {
        let names = [("a", flags[0]), ("b", flags[1]), ("admins", flags[2])];
        let names = names.into_iter().filter(|(_, is_in)| *is_in);
        let claims = [("/d", d), ("/n", n)].into_iter();
        let claims = claims.filter_map(|(pointer, values)| Some(known(pointer, &values?)));
        PersonClaims {
            subject: subject.to_owned(),
            email: email.map(str::to_owned),
            is_email_verified: flags[3],
            groups: names.filter_map(|(name, _)| GroupName::new(name)).collect(),
            are_groups_partial: flags[4],
            claims: KnownClaims::new(claims.collect()),
            ..PersonClaims::default()
        }
    })
}

fn principal(claims: PersonClaims) -> Principal {
    Principal::new(claims, &groups(&["admins"]))
}

fn is_admitted(rule: &WrittenRule, person: &Principal) -> bool {
    decided(rule, Some(person)).is_ok()
}

/// A second evaluation, on the text of a rule: whether it admits; `None` if it has only denials.
fn admits(rule: &WrittenRule, person: &Principal) -> Option<bool> {
    let said = |parts: &[WrittenRule]| -> Vec<bool> {
        parts
            .iter()
            .filter_map(|part| admits(part, person))
            .collect()
    };
    match rule {
        WrittenRule::Clause(text) if text.starts_with("deny:") => None,
        WrittenRule::Clause(text) => {
            let clause = Clause::parse(text).expect("a clause");
            Some(match_of(&clause, person).is_some())
        }
        WrittenRule::Any(parts) => {
            let said = said(parts);
            (!said.is_empty()).then(|| said.contains(&true))
        }
        WrittenRule::All(parts) => {
            let said = said(parts);
            (!said.is_empty()).then(|| !said.contains(&false))
        }
    }
}

/// Whether a clause anywhere in a rule denies the person.
fn is_denied(rule: &WrittenRule, person: &Principal) -> bool {
    match rule {
        WrittenRule::Clause(text) => text.strip_prefix("deny:").is_some_and(|inner| {
            let clause = Clause::parse(inner).expect("a clause");
            excludes(&clause, person)
        }),
        WrittenRule::Any(parts) | WrittenRule::All(parts) => {
            parts.iter().any(|part| is_denied(part, person))
        }
    }
}

proptest! {
    #[test]
    fn a_rule_admits_by_its_clauses_unless_one_denies(rule in rule(), person in person()) {
        let person = principal(person);
        let wanted = admits(&rule, &person) == Some(true) && !is_denied(&rule, &person);
        prop_assert_eq!(is_admitted(&rule, &person), wanted);
        prop_assert!(decided(&rule, None).is_err(), "it needs a person");
    }

    #[test]
    fn one_more_clause_of_any_never_narrows(
        parts in vec(rule(), 1..4), more in admitting(), person in person(),
    ) {
        let person = principal(person);
        let before = WrittenRule::Any(parts.clone());
        let after = WrittenRule::Any(parts.into_iter().chain([more]).collect());
        prop_assume!(is_valid(&after));
        prop_assert!(is_admitted(&after, &person) || !is_admitted(&before, &person));
    }

    #[test]
    fn one_more_clause_of_all_never_widens(
        parts in vec(rule(), 1..4), more in rule(), person in person(),
    ) {
        let person = principal(person);
        let before = WrittenRule::All(parts.clone());
        let after = WrittenRule::All(parts.into_iter().chain([more]).collect());
        prop_assume!(is_valid(&before));
        prop_assert!(is_admitted(&before, &person) || !is_admitted(&after, &person));
    }

    #[test]
    fn one_more_denial_never_widens(
        parts in vec(rule(), 1..4), more in denial(), person in person(), is_any in any::<bool>(),
    ) {
        let person = principal(person);
        let list = if is_any { WrittenRule::Any } else { WrittenRule::All };
        let before = list(parts.clone());
        let after = list(parts.into_iter().chain([more]).collect());
        prop_assert!(is_admitted(&before, &person) || !is_admitted(&after, &person));
    }

    #[test]
    fn an_unknown_clause_anywhere_denies_everyone(parts in vec(rule(), 0..3), person in person()) {
        let person = principal(person);
        let parts = parts.into_iter().chain([clause("users")]).collect();
        for rule in [WrittenRule::Any(parts), WrittenRule::All(vec![any_of(&["user", "Group:a"])])] {
            prop_assert_eq!(decided(&rule, Some(&person)), Err(Denied::UnknownAccess));
            prop_assert_eq!(decided(&rule, None), Err(Denied::UnknownAccess));
        }
    }

    #[test]
    fn less_knowledge_of_a_person_gives_no_more(rule in rule(), claims in person()) {
        let known = principal(claims.clone());
        let less = PersonClaims {
            subject: claims.subject,
            are_groups_partial: true,
            ..PersonClaims::default()
        };
        prop_assert!(is_admitted(&rule, &known) || !is_admitted(&rule, &principal(less)));
    }
}
