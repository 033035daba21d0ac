//! Which apps get which datasets, by the configuration.

use std::collections::BTreeMap;

use ludgate_model::dns;
use serde::{Deserialize, Serialize};

/// What apps may do with a dataset.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DatasetAccess {
    /// Read it.
    ReadOnly,
    /// Read it and write to it.
    ReadWrite,
}

/// A dataset that apps get, as the configuration names it: `name`, or `name:rw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetGrant {
    name: String,
    access: DatasetAccess,
}

impl DatasetGrant {
    /// Parses an entry of the configuration.
    pub fn parse(written: &str) -> Option<DatasetGrant> {
        let (name, access) = match written.strip_suffix(":rw") {
            Some(name) => (name, DatasetAccess::ReadWrite),
            None => (written, DatasetAccess::ReadOnly),
        };
        dns::is_subdomain(name).then(|| DatasetGrant {
            name: name.to_owned(),
            access,
        })
    }

    /// The name of the `Dataset`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The datasets that apps of a group get: its own, and those of all apps. Each has the widest
/// access that any entry grants.
pub fn granted<'a>(
    group: &'a [DatasetGrant],
    all_apps: &'a [DatasetGrant],
) -> BTreeMap<&'a str, DatasetAccess> {
    let mut granted = BTreeMap::new();
    for grant in group.iter().chain(all_apps) {
        let access = granted.entry(grant.name()).or_insert(grant.access);
        *access = grant.access.max(*access);
    }
    granted
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn grants(written: &[&str]) -> Vec<DatasetGrant> {
        let parsed = written.iter().map(|text| DatasetGrant::parse(text));
        parsed.collect::<Option<_>>().expect("valid")
    }

    #[test]
    fn grants_are_names_of_objects_with_or_without_the_right_to_write() {
        let long = "a".repeat(254);
        for (written, wanted) in [
            ("mnist", Some(("mnist", DatasetAccess::ReadOnly))),
            ("mnist:rw", Some(("mnist", DatasetAccess::ReadWrite))),
            ("a.b-1", Some(("a.b-1", DatasetAccess::ReadOnly))),
            ("mnist:ro", None),
            ("mnist:rw:rw", None),
            (":rw", None),
            ("", None),
            ("Mnist", None),
            ("a_b", None),
            ("a/b", None),
            ("..", None),
            ("-a", None),
            ("a-", None),
            (long.as_str(), None),
        ] {
            let parsed = DatasetGrant::parse(written);
            let parsed = parsed.as_ref().map(|grant| (grant.name(), grant.access));
            assert_eq!(parsed, wanted, "{written}");
        }
    }

    #[test]
    fn a_group_gets_its_own_datasets_and_those_of_all_apps() {
        let (own, all) = (grants(&["b", "a:rw", "c"]), grants(&["a", "c:rw", "d"]));
        let (read, write) = (DatasetAccess::ReadOnly, DatasetAccess::ReadWrite);
        let wanted = [("a", write), ("b", read), ("c", write), ("d", read)];
        assert_eq!(granted(&own, &all), BTreeMap::from(wanted));
        assert_eq!(granted(&[], &[]), BTreeMap::new());
    }

    fn written() -> impl Strategy<Value = DatasetGrant> {
        "[a-c]{1,2}(:rw)?".prop_map(|text| DatasetGrant::parse(&text).expect("valid"))
    }

    proptest! {
        #[test]
        fn neither_order_nor_place_of_the_grants_matters(all in vec(written(), 0..9), cut in 0..9_usize) {
            let (group, all_apps) = all.split_at(cut.min(all.len()));
            let mut reversed = all.clone();
            reversed.reverse();
            prop_assert_eq!(granted(group, all_apps), granted(&reversed, &[]));
        }
    }
}
