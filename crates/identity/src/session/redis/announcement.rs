//! Announcements between replicas. One may be lost, and every client of Redis can publish one. An
//! announcement only makes a change take effect sooner, and a forged one can at worst revoke a
//! session.

use crate::{model::app::AppId, session::cookie::RecordKey};

/// A message on the channel of all replicas. Times are wall clock seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// A sign-in was revoked at that time.
    Revoked(RecordKey, i64),
    /// A sign-in has a new version.
    Changed(RecordKey),
    /// All sessions of an app were revoked at that time.
    AppRevoked(AppId, i64),
    /// Redis was found empty.
    Emptied,
}

impl std::fmt::Display for Announcement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Announcement::Revoked(key, when) => write!(f, "ended {} {when}", key.hex()),
            Announcement::Changed(key) => write!(f, "changed {}", key.hex()),
            Announcement::AppRevoked(app, when) => write!(f, "app {when} {app}"),
            Announcement::Emptied => f.write_str("emptied all"),
        }
    }
}

impl Announcement {
    /// Parses a message; `None` when it is unknown or malformed.
    pub(crate) fn parse(text: &[u8]) -> Option<Announcement> {
        let (word, rest) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        match word {
            "ended" => {
                let (key, when) = rest.split_once(' ')?;
                Some(Announcement::Revoked(
                    RecordKey::from_hex(key)?,
                    when.parse().ok()?,
                ))
            }
            "changed" => RecordKey::from_hex(rest).map(Announcement::Changed),
            "app" => {
                let (when, app) = rest.split_once(' ')?;
                Some(Announcement::AppRevoked(
                    AppId::from_record(app)?,
                    when.parse().ok()?,
                ))
            }
            "emptied" => Some(Announcement::Emptied),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_else() {
        let key = RecordKey::from_name("a name");
        let app = AppId::new("app").expect("an id");
        for said in [
            Announcement::Revoked(key, 7),
            Announcement::Changed(key),
            Announcement::AppRevoked(app, 7),
            Announcement::Emptied,
        ] {
            assert_eq!(Announcement::parse(said.to_string().as_bytes()), Some(said));
        }
        for nonsense in ["", "ended", "ended  ", "changed x", "other all", "\u{0}"] {
            assert_eq!(Announcement::parse(nonsense.as_bytes()), None, "{nonsense}");
        }
        assert_eq!(Announcement::parse(b"app \xff"), None);
    }
}
