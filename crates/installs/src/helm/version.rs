//! The version of the program, which decides about its flags.

use std::fmt;

/// A release of Helm. Its pre-release and build are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HelmVersion {
    /// Three or four.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
    /// The patch number.
    pub patch: u32,
}

/// The oldest program whose flags are known.
const OLDEST: HelmVersion = HelmVersion::new(3, 16, 0);
/// The first program with `--take-ownership`.
const TAKES_OWNERSHIP: HelmVersion = HelmVersion::new(3, 17, 0);
/// The newest major version whose flags are known.
const NEWEST_MAJOR: u32 = 4;

/// Why a program cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The answer is no version.
    #[error("`helm version` did not answer with a version")]
    Unreadable,
    /// The program is too old, or too new.
    #[error("Helm {0} cannot be used; versions from {oldest} to {newest}.x can",
        oldest = OLDEST, newest = NEWEST_MAJOR)]
    Unsupported(HelmVersion),
}

impl HelmVersion {
    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> HelmVersion {
        HelmVersion {
            major,
            minor,
            patch,
        }
    }

    /// Reads the answer of `helm version --template {{.Version}}`, such as `v3.16.4`.
    ///
    /// # Errors
    /// See [`VersionError`].
    pub fn parse(answer: &str) -> Result<HelmVersion, VersionError> {
        let version = numbers(answer.trim()).ok_or(VersionError::Unreadable)?;
        match version >= OLDEST && version.major <= NEWEST_MAJOR {
            true => Ok(version),
            false => Err(VersionError::Unsupported(version)),
        }
    }

    /// Whether the flags are those of version 4.
    pub fn is_v4(self) -> bool {
        self.major >= 4
    }

    /// Whether an upgrade can adopt objects of others.
    pub fn can_take_ownership(self) -> bool {
        self >= TAKES_OWNERSHIP
    }
}

impl fmt::Display for HelmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn numbers(text: &str) -> Option<HelmVersion> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(number);
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    match parts.next() {
        Some(_) => None,
        None => Some(HelmVersion::new(major, minor, patch)),
    }
}

/// Unlike `parse`, refuses a sign.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_unknown_ones_are_refused() {
        let unsupported = |major, minor, patch| {
            Err(VersionError::Unsupported(HelmVersion::new(
                major, minor, patch,
            )))
        };
        for (answer, expected) in [
            ("v3.16.0", Ok(HelmVersion::new(3, 16, 0))),
            ("v3.18.4\n", Ok(HelmVersion::new(3, 18, 4))),
            ("v4.3.0+g0123abc", Ok(HelmVersion::new(4, 3, 0))),
            ("4.0.0-rc.1", Ok(HelmVersion::new(4, 0, 0))),
            ("v3.15.9", unsupported(3, 15, 9)),
            ("v2.17.0", unsupported(2, 17, 0)),
            ("v5.0.0", unsupported(5, 0, 0)),
            ("", Err(VersionError::Unreadable)),
            ("v4", Err(VersionError::Unreadable)),
            ("v4.1", Err(VersionError::Unreadable)),
            ("v4.1.2.3", Err(VersionError::Unreadable)),
            ("v4.+1.2", Err(VersionError::Unreadable)),
            ("v4.1.99999999999", Err(VersionError::Unreadable)),
            ("unknown command", Err(VersionError::Unreadable)),
        ] {
            assert_eq!(HelmVersion::parse(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn features_begin_with_a_version() {
        let old = HelmVersion::new(3, 16, 9);
        let new = HelmVersion::new(3, 17, 0);
        let newest = HelmVersion::new(4, 0, 0);
        assert!(!old.can_take_ownership() && new.can_take_ownership());
        assert!(!new.is_v4() && newest.is_v4() && newest.can_take_ownership());
        let error = VersionError::Unsupported(HelmVersion::new(2, 17, 0));
        assert_eq!(
            error.to_string(),
            "Helm 2.17.0 cannot be used; versions from 3.16.0 to 4.x can"
        );
    }
}
