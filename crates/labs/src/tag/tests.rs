//! Tests of the grammar and the order of tags.

use super::*;

/// Each kind with all combinations of the optional parts.
#[test]
fn every_combination_of_optional_parts_is_read_back() {
    let heads = [
        ("d_2021_05_27", "Daily 2021_05_27"),
        ("w_2021_22", "Weekly 2021_22"),
        ("r22_0_0_rc1", "Release Candidate r22.0.0-rc1"),
        ("r21_0_1", "Release r21.0.1"),
    ];
    let mut count = 0;
    for (head, name) in heads {
        let plain = ImageTag::parse(head);
        for bits in 0..48 {
            let (experimental, cycle) = (bits & 1 == 1, bits & 2 == 2);
            let (build, architecture) = (bits & 4 == 4, bits & 8 == 8);
            let extra = [None, Some("20210527"), Some("random")][bits >> 4];
            let mut tag = head.to_owned();
            let mut shown = name.to_owned();
            if experimental {
                tag.insert_str(0, "exp_");
                shown.insert_str(0, "Experimental ");
            }
            if cycle {
                tag += "_c0020.001";
                shown += " (SAL Cycle 0020, Build 001)";
            }
            if build {
                tag += "_rsp19";
                shown += " (RSP Build 19)";
            }
            if let Some(extra) = extra {
                tag += &format!("_{extra}");
                shown += &format!(" [{extra}]");
            }
            if architecture {
                tag += "-amd64";
                shown += " [amd64]";
            }
            let kind = if experimental {
                ImageKind::Experimental
            } else {
                plain.kind
            };
            let expected = ImageTag {
                kind,
                display_name: shown,
                cycle: cycle.then_some(20),
                cycle_build: cycle.then_some(1),
                build: build.then_some(19),
                extra: extra.map(str::to_owned),
                architecture: architecture.then(|| "amd64".to_owned()),
                tag: tag.clone(),
                ..plain.clone()
            };
            assert_eq!(ImageTag::parse(&tag), expected);
            count += 1;
        }
    }
    assert_eq!(count, 192);
}

#[test]
fn a_part_out_of_order_is_extra_text() {
    let tag = ImageTag::parse("w_2021_22_rsp19_c0020.001");
    assert_eq!((tag.build, tag.cycle), (Some(19), None));
    assert_eq!(tag.extra.as_deref(), Some("c0020.001"));
    let tag = ImageTag::parse("w_2021_22_c0020.001x");
    assert_eq!(
        (tag.cycle, tag.extra.as_deref()),
        (None, Some("c0020.001x"))
    );
    let tag = ImageTag::parse("w_2021_22_foo-bar-arm64");
    assert_eq!(tag.extra.as_deref(), Some("foo-bar"));
    assert_eq!(tag.architecture.as_deref(), Some("arm64"));
}

#[test]
fn tags_that_follow_no_convention_are_unknown() {
    for tag in [
        "w_2021_99",
        "d_2021_02_30",
        "w_2021_22x",
        "r21_0",
        "r1700",
        "exp_",
        "MiXeD_CaSe_TaG",
        "w_99999999999999999999_1",
    ] {
        let parsed = ImageTag::parse(tag);
        assert_eq!(parsed.kind, ImageKind::Unknown, "{tag}");
        assert_eq!(parsed.display_name, tag);
        assert_eq!(parsed.base.as_deref(), Some(tag));
    }
    assert_eq!(ImageTag::parse("").tag, "latest");
    assert_eq!(
        ImageTag::parse("latest-amd64").display_name,
        "latest [amd64]"
    );
}

#[test]
fn old_releases_have_two_digits_and_one() {
    let tag = ImageTag::parse("r170");
    assert_eq!(tag.kind, ImageKind::Release);
    assert_eq!(tag.display_name, "Release r17.0.0");
}

#[test]
fn aliases_have_a_name_with_capitals() {
    for (tag, name, cycle) in [
        ("recommended", "Recommended", None),
        (
            "latest_weekly_c0046",
            "Latest Weekly (SAL Cycle 0046)",
            Some(46),
        ),
        ("latest-amd64", "Latest [amd64]", None),
        (
            "latest_c0046-arm64",
            "Latest (SAL Cycle 0046) [arm64]",
            Some(46),
        ),
    ] {
        let alias = ImageTag::alias(tag);
        assert_eq!(alias.kind, ImageKind::Alias);
        assert_eq!((alias.display_name.as_str(), alias.cycle), (name, cycle));
    }
}

#[test]
fn newer_tags_are_greater_within_a_kind() {
    let ordered = [
        "r21_0_1",
        "r21_0_1_rsp29",
        "r21_0_1_rsp103",
        "r21_0_1_rsp103_extra",
        "r21_0_1_rsp103_foo-amd64",
        "r21_0_1_rsp103_foo-arm64",
        "r21_0_1_rsp103_foo",
        "r21_0_1_c0031.004",
        "r21_0_1_c0031.004_rsp103",
        "r21_0_1_c0032.004_rsp102",
        "r21_0_1_c0032.004_rsp103",
        "r21_0_1_c0032.005_rsp101",
    ];
    let tags = ordered.map(ImageTag::parse);
    for (at, older) in tags.iter().enumerate() {
        for newer in &tags[at + 1..] {
            assert_eq!(
                older.compare(newer),
                Some(std::cmp::Ordering::Less),
                "{} {}",
                older.tag,
                newer.tag
            );
        }
    }
}

#[test]
fn candidates_are_ordered_by_number() {
    let order = |one: &str, two: &str| ImageTag::parse(one).compare(&ImageTag::parse(two));
    let less = Some(std::cmp::Ordering::Less);
    assert_eq!(order("r22_0_0_rc2", "r22_0_0_rc10"), less);
    assert_eq!(order("exp_r22_0_0_rc10", "exp_r22_0_0"), less);
    assert_eq!(order("exp_20230209", "exp_random"), less);
    assert_eq!(order("r21_0_1", "d_2023_02_09"), None);
}
