//! The data of Nublado's own tests, in its dialect. The data is no part of the project: without the
//! variable LUDGATE_ACCEPTANCE, which names its folder, nothing is compared.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

mod data;
mod form;
mod images;
mod labs;
mod tags;

use data::Data;

/// Compares what one folder holds. Returns the number of files that were equal.
type Check = fn(&Data) -> usize;

const CHECKS: [(&str, Check); 8] = [
    ("config", labs::configs_are_read),
    ("html", form::forms_have_the_same_fields),
    ("images", images::images_are_listed),
    ("menu", images::menus_are_shown),
    ("objects", labs::objects_are_built),
    ("prepuller", images::prepulling_is_answered),
    ("rspimagetag", tags::tags_are_read),
    ("spawn", labs::spawns_are_told),
];

#[test]
fn all_data_of_nublado_is_met_in_its_dialect() {
    let Some(data) = Data::from_environment() else {
        println!("LUDGATE_ACCEPTANCE is not set: no data to compare with");
        return;
    };
    for (folder, check) in CHECKS {
        let files = data.files(folder).len();
        let equal = check(&data);
        println!("{folder}: {equal} of {files}");
        assert!(equal > 0 && equal == files, "{folder}: {equal} of {files}");
    }
}

#[test]
fn errors_have_the_shape_of_nublado() {
    if let Some(data) = Data::from_environment() {
        println!("errors: {} cases", labs::errors_are_answered(&data));
    }
}
