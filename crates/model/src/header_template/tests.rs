//! What templates render for a person, and which texts are no templates.

use super::*;
use crate::{
    known_claims::{KnownClaim, KnownClaims},
    principal::PersonClaims,
};

fn pointer(text: &str) -> ClaimPointer {
    ClaimPointer::new(text).expect("a pointer")
}

fn groups(names: &[&str]) -> Vec<GroupName> {
    names
        .iter()
        .filter_map(|name| GroupName::new(name))
        .collect()
}

fn alice() -> PersonClaims {
    let claim = |path: &str, values: &[&str]| KnownClaim {
        pointer: pointer(path),
        values: values.iter().map(|value| (*value).into()).collect(),
    };
    PersonClaims {
        subject: "alice".to_owned(),
        name: Some("Alice B\u{e9}".to_owned()),
        email: Some("alice@example.com".to_owned()),
        groups: groups(&["phusers", "a,b", "ü"]),
        claims: KnownClaims::new(vec![
            claim("/tenant", &["blue"]),
            claim("/roles", &["x", "y,z", "50%"]),
            claim("/none", &[]),
            claim("/empty", &[""]),
        ]),
        ..PersonClaims::default()
    }
}

fn rendered(template: &str, person: PersonClaims) -> Option<String> {
    let person = Principal::new(person, &[]);
    let template = HeaderTemplate::parse(template).unwrap_or_else(|error| panic!("{error}"));
    let value = template.render(Some(&person), None)?;
    Some(value.to_str().expect("ASCII").to_owned())
}

#[test]
fn values_of_the_person_stand_in_constant_text() {
    for (template, expected) in [
        ("blue", "blue"),
        ("50%", "50%"),
        ("{{a}}", "{a}"),
        ("{subject}", "alice"),
        ("{subject} <{email}>", "alice <alice@example.com>"),
        ("tenant-{claim:/tenant}", "tenant-blue"),
        ("{claim:/tenant}; {subject}", "blue; alice"),
        ("{{{subject}}}", "{alice}"),
        ("{groups}", "phusers,a%2Cb,%C3%BC"),
        ("{subject}|{groups}", "alice|phusers,a%2Cb,%C3%BC"),
        ("{claim:/roles}", "x,y%2Cz,50%25"),
        ("{subject}, {email}", "alice, alice@example.com"),
        ("{display_name}", "Alice B%C3%A9"),
        ("{display_name} ({subject})", "Alice%20B%C3%A9 (alice)"),
    ] {
        assert_eq!(
            rendered(template, alice()).as_deref(),
            Some(expected),
            "{template}"
        );
    }
}

#[test]
fn a_value_that_is_not_known_leaves_the_header_out() {
    for template in [
        "{preferred_username}",
        "{subject} {preferred_username}",
        "{claim:/unknown}",
        "{claim:/none}",
        "{claim:/empty}",
    ] {
        assert_eq!(rendered(template, alice()), None, "{template}");
    }
    let unnamed = || PersonClaims {
        subject: "x".to_owned(),
        email: Some(String::new()),
        ..PersonClaims::default()
    };
    for template in ["{email}", "{groups}"] {
        assert_eq!(rendered(template, unnamed()), None, "{template}");
    }
    // A person has a name in any case.
    assert_eq!(rendered("{display_name}", unnamed()).as_deref(), Some("x"));
    let without_groups = Principal::new(alice(), &[]).without_groups();
    let anonymous: Option<&Principal> = None;
    for (template, person, expected) in [
        ("blue", anonymous, Some("blue")),
        ("{subject}", anonymous, None),
        ("{groups}", Some(&without_groups), None),
        ("{claim:/tenant}", Some(&without_groups), None),
        ("{subject}", Some(&without_groups), Some("alice")),
    ] {
        let template = HeaderTemplate::parse(template).expect("a template");
        let value = template.render(person, None);
        let text = value.as_ref().map(|value| value.to_str().expect("ASCII"));
        assert_eq!(text, expected, "{template:?}");
    }
}

#[test]
fn groups_that_do_not_fit_are_the_admitting_one() {
    let many: Vec<String> = (0..500)
        .map(|n| format!("a-rather-long-group-name-{n:04}"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let person = PersonClaims {
        groups: groups(&many),
        ..alice()
    };
    let person = Principal::new(person, &[]);
    let template = HeaderTemplate::parse("{groups}").expect("a template");
    let admitting = GroupName::new("a,b").expect("a group");
    let value = template.render(Some(&person), Some(&admitting));
    assert_eq!(value.expect("a value"), "a%2Cb");
    assert_eq!(template.render(Some(&person), None), None);
}

#[test]
fn no_value_adds_a_line_or_is_taken_for_another_value() {
    let named = |subject: &str, email: &str| PersonClaims {
        subject: subject.to_owned(),
        email: Some(email.to_owned()),
        ..PersonClaims::default()
    };
    for (subject, email, expected) in [
        (
            "a\r\nX-Admin: 1",
            "b@x.test",
            "a%0D%0AX-Admin:%201 <b@x.test>",
        ),
        (
            "root <root@x.test>",
            "b@x.test",
            "root%20%3Croot@x.test> <b@x.test>",
        ),
        ("m\u{fc}ller", "b@x.test", "m%C3%BCller <b@x.test>"),
        ("m%C3%BCller", "b@x.test", "m%25C3%25BCller <b@x.test>"),
        ("a\u{0}\u{7f}", "b@x.test", "a%00%7F <b@x.test>"),
    ] {
        let found = rendered("{subject} <{email}>", named(subject, email));
        assert_eq!(found.as_deref(), Some(expected));
    }
    // Readers trim blanks at the ends.
    let blank = rendered("{subject}", named(" alice", "b@x.test"));
    assert_eq!(blank.as_deref(), Some("%20alice"));
    let pairs = [("a-b", "c"), ("a", "b-c"), ("a%2Db", "c"), ("a", "b%2Dc")];
    let texts = pairs.map(|(subject, email)| rendered("{subject}-{email}", named(subject, email)));
    for (at, text) in texts.iter().enumerate() {
        assert!(!texts[..at].contains(text), "{texts:?}");
    }
}

#[test]
fn a_value_that_is_too_long_is_not_sent() {
    let person = PersonClaims {
        subject: "x".repeat(MAX_LENGTH + 1),
        ..PersonClaims::default()
    };
    assert_eq!(rendered("{subject}", person), None);
}

#[test]
fn a_text_that_is_no_template_is_refused() {
    use HeaderTemplateError as Error;
    for (text, expected) in [
        ("", Error::OuterSpace),
        (" a", Error::OuterSpace),
        ("{subject} ", Error::OuterSpace),
        ("a\nb", Error::Unprintable),
        ("a\tb", Error::Unprintable),
        ("b\u{fc}ro", Error::Unprintable),
        ("{", Error::Brace),
        ("}", Error::Brace),
        ("a}b", Error::Brace),
        ("{subject", Error::Brace),
        ("{}", Error::UnknownValue),
        ("{sub}", Error::UnknownValue),
        ("{Subject}", Error::UnknownValue),
        ("{claim:tenant}", Error::UnknownValue),
        ("{claim:}", Error::UnknownValue),
        ("{subject}{email}", Error::Inseparable),
        ("{subject}x{email}", Error::Inseparable),
        ("{subject}%20{email}", Error::Inseparable),
        ("{groups},{email}", Error::CommaBesideList),
        ("{claim:/a}, {claim:/b}", Error::CommaBesideList),
    ] {
        assert_eq!(HeaderTemplate::parse(text), Err(expected), "{text:?}");
    }
    let messages = [
        (Error::Brace, "write {{ or }} for the character itself"),
        (Error::UnknownValue, "there are {subject}, {email},"),
    ];
    for (error, expected) in messages {
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_claims_of_a_template_are_named() {
    let template = HeaderTemplate::parse("{claim:/a/b} {subject} {claim:/c}").expect("a template");
    let claims: Vec<&str> = template.claims().map(ClaimPointer::as_str).collect();
    assert_eq!(claims, ["/a/b", "/c"]);
}
