//! The name of an installation's release.

use std::fmt;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ludgate_model::hex;

use crate::release::Release;

/// Longest name of a release: Helm's limit, in bytes.
pub const MAX_RELEASE_NAME: usize = 53;
/// Digits of the namespace's hash in a short name.
const HASH_DIGITS: usize = 9;

/// The name that the Kubermatic Kubernetes Platform gives, so that its releases are found again:
/// `<namespace>-<name>`, or the beginning of the name with a hash of the namespace.
pub fn release_name(namespace: &str, name: &str) -> String {
    let whole = format!("{namespace}-{name}");
    if whole.len() <= MAX_RELEASE_NAME {
        return whole;
    }
    let hash = hex::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, namespace.as_bytes()).as_ref());
    let start = name.floor_char_boundary(MAX_RELEASE_NAME - 1 - HASH_DIGITS);
    format!("{}-{}", &name[..start], &hash[..HASH_DIGITS])
}

/// Another installation has the release of this name in the target namespace: `a` with `b-c` and
/// `a-b` with `c` have one name, and long names may agree in their beginnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseNameTaken {
    /// The name of the release.
    pub release: String,
    /// The namespace of the release.
    pub namespace: String,
}

impl fmt::Display for ReleaseNameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReleaseNameTaken { release, namespace } = self;
        write!(
            f,
            "release \"{release}\" in namespace \"{namespace}\" belongs to another installation"
        )
    }
}

/// Checks that the newest revision belongs to the installation with this UID. A release without an
/// owner comes from the Kubermatic Kubernetes Platform or from a person; it belongs to the
/// installation only if its status names the release.
///
/// # Errors
/// The release belongs to another installation, or to an unknown owner.
pub fn check_owner(
    latest: Option<&Release>,
    uid: &str,
    recorded: Option<&str>,
) -> Result<(), ReleaseNameTaken> {
    let Some(latest) = latest else {
        return Ok(());
    };
    let is_ours = match latest.owner.as_deref() {
        Some(owner) => owner == uid,
        None => recorded == Some(latest.name.as_str()),
    };
    match is_ours {
        true => Ok(()),
        false => Err(ReleaseNameTaken {
            release: latest.name.clone(),
            namespace: latest.namespace.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_the_kubermatic_platform() {
        for (namespace, name, wanted) in [
            ("default", "app1", "default-app1"),
            (
                "default-012345678901234567890123456789001234567890123456789",
                "app1",
                "app1-8232574ba",
            ),
            (
                "default",
                "application-installation-super-long-name-that-should-be-truncated",
                "application-installation-super-long-name-th-7505d64a5",
            ),
        ] {
            let found = release_name(namespace, name);
            assert_eq!(found, wanted);
            assert!(found.len() <= MAX_RELEASE_NAME, "{found}");
        }
    }

    #[test]
    fn a_release_of_another_installation_is_not_touched() {
        assert_eq!(release_name("a", "b-c"), release_name("a-b", "c"));
        let release = |owner: Option<&str>| Release {
            name: "a-b-c".into(),
            namespace: "target".into(),
            owner: owner.map(str::to_owned),
            ..Release::default()
        };
        for (owner, recorded, is_ours) in [
            (Some("1"), None, true),
            (Some("2"), None, false),
            (Some("2"), Some("a-b-c"), false),
            (None, Some("a-b-c"), true),
            (None, Some("x"), false),
            (None, None, false),
        ] {
            let checked = check_owner(Some(&release(owner)), "1", recorded);
            assert_eq!(checked.is_ok(), is_ours, "{owner:?} {recorded:?}");
        }
        assert_eq!(check_owner(None, "1", None), Ok(()));
        let taken = check_owner(Some(&release(None)), "1", None).expect_err("taken");
        let wanted = "release \"a-b-c\" in namespace \"target\" belongs to another installation";
        assert_eq!(taken.to_string(), wanted);
    }

    proptest! {
        #[test]
        fn a_name_fits_and_is_stable(namespace in "[a-z0-9-]{1,63}", name in "\\PC{1,80}") {
            let found = release_name(&namespace, &name);
            prop_assert!(found.len() <= MAX_RELEASE_NAME);
            prop_assert_eq!(found, release_name(&namespace, &name));
        }
    }
}
