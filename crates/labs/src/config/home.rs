//! Home directories.

use super::decode::{Section, decode_word};

/// Where the home directories of people are in a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeLayout {
    /// What comes before the name.
    pub prefix: String,
    /// Whether the initial of the name is a folder of its own.
    pub has_initial: bool,
    /// What comes after the name; empty if nothing does.
    pub suffix: String,
    /// Name of the volume with the home directories.
    pub volume: String,
}

impl HomeLayout {
    /// The home directory of a person.
    pub fn directory(&self, username: &str) -> String {
        let mut path = self.prefix.clone();
        if let Some(initial) = username.chars().next().filter(|_| self.has_initial) {
            path += &format!("/{initial}");
        }
        path += &format!("/{username}");
        if !self.suffix.is_empty() {
            path += &format!("/{}", self.suffix);
        }
        path
    }
}

pub(super) fn decode_home(section: &mut Section<'_, '_>) -> HomeLayout {
    let prefix: String = section.or("homedirPrefix", "/home".to_owned());
    let prefix = prefix.trim_end_matches('/').to_owned();
    if prefix.len() < 2 || !prefix.starts_with('/') {
        section
            .at("homedirPrefix")
            .complain("must be an absolute path, and not /");
    }
    let schemas = [("username", false), ("initialThenUsername", true)];
    let has_initial = section
        .value("homedirSchema")
        .and_then(|value| decode_word(value, section.at("homedirSchema"), &schemas));
    let suffix: String = section.or("homedirSuffix", String::new());
    HomeLayout {
        prefix,
        has_initial: has_initial.unwrap_or_default(),
        suffix: suffix.trim_matches('/').to_owned(),
        volume: section.or("homeVolumeName", "home".to_owned()),
    }
}
