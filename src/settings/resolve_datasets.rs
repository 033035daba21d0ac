//! Datasets and PHFS: the data that apps share.

use std::collections::BTreeMap;

use super::{file::ConfigFile, section::ConfigSection};
use crate::controllers::application::{dataset_grant::DatasetGrant, group_names, settings::Group};

/// The key `datasets` of a group, or of `[controller.applications]`. `None` only together with an
/// error.
pub(super) fn grants(section: &ConfigSection<'_>) -> Option<Vec<DatasetGrant>> {
    let mut grants: Vec<DatasetGrant> = Vec::new();
    for written in section.texts("datasets").unwrap_or_default() {
        let Some(grant) = DatasetGrant::parse(&written) else {
            let what = format!("{written:?} is no name of a dataset");
            let suggestion = "write \"name\", or \"name:rw\" if apps may write to it";
            section.wrong("datasets", what, Some(suggestion.to_owned()));
            return None;
        };
        if grants.iter().any(|other| other.name() == grant.name()) {
            let what = format!("{} occurs twice", grant.name());
            section.wrong("datasets", what, None);
            return None;
        }
        grants.push(grant);
    }
    Some(grants)
}

/// The datasets of all apps, in whichever process the controller runs. `None` only together with an
/// error.
pub(super) fn for_all_apps(file: &ConfigFile<'_>) -> Option<Vec<DatasetGrant>> {
    let controller = file.section("controller");
    if !controller.is_table("applications") {
        return Some(Vec::new());
    }
    let read = |section: ConfigSection<'_>| grants(&section);
    controller.inner("applications", "controller.applications", read)?
}

/// The claim of PHFS. Each group has a folder of its own there. `None` only together with an error.
pub(super) fn phfs(
    section: &ConfigSection<'_>,
    groups: Option<&BTreeMap<String, Group>>,
) -> Option<Option<String>> {
    let Some(claim) = section.text("phfs") else {
        return Some(None);
    };
    let mut folders: BTreeMap<String, &str> = BTreeMap::new();
    let mut is_valid = true;
    for name in groups.into_iter().flat_map(|groups| groups.keys()) {
        let folder = group_names::directory(name);
        let is_inside = matches!(folder.as_str(), "" | "." | "..") || folder.contains('/');
        let what = if is_inside {
            Some(format!("the group {name:?} cannot be the name of a folder"))
        } else {
            let other = folders.insert(folder.clone(), name);
            other.map(|other| format!("{other} and {name} would share the folder groups/{folder}"))
        };
        if let Some(what) = what {
            section.wrong("phfs", what, None);
            is_valid = false;
        }
    }
    is_valid.then_some(Some(claim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{resolve_controller, resolve_groups};

    fn read<R>(
        text: &str,
        resolve: impl FnOnce(&ConfigFile<'_>) -> Option<R>,
    ) -> Result<R, String> {
        let read = ConfigFile::read(text, std::iter::empty(), resolve);
        read.map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_group_and_all_apps_have_datasets() {
        let text = "[site]\nurl = \"https://hub.example.com\"\n\
             [controller.applications]\ndatasets = [\"maps\"]\nphfs = \"phfs\"\n\
             [groups.phusers]\ndatasets = [\"mnist\", \"scratch:rw\"]\n[groups.friends]\n";
        let grants = |written: &[&str]| -> Vec<DatasetGrant> {
            let parsed = written.iter().filter_map(|text| DatasetGrant::parse(text));
            parsed.collect()
        };
        let groups = read(text, resolve_groups::groups).expect("valid");
        assert_eq!(groups["phusers"].datasets, grants(&["mnist", "scratch:rw"]));
        assert!(groups["friends"].datasets.is_empty());
        let for_all = read(text, for_all_apps).expect("valid");
        assert_eq!(for_all, grants(&["maps"]));
        let settings = read(text, resolve_controller::applications).expect("valid");
        let settings = settings.expect("on");
        assert_eq!(settings.datasets, for_all);
        assert_eq!(settings.phfs.as_deref(), Some("phfs"));
        for off in ["", "[controller]\napplications = true\n"] {
            assert_eq!(read(off, for_all_apps), Ok(Vec::new()), "{off}");
        }
    }

    #[test]
    fn names_that_no_dataset_has_are_refused() {
        for (written, wanted) in [
            ("[\"a:ro\"]", "\"a:ro\" is no name of a dataset"),
            ("[\"a\", \"../b\"]", "\"../b\" is no name of a dataset"),
            ("[\"a\", \"a:rw\"]", "a occurs twice"),
        ] {
            let text = format!("[groups.x]\ndatasets = {written}\n");
            let errors = read(&text, resolve_groups::groups).expect_err("refused");
            let wanted = format!("line 2: groups.x.datasets: {wanted}\n");
            assert!(errors.contains(&wanted), "{errors}");
        }
    }

    #[test]
    fn on_phfs_no_group_sees_the_folder_of_another() {
        let start = "[site]\nurl = \"https://hub.example.com\"\n\
             [controller.applications]\nphfs = \"phfs\"\n";
        for (groups, wanted) in [
            (
                "[groups.a_b]\n[groups.A-B]\n",
                "A-B and a_b would share the folder groups/a-b",
            ),
            (
                "[groups.\"\"]\n",
                "the group \"\" cannot be the name of a folder",
            ),
            (
                "[groups.\"..\"]\n",
                "the group \"..\" cannot be the name of a folder",
            ),
            (
                "[groups.a]\n[groups.\"a/b\"]\n",
                "the group \"a/b\" cannot be the name of a folder",
            ),
        ] {
            let text = format!("{start}{groups}");
            let errors = read(&text, resolve_controller::applications).expect_err("refused");
            let wanted = format!("line 4: controller.applications.phfs: {wanted}\n");
            assert!(errors.contains(&wanted), "{errors}");
        }
        let text = format!("{start}[groups.a_b]\n[groups.ab]\n");
        assert!(read(&text, resolve_controller::applications).is_ok());
    }
}
