//! Input of any kind is read or refused, and what is read is valid.

#![allow(clippy::expect_used, reason = "a test's helper fails the test")]

use ludgate_labs::{
    config::LabsConfig,
    dialect::Dialect,
    error::LabError,
    events::{LabEvent, PodProgress},
    images::{ImageReference, prepull_pod_name},
    options::LabSpecification,
    tag::{ImageKind, ImageTag},
    user::check_username,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Parts of tags, so that many of them nearly follow the conventions.
fn tag_like() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("r21_0_1".to_owned()),
        Just("w_2021_22".to_owned()),
        Just("d_2021_05_27".to_owned()),
        Just("exp_".to_owned()),
        Just("_rc1".to_owned()),
        Just("_c0020.001".to_owned()),
        Just("_c0020".to_owned()),
        Just("_rsp19".to_owned()),
        Just("-amd64".to_owned()),
        "[a-zA-Z0-9_.-]{0,6}",
        "\\PC{0,3}",
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("small")),
        Just(json!("true")),
    ];
    let key = prop_oneof![
        Just("options".to_owned()),
        Just("env".to_owned()),
        Just("image_list".to_owned()),
        Just("image_tag".to_owned()),
        Just("image_type".to_owned()),
        Just("size".to_owned()),
        Just("enable_debug".to_owned()),
        "\\PC{0,4}",
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn is_name_of_a_pod(name: &str) -> bool {
    let is_edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_edge)
            && part.ends_with(is_edge)
            && part.chars().all(|letter| is_edge(letter) || letter == '-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_a_tag_and_the_order_is_total(one in tag_like(), two in tag_like()) {
        let (one, two) = (ImageTag::parse(&one), ImageTag::parse(&two));
        prop_assert_eq!(one.compare(&two), two.compare(&one).map(std::cmp::Ordering::reverse));
        prop_assert_eq!(one.compare(&two).is_some(), one.kind == two.kind);
        for tag in [one, two] {
            prop_assert_ne!(tag.kind, ImageKind::Alias);
            prop_assert!(tag.version.is_some() || tag.base.is_some());
        }
    }

    #[test]
    fn every_tag_gives_the_name_of_a_pod(tag in tag_like(), node in "[a-z0-9]{1,30}") {
        prop_assert!(is_name_of_a_pod(&prepull_pod_name(&tag, &node)));
    }

    #[test]
    fn a_reference_that_is_read_is_written_as_it_was(text in "[a-z:/@.0-9_-]{0,40}") {
        if let Ok(reference) = text.parse::<ImageReference>() {
            prop_assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn a_body_is_read_or_its_problems_are_named(body in any_json()) {
        for dialect in [Dialect::Sqr066, Dialect::Nublado] {
            match LabSpecification::parse(&body, dialect) {
                Ok(_) => {}
                Err(LabError::InvalidBody(problems)) => prop_assert!(!problems.is_empty()),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
    }

    #[test]
    fn a_configuration_is_read_or_its_problems_are_named(value in any_json()) {
        let text = serde_json::to_string(&value).expect("JSON");
        let error = LabsConfig::from_yaml(&text).expect_err("sizes are missing");
        prop_assert!(!error.0.is_empty());
    }

    #[test]
    fn a_username_that_is_allowed_is_a_label(name in "\\PC{0,8}|[a-zA-Z0-9-]{0,70}") {
        if check_username(&name).is_ok() {
            prop_assert!(name.len() <= 63 && is_name_of_a_pod(&name) && !name.contains('.'));
        }
    }

    #[test]
    fn a_message_never_ends_its_frame(message in "(\\PC|\n|\r){0,20}") {
        for dialect in [Dialect::Sqr066, Dialect::Nublado] {
            let frames = LabEvent::error(message.clone()).to_frames(None, dialect);
            let lines: Vec<&str> = frames.split("\r\n").collect();
            let (fields, end) = lines.split_at(lines.len() - 2);
            prop_assert_eq!(end, ["", ""]);
            for line in fields {
                prop_assert!(!line.is_empty() && !line.contains(['\r', '\n']));
                prop_assert!(line.starts_with("data: ") || *line == "event: error");
            }
        }
    }
}

#[test]
fn the_progress_of_a_pod_never_ends() {
    let mut progress = PodProgress::default();
    let steps: Vec<u8> = (0..1000).map(|_| progress.advance()).collect();
    assert!(steps.is_sorted() && steps.iter().all(|step| (35..75).contains(step)));
}
