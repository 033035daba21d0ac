//! What `tests/without.sh` skips is there: a test that was renamed must not run without its part
//! unnoticed, nor stay skipped for another's name.

use std::fs;

use crate::{files::root, report::complain};

#[test]
fn every_test_that_can_be_skipped_is_there() {
    let script = fs::read_to_string(root().join("tests/without.sh")).expect("tests/without.sh");
    let prefixes = prefixes(&script);
    assert!(prefixes.len() > 5, "prefixes are read: {prefixes:?}");
    let missing = prefixes.into_iter().filter(|prefix| !is_there(prefix));
    complain(
        "names in tests/without.sh are no tests",
        missing.map(str::to_owned),
    );
}

/// What stands in quotes and looks like a path of modules.
fn prefixes(script: &str) -> Vec<&str> {
    let quoted = script.split('\'').skip(1).step_by(2);
    quoted
        .filter(|text| text.contains("::") && !text.contains(' '))
        .collect()
}

/// `a::b::` is a file or a folder below `tests/it`, `a::b::c` a function in `a/b.rs`.
fn is_there(prefix: &str) -> bool {
    let (modules, function) = prefix.rsplit_once("::").unwrap_or((prefix, ""));
    let path = root().join("tests/it").join(modules.replace("::", "/"));
    let file = path.with_extension("rs");
    if function.is_empty() {
        return path.is_dir() || file.is_file();
    }
    fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {function}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_test_is_found() {
        assert_eq!(
            prefixes("echo 'a::b::'\n# it's c::d\necho 'a b'"),
            ["a::b::"]
        );
        assert!(is_there("wire::curl::") && is_there("chromium::"));
        assert!(!is_there("wire::cellar::") && !is_there("wire::curl::no_such_test"));
    }
}
