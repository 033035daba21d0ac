//! Tables of Nublado's tests: filters of the drop-down list, options, amounts.

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use ludgate_labs::{
    config::LabsConfig,
    error::LabError,
    images::{DropdownFilter, ImageFilter, TagList},
    options::{ImageChoice, ImageClass, LabSpecification, SERVICE_PREFIX, USE_DROPDOWN},
    quantity::{CpuCores, MemoryBytes},
    size::LabSize,
    tag::TagVersion,
};
use serde_json::{Value, json};

use crate::{data::Data, labs::NUBLADO};

/// The lists of texts that a function of Python code assigns or compares with.
fn lists(data: &Data, function: &str) -> Vec<Vec<String>> {
    let code = data.text("upstream-tests/filter_test.py");
    let start = format!("def {function}(");
    let (_, code) = code.split_once(&start).expect("a function");
    let code = code.split("\ndef ").next().unwrap_or(code);
    let lists = code.split("= [\n").skip(1).map(|rest| {
        let (list, _) = rest.split_once(']').expect("the end of a list");
        let quoted = list.split('"').skip(1).step_by(2);
        quoted.map(str::to_owned).collect::<Vec<String>>()
    });
    lists.filter(|list| !list.is_empty()).collect()
}

fn day(year: i32, month: u32, day: u32) -> DateTime<Utc> {
    let date = Utc.with_ymd_and_hms(year, month, day, 0, 0, 0);
    date.single().expect("a day")
}

fn version(major: u64, minor: u64, patch: u64) -> Option<TagVersion> {
    Some(TagVersion {
        major,
        minor,
        patch,
        candidate: None,
    })
}

/// The tags that are shown of a list, with those of one architecture if wanted.
fn shown(tags: &[String], filter: &DropdownFilter, with_architectures: bool) -> Vec<String> {
    let now = day(2025, 2, 19) + TimeDelta::hours(17);
    let tags = TagList::parse(tags, &["recommended", "recommended-amd64"], None);
    let listed = tags
        .iter()
        .filter(|tag| with_architectures || tag.architecture.is_none());
    let shown = filter.apply(listed, now).into_iter();
    shown.map(|tag| tag.tag.clone()).collect()
}

pub(crate) fn the_dropdown_is_filtered(data: &Data) {
    let any = ImageFilter::default;
    let filter = DropdownFilter {
        release: ImageFilter {
            cutoff_build: Some(2600),
            cutoff_version: version(27, 0, 0),
            ..any()
        },
        weekly: ImageFilter {
            age: Some(TimeDelta::weeks(2)),
            ..any()
        },
        daily: ImageFilter {
            age: Some(TimeDelta::days(2)),
            number: Some(4),
            ..any()
        },
        release_candidate: ImageFilter {
            cutoff_version: version(25, 3, 1),
            number: Some(1),
            ..any()
        },
        experimental: ImageFilter {
            cutoff_date: Some(day(2025, 2, 7)),
            ..any()
        },
    };
    let lists = lists(data, "test_filter");
    let [tags, general, all] = lists.as_slice() else {
        panic!("three lists: {lists:?}");
    };
    assert_eq!(shown(tags, &filter, false), *general);
    assert_eq!(shown(tags, &filter, true), *all);
}

pub(crate) fn versions_are_filtered(data: &Data) {
    let from = ImageFilter {
        cutoff_version: version(28, 0, 1),
        ..ImageFilter::default()
    };
    let filter = DropdownFilter {
        release: from.clone(),
        release_candidate: from.clone(),
        weekly: from.clone(),
        daily: ImageFilter::default(),
        experimental: from,
    };
    let lists = lists(data, "test_filter_semver");
    let [tags, expected] = lists.as_slice() else {
        panic!("two lists: {lists:?}");
    };
    assert_eq!(shown(tags, &filter, false), *expected);
}

pub(crate) fn amounts_are_read(_: &Data) {
    assert_eq!(MemoryBytes::parse("1Gi"), Ok(MemoryBytes(1 << 30)));
    assert!(MemoryBytes::parse("24D").is_err());
    let cores = CpuCores::new(0.4).expect("cores");
    assert_eq!(cores.to_string(), "0.4");
    assert_eq!(CpuCores::parse("400m"), Ok(cores));
    assert!(CpuCores::new(0.0001).is_err());
}

fn parsed(options: Value) -> Result<LabSpecification, LabError> {
    let body = json!({ "options": options, "env": { SERVICE_PREFIX: "/nb/user/rachel/" } });
    LabSpecification::parse(&body, NUBLADO)
}

pub(crate) fn options_are_read(_: &Data) {
    const DAILY: &str = "lighthouse.ceres/library/sketchbook:latest_daily";
    const WEEKLY: &str = "lighthouse.ceres/library/sketchbook:w_2077_43";
    let list = |text: &str| ImageChoice::List(text.to_owned());
    let dropdown = |text: &str| ImageChoice::Dropdown(text.to_owned());
    let recommended = ImageChoice::Class(ImageClass::Recommended);
    let tag = ImageChoice::Tag("latest_daily".to_owned());
    for (options, image, (size, debug, reset)) in [
        (
            json!({ "image_list": DAILY, "size": "medium" }),
            list(DAILY),
            (LabSize::Medium, false, false),
        ),
        (
            json!({ "image_dropdown": [DAILY], "size": ["small"], "enable_debug": ["true"] }),
            dropdown(DAILY),
            (LabSize::Small, true, false),
        ),
        (
            json!({
                "image_list": [USE_DROPDOWN],
                "image_dropdown": [DAILY],
                "size": ["large"],
                "enable_debug": ["false"],
                "reset_user_env": ["true"],
            }),
            dropdown(DAILY),
            (LabSize::Large, false, true),
        ),
        (
            json!({ "image_list": WEEKLY, "image_dropdown": [DAILY], "size": "medium" }),
            list(WEEKLY),
            (LabSize::Medium, false, false),
        ),
        (
            json!({
                "image_list": USE_DROPDOWN,
                "image_dropdown": [DAILY],
                "image_class": null,
                "image_tag": [],
                "size": ["large"],
                "enable_debug": ["false"],
                "reset_user_env": "true",
            }),
            dropdown(DAILY),
            (LabSize::Large, false, true),
        ),
        (
            json!({ "image_class": "recommended", "size": "Large", "enable_debug": true }),
            recommended,
            (LabSize::Large, true, false),
        ),
        (
            json!({ "image_tag": "latest_daily", "size": ["Large"] }),
            tag,
            (LabSize::Large, false, false),
        ),
    ] {
        let found = parsed(options.clone()).expect("valid options").options;
        assert_eq!(found.image, image, "{options}");
        assert_eq!(found.size, size, "{options}");
        let flags = (found.enable_debug, found.reset_user_env);
        assert_eq!(flags, (debug, reset), "{options}");
    }
    for options in [
        json!({ "image_list": [WEEKLY, DAILY], "size": "medium" }),
        json!({ "size": "medium" }),
        json!({ "image_list": WEEKLY, "image_class": "recommended", "size": "medium" }),
        json!({ "image_dropdown": [WEEKLY], "image_tag": "latest_weekly", "size": "medium" }),
        json!({ "image_class": "recommended", "image_tag": "latest_weekly", "size": "medium" }),
        json!({ "image_tag": "latest_weekly", "size": "medium", "enable_debug": "on" }),
    ] {
        let error = parsed(options.clone()).expect_err("invalid options");
        assert_eq!(error.status(), 422, "{options}");
    }
}

pub(crate) fn requests_are_within_limits(data: &Data) {
    let text = data.text("config/changed-path.yaml");
    for (from, to, expected) in [
        (
            "cpu: 0.25",
            "cpu: 1.1",
            "requests.cpu must be less than or equal to limits.cpu",
        ),
        (
            "memory: 0.75Gi",
            "memory: 3.1Gi",
            "requests.memory must be less than or equal to limits.memory",
        ),
    ] {
        let error = LabsConfig::from_yaml(&text.replace(from, to)).expect_err("too much");
        let expected = format!("lab.sizes[0].resources: {expected}");
        assert_eq!(error.to_string(), expected);
    }
}
