//! The names of Kubernetes objects that contain a group's name.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA256, digest};
use ludgate_model::hex;

/// Longest value of a label, in bytes.
const MAX_LABEL: usize = 63;
/// Longest name of a volume in a pod (a DNS label), in bytes.
const MAX_VOLUME: usize = 63;

/// The value of the label `primehub.io/group`.
///
/// PrimeHub's form: `escaped-`, then letters a to z and digits as they are, and each other byte of
/// UTF-8 as `-` with two hexadecimal digits. A form longer than a label may be is replaced by
/// `hashed-` and 128 bits of the name's SHA-256. Both are unique: an escaped form never begins with
/// `hashed-`.
pub fn label(group: &str) -> String {
    let mut label = "escaped-".to_owned();
    for byte in group.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => label.push(char::from(byte)),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(label, "-{byte:02x}");
            }
        }
    }
    if label.len() > MAX_LABEL {
        return format!("hashed-{}", short_hash(group));
    }
    label
}

/// The folder of a group below `/project`, as PrimeHub forms it. Groups whose names differ in case,
/// or in `_` and `-`, have the same folder.
pub fn directory(group: &str) -> String {
    group.to_lowercase().replace('_', "-")
}

/// The name of the group's volume in a pod: `project-<directory>` where that is a DNS label.
pub fn volume(group: &str) -> String {
    let name = format!("project-{}", directory(group));
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.len() <= MAX_VOLUME && !name.ends_with('-') && name.bytes().all(is_plain) {
        name
    } else {
        format!("project-{}", short_hash(group))
    }
}

/// 128 bits of a name's SHA-256, for names that are too long or have other characters.
pub(super) fn short_hash(name: &str) -> String {
    hex::encode(&digest(&SHA256, name.as_bytes()).as_ref()[..16])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_primehubs_form() {
        for (group, wanted) in [
            ("phusers", "escaped-phusers"),
            ("My_Group-1", "escaped--4dy-5f-47roup-2d1"),
            ("test@test.com", "escaped-test-40test-2ecom"),
            (
                "abcd測a試c@.b中文ed",
                "escaped-abcd-e6-b8-aca-e8-a9-a6c-40-2eb-e4-b8-ad-e6-96-87ed",
            ),
        ] {
            assert_eq!(label(group), wanted);
        }
    }

    #[test]
    fn long_names_are_hashed_and_stay_apart() {
        let (one, other) = ("A".repeat(60), "A".repeat(61));
        assert_eq!(label(&one).len(), "hashed-".len() + 32);
        assert_ne!(label(&one), label(&other));
    }

    #[test]
    fn a_volume_is_named_after_its_group_where_possible() {
        assert_eq!(volume("My_Group"), "project-my-group");
        for odd in ["Größe mit Leerzeichen", "測試", "a.b", "a-"] {
            let name = volume(odd);
            assert_eq!(name.len(), "project-".len() + 32, "{odd}: {name}");
        }
    }

    proptest! {
        #[test]
        fn every_group_has_a_valid_label(group in "\\PC{1,80}") {
            let label = label(&group);
            prop_assert!(label.len() <= MAX_LABEL);
            prop_assert!(label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
            prop_assert!(label.ends_with(|last: char| last.is_ascii_alphanumeric()));
        }

        #[test]
        fn two_groups_never_share_a_label(one in "[a-f_-]{1,30}", other in "[a-f_-]{1,30}") {
            prop_assert_eq!(one == other, label(&one) == label(&other));
        }
    }
}
