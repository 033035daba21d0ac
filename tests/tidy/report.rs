//! How offenders are shown.

/// Fails with all offenders.
pub(crate) fn complain(what: &str, offenders: impl Iterator<Item = String>) {
    let offenders: Vec<String> = offenders.collect();
    assert!(
        offenders.is_empty(),
        "{} {what}:\n  {}\n",
        offenders.len(),
        offenders.join("\n  ")
    );
}
