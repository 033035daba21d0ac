//! What replicas tell each other. It may be lost, and anybody with access to the server may say it:
//! it hurries what would be found out anyway, and the worst that it can do is end something.

use crate::{model::app::AppId, session::cookie::RecordKey};

/// What replicas tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// A sign-in was ended at that second.
    Ended(RecordKey, i64),
    /// A sign-in says something else now.
    Changed(RecordKey),
    /// All sessions of an app were ended at that second.
    EndedApp(AppId, i64),
    /// The store was found empty.
    Emptied,
}

impl std::fmt::Display for Announcement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Announcement::Ended(key, when) => write!(f, "ended {} {when}", key.hex()),
            Announcement::Changed(key) => write!(f, "changed {}", key.hex()),
            Announcement::EndedApp(app, when) => write!(f, "app {when} {app}"),
            Announcement::Emptied => f.write_str("emptied all"),
        }
    }
}

impl Announcement {
    /// Reads one; `None` for what nobody here says.
    pub fn read(text: &[u8]) -> Option<Announcement> {
        let (word, rest) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        match word {
            "ended" => {
                let (key, when) = rest.split_once(' ')?;
                Some(Announcement::Ended(
                    RecordKey::from_hex(key)?,
                    when.parse().ok()?,
                ))
            }
            "changed" => RecordKey::from_hex(rest).map(Announcement::Changed),
            "app" => {
                let (when, app) = rest.split_once(' ')?;
                Some(Announcement::EndedApp(
                    AppId::of_record(app)?,
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
            Announcement::Ended(key, 7),
            Announcement::Changed(key),
            Announcement::EndedApp(app, 7),
            Announcement::Emptied,
        ] {
            assert_eq!(Announcement::read(said.to_string().as_bytes()), Some(said));
        }
        for nonsense in ["", "ended", "ended  ", "changed x", "other all", "\u{0}"] {
            assert_eq!(Announcement::read(nonsense.as_bytes()), None, "{nonsense}");
        }
        assert_eq!(Announcement::read(b"app \xff"), None);
    }
}
