//! The name of a group.

use std::fmt;

/// A group name in its compared form: without one leading `/`, otherwise exact and case-sensitive.
/// `/other/phusers` is not `phusers`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Box<str>);

impl GroupName {
    /// `None` for an empty name or one over 256 bytes.
    pub fn new(written: &str) -> Option<GroupName> {
        let name = written.strip_prefix('/').unwrap_or(written);
        (!name.is_empty() && name.len() <= 256).then(|| GroupName(name.into()))
    }

    /// The name without its leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A text that [`GroupName::new`] reads as this group, for records. Reading removes one slash
    /// at the beginning: without another one, `/a` would be read as the group `a`.
    pub fn to_record(&self) -> String {
        let slash = if self.0.starts_with('/') { "/" } else { "" };
        format!("{slash}{}", self.0)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_slash_is_no_part_of_a_group_but_a_path_is() {
        assert_eq!(GroupName::new("/phusers"), GroupName::new("phusers"));
        assert_ne!(GroupName::new("/other/phusers"), GroupName::new("/phusers"));
        assert_ne!(GroupName::new("PHUSERS"), GroupName::new("phusers"));
    }

    #[test]
    fn a_group_that_begins_with_a_slash_is_read_as_it_was_recorded() {
        let longest = format!("//{}", "a".repeat(255));
        for written in ["a", "/a", "//a", "///a", "b/a", "//corp:a", &*longest] {
            let group = GroupName::new(written).expect("a group");
            let read = GroupName::new(&group.to_record());
            assert_eq!(read.as_ref(), Some(&group), "{written}");
        }
        let recorded = |written| GroupName::new(written).map(|group| group.to_record());
        assert_eq!(recorded("//a").as_deref(), Some("//a"));
        assert_eq!(recorded("/a").as_deref(), Some("a"));
    }
}
