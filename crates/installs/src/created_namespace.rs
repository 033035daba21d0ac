//! Which namespace was created for an installation. Without IO.
//!
//! An annotation of the namespace alone proves nothing, since others can write it. The status,
//! which only the controller writes, first says that a creation begins. The namespace is then
//! created with a mark. Last, the status gets its UID. After a crash in between, the mark counts.

use ludgate_cluster::crd::installation_status::CreatedNamespace;

/// A namespace that exists.
#[derive(Clone, Copy, Debug)]
pub struct SeenNamespace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The installation that it is marked for.
    pub created_for: Option<&'a str>,
}

/// What the record of an installation says about a namespace that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceOrigin {
    /// It was created for the installation.
    Created,
    /// It was created for the installation, and its UID is to be recorded.
    CreatedUnrecorded,
    /// Another writer created it, and the record of a creation is to be removed.
    OtherUnrecorded,
    /// Another writer created it.
    Other,
}

impl NamespaceOrigin {
    /// The origin of a namespace, by the record of the installation with this UID.
    pub fn new(
        record: Option<&CreatedNamespace>,
        installation: &str,
        seen: SeenNamespace<'_>,
    ) -> NamespaceOrigin {
        let Some(record) = record.filter(|record| record.name == seen.name) else {
            return NamespaceOrigin::Other;
        };
        match &record.uid {
            Some(uid) if uid == seen.uid => NamespaceOrigin::Created,
            Some(_) => NamespaceOrigin::Other,
            None if seen.created_for == Some(installation) => NamespaceOrigin::CreatedUnrecorded,
            None => NamespaceOrigin::OtherUnrecorded,
        }
    }

    /// Whether it was created for the installation.
    pub fn is_created(self) -> bool {
        match self {
            NamespaceOrigin::Created | NamespaceOrigin::CreatedUnrecorded => true,
            NamespaceOrigin::OtherUnrecorded | NamespaceOrigin::Other => false,
        }
    }

    /// Whether the record says all that is known.
    pub fn is_recorded(self) -> bool {
        match self {
            NamespaceOrigin::Created | NamespaceOrigin::Other => true,
            NamespaceOrigin::CreatedUnrecorded | NamespaceOrigin::OtherUnrecorded => false,
        }
    }
}

/// The record of a creation that begins.
pub fn begun(name: &str) -> CreatedNamespace {
    CreatedNamespace {
        name: name.to_owned(),
        uid: None,
    }
}

/// The record of a creation that ended.
pub fn created(name: &str, uid: &str) -> CreatedNamespace {
    CreatedNamespace {
        name: name.to_owned(),
        uid: Some(uid.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorded_namespace_was_created_for_an_installation() {
        let seen = |created_for| SeenNamespace {
            name: "target",
            uid: "7",
            created_for,
        };
        for (record, mark, wanted) in [
            (None, None, NamespaceOrigin::Other),
            // A mark that a person wrote.
            (None, Some("1"), NamespaceOrigin::Other),
            (
                Some(created("other", "7")),
                Some("1"),
                NamespaceOrigin::Other,
            ),
            (Some(begun("other")), Some("1"), NamespaceOrigin::Other),
            // It was deleted, and a namespace of its name was made.
            (
                Some(created("target", "6")),
                Some("1"),
                NamespaceOrigin::Other,
            ),
            (Some(created("target", "7")), None, NamespaceOrigin::Created),
            (
                Some(begun("target")),
                Some("1"),
                NamespaceOrigin::CreatedUnrecorded,
            ),
            (
                Some(begun("target")),
                Some("2"),
                NamespaceOrigin::OtherUnrecorded,
            ),
            (
                Some(begun("target")),
                None,
                NamespaceOrigin::OtherUnrecorded,
            ),
        ] {
            let origin = NamespaceOrigin::new(record.as_ref(), "1", seen(mark));
            assert_eq!(origin, wanted, "{record:?} {mark:?}");
            let is_unrecorded = record.is_some_and(|it| it.name == "target" && it.uid.is_none());
            assert_eq!(origin.is_recorded(), !is_unrecorded, "{origin:?}");
        }
    }
}
