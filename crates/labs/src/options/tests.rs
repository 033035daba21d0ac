//! Tests of the options that hubs and other clients send.

use serde_json::json;

use super::*;

const IMAGE: &str = "lighthouse.ceres/library/sketchbook:latest_daily";

fn parsed(options: Value, dialect: Dialect) -> Result<LabOptions, Vec<BodyProblem>> {
    let body = json!({ "options": options, "env": { SERVICE_PREFIX: "/nb/" } });
    match LabSpecification::parse(&body, dialect) {
        Ok(specification) => Ok(specification.options),
        Err(LabError::InvalidBody(problems)) => Err(problems),
        Err(error) => panic!("{error}"),
    }
}

fn options(image: ImageChoice, size: LabSize) -> LabOptions {
    LabOptions {
        image,
        size,
        enable_debug: false,
        reset_user_env: false,
    }
}

#[test]
fn values_are_plain_or_lists_of_one() {
    let plain = parsed(
        json!({ "image_list": IMAGE, "size": "medium" }),
        Dialect::Nublado,
    );
    let expected = options(ImageChoice::List(IMAGE.to_owned()), LabSize::Medium);
    assert_eq!(plain, Ok(expected));
    let lists = parsed(
        json!({
            "image_list": [USE_DROPDOWN],
            "image_dropdown": [IMAGE],
            "image_class": null,
            "image_tag": [],
            "size": ["Large"],
            "enable_debug": ["false"],
            "reset_user_env": "true",
            "_xsrf": ["2|x"],
        }),
        Dialect::Nublado,
    );
    let expected = LabOptions {
        reset_user_env: true,
        ..options(ImageChoice::Dropdown(IMAGE.to_owned()), LabSize::Large)
    };
    assert_eq!(lists, Ok(expected));
}

#[test]
fn the_list_takes_precedence_over_the_dropdown() {
    let both = parsed(
        json!({ "image_list": IMAGE, "image_dropdown": ["other"], "size": "small" }),
        Dialect::Sqr066,
    );
    assert_eq!(both.unwrap().image, ImageChoice::List(IMAGE.to_owned()));
}

#[test]
fn classes_have_a_field_of_the_dialect() {
    let expected = ImageChoice::Class(ImageClass::Recommended);
    for (field, dialect) in [
        ("image_type", Dialect::Sqr066),
        ("image_class", Dialect::Nublado),
    ] {
        let options = parsed(json!({ field: "recommended", "size": "small" }), dialect);
        assert_eq!(options.unwrap().image, expected);
    }
    let swapped = parsed(
        json!({ "image_type": "recommended", "size": "small" }),
        Dialect::Nublado,
    );
    assert_eq!(
        swapped.unwrap_err()[0].location,
        ["body", "options", "image_type"]
    );
}

#[test]
fn a_tag_takes_precedence_over_a_class_in_the_document_only() {
    let both =
        |field: &str| json!({ field: "recommended", "image_tag": "w_2022_22", "size": "small" });
    let choice = parsed(both("image_type"), Dialect::Sqr066).unwrap().image;
    assert_eq!(choice, ImageChoice::Tag("w_2022_22".to_owned()));
    let problems = parsed(both("image_class"), Dialect::Nublado).unwrap_err();
    assert_eq!(
        problems[0].message,
        "Image specified multiple ways (image_class, image_tag)"
    );
}

#[test]
fn wrong_options_are_named() {
    for (wrong, location, message) in [
        (
            json!({ "size": "small" }),
            "options",
            "No image to spawn specified",
        ),
        (
            json!({ "image_tag": ["a", "b"], "size": "small" }),
            "image_tag",
            "Too many values",
        ),
        (json!({ "image_tag": "a" }), "size", "Field required"),
        (
            json!({ "image_tag": "a", "size": "vast" }),
            "size",
            "Input should be one of fine",
        ),
        (
            json!({ "image_tag": "a", "size": 3 }),
            "size",
            "Input should be a string",
        ),
        (
            json!({ "image_tag": "a", "size": "small", "enable_debug": "on" }),
            "enable_debug",
            "Invalid boolean value \"on\"",
        ),
        (
            json!({ "image_class": "newest", "size": "small" }),
            "image_class",
            "Input should be one of recommended",
        ),
        (
            json!({ "image_tag": "a", "size": "small", "gpu": "1" }),
            "gpu",
            "Unknown field",
        ),
        (
            json!({ "image_dropdown": IMAGE, "image_tag": "a", "size": "small" }),
            "options",
            "Image specified multiple ways (image_dropdown, image_tag)",
        ),
    ] {
        let problems = parsed(wrong.clone(), Dialect::Nublado).unwrap_err();
        let found = problems.iter().any(|problem| {
            problem.location.last().is_some_and(|last| last == location)
                && problem.message.starts_with(message)
        });
        assert!(found, "{wrong}: {problems:?}");
    }
}

#[test]
fn the_body_itself_is_checked() {
    for body in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "options": [], "env": {} }),
    ] {
        let error = LabSpecification::parse(&body, Dialect::Nublado).unwrap_err();
        assert_eq!(error.status(), 422);
    }
    let body = |env: Value| json!({ "options": { "image_tag": "a", "size": "small" }, "env": env });
    for env in [
        json!({}),
        json!({ SERVICE_PREFIX: null }),
        json!({ SERVICE_PREFIX: "/", "a b": "" }),
        json!({ SERVICE_PREFIX: "" }),
        json!({ SERVICE_PREFIX: "@10.0.0.1/" }),
        json!({ SERVICE_PREFIX: "/nb user/" }),
    ] {
        assert!(LabSpecification::parse(&body(env), Dialect::Nublado).is_err());
    }
    let without_prefix = LabSpecification::parse(&body(json!({})), Dialect::Sqr066);
    assert!(without_prefix.unwrap().env.is_empty());
}
