//! The tests of Nublado by name, and what checks the same here. A test without a counterpart is an
//! error.
//!
//! Routes, bodies and streams are those of the service; the labs behind them are in memory. That
//! the service itself makes, ends and fails labs so is checked in tests/it/kube/labs.

use crate::{data::Data, flows, tables, variants};

/// A test of Nublado by its name, and its counterpart.
type Counterpart = (&'static str, fn(&Data));

const FILTERS: &[Counterpart] = &[
    ("test_filter", tables::the_dropdown_is_filtered),
    ("test_filter_semver", tables::versions_are_filtered),
];

const FORMS: &[Counterpart] = &[
    ("test_lab_form", flows::the_form_is_for_its_person),
    ("test_default_size", variants::the_default_size_is_checked),
    ("test_errors", flows::the_form_is_for_its_person),
    ("test_quota_spawn", flows::a_quota_forbids_labs),
];

const INDEX: &[Counterpart] = &[
    (
        "test_get_external_index",
        flows::the_service_describes_itself,
    ),
    (
        "test_get_internal_index",
        flows::the_service_describes_itself,
    ),
];

const MODELS: &[Counterpart] = &[
    ("test_resource_quantity", tables::amounts_are_read),
    ("test_lab_request_options", tables::options_are_read),
    (
        "test_cpu_resource_validation",
        tables::requests_are_within_limits,
    ),
    (
        "test_memory_resource_validation",
        tables::requests_are_within_limits,
    ),
];

const LABS: &[Counterpart] = &[
    ("test_lab_start_stop", flows::a_lab_is_started_and_stopped),
    ("test_spawn_after_failure", flows::a_dead_lab_is_replaced),
    (
        "test_multiple_delete",
        flows::a_lab_is_deleted_by_one_of_many,
    ),
    ("test_delayed_spawn", flows::all_listeners_get_all_events),
    ("test_abort_spawn", flows::a_start_is_cancelled),
    ("test_spawn_after_terminate", flows::a_dead_lab_is_replaced),
    ("test_lab_objects", variants::the_token_is_in_its_secret),
    ("test_errors", flows::wrong_requests_are_answered),
    ("test_spawn_errors", flows::failed_calls_are_told),
    (
        "test_homedir_schema",
        variants::home_directories_have_a_schema,
    ),
    ("test_tmp_on_disk", variants::temporary_files_are_on_disk),
    ("test_alternate_paths", variants::paths_are_changed),
    ("test_extra_annotations", variants::annotations_are_added),
    ("test_quota_no_spawn", flows::a_quota_forbids_labs),
    (
        "test_wait_for_sa",
        flows::a_lab_is_pending_until_its_pod_runs,
    ),
    (
        "test_init_container_command",
        variants::a_container_has_its_command,
    ),
    (
        "test_standard_inithome",
        variants::home_directories_are_made,
    ),
    (
        "test_landingpage",
        variants::a_science_site_has_a_landing_page,
    ),
    (
        "test_alternative_home_volume",
        variants::the_volume_of_homes_has_another_name,
    ),
];

const PREPULLS: &[Counterpart] = &[
    ("test_images", flows::images_and_prepulls_are_answered),
    ("test_prepulls", flows::images_and_prepulls_are_answered),
    (
        "test_node_selector",
        flows::images_and_prepulls_are_answered,
    ),
];

const STATUS: &[Counterpart] = &[(
    "test_user_status",
    flows::the_status_of_the_caller_is_that_of_the_lab,
)];

const FILES: &[(&str, &[Counterpart])] = &[
    ("filter_test.py", FILTERS),
    ("form_test.py", FORMS),
    ("index_test.py", INDEX),
    ("lab_test.py", MODELS),
    ("labs_test.py", LABS),
    ("prepuller_test.py", PREPULLS),
    ("user_status_test.py", STATUS),
];

/// Runs the counterparts of all tests. Returns the number of files.
pub(crate) fn tests_have_counterparts(data: &Data) -> usize {
    let files = data.files("upstream-tests");
    let mut count = 0;
    for file in &files {
        let counterparts = FILES.iter().find(|(name, _)| name == file);
        let (_, counterparts) = counterparts.unwrap_or_else(|| panic!("{file}: no counterpart"));
        let code = data.text(&format!("upstream-tests/{file}"));
        for name in test_names(&code) {
            let counterpart = counterparts.iter().find(|(test, _)| *test == name);
            let (_, check) = counterpart.unwrap_or_else(|| panic!("{file}: {name}"));
            check(data);
            count += 1;
        }
    }
    println!("upstream-tests: {count} tests have a counterpart");
    files.len()
}

/// Names of the test functions in Python code.
fn test_names(code: &str) -> Vec<&str> {
    let functions = code.lines().filter_map(|line| {
        let function = line.strip_prefix("async ").unwrap_or(line);
        let (name, _) = function.strip_prefix("def ")?.split_once('(')?;
        Some(name)
    });
    functions.filter(|name| name.starts_with("test_")).collect()
}
