//! The data of Nublado's own tests, in its dialect, and the examples of SQR-066 in the other one.
//! The data is no part of the project: without the variable LUDGATE_ACCEPTANCE, which names its
//! folder, nothing is compared with it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod data;
mod flows;
mod form;
mod images;
mod labs;
mod memory;
mod routes;
mod sqr066;
mod streams;
mod tables;
mod tags;
mod upstream;
mod variants;

use std::collections::BTreeMap;

use data::Data;

/// Compares what one folder holds. Returns the number of files that were equal.
type Check = fn(&Data) -> usize;

/// The folders that are compared. The others are what those are made from.
const CHECKS: [(&str, Check); 9] = [
    ("config", labs::configs_are_read),
    ("html", form::forms_have_the_same_fields),
    ("images", images::images_are_listed),
    ("menu", images::menus_are_shown),
    ("objects", labs::objects_are_built),
    ("prepuller", images::prepulling_is_answered),
    ("rspimagetag", tags::tags_are_read),
    ("spawn", streams::streams_are_told),
    ("upstream-tests", upstream::tests_have_counterparts),
];

/// One test, since it counts the files that all checks use.
#[test]
fn all_data_of_nublado_is_met_in_its_dialect() {
    let Some(data) = Data::from_environment() else {
        println!("LUDGATE_ACCEPTANCE is not set: no data to compare with");
        return;
    };
    for (folder, check) in CHECKS {
        let files = data.files(folder).len();
        let equal = check(&data);
        println!("{folder}: {equal} of {files} are equal");
        assert!(equal > 0 && equal == files, "{folder}: {equal} of {files}");
    }
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut unused = Vec::new();
    for (path, is_read) in data.all_files() {
        let folder = path.split('/').next().unwrap_or_default();
        let count = counts.entry(folder.to_owned()).or_default();
        count.0 += usize::from(is_read);
        count.1 += 1;
        if !is_read {
            unused.push(path);
        }
    }
    for (folder, (used, files)) in counts {
        println!("{folder}: {used} of {files} are used");
    }
    assert!(unused.is_empty(), "no check uses {unused:?}");
}
