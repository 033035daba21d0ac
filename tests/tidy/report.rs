//! How offenders are shown, and how known ones are let pass until they are mended.

use std::collections::BTreeSet;

/// One offender: what the list of known ones calls it, and what is shown.
pub(crate) struct Offence {
    pub(crate) key: String,
    pub(crate) shown: String,
}

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

/// The same without known offenders. An entry of `known` that offends no more is an offender too.
pub(crate) fn complain_except(
    what: &str,
    known: &[&str],
    offenders: impl Iterator<Item = Offence>,
) {
    complain(what, unknown_or_stale(known, offenders).into_iter());
}

fn unknown_or_stale(known: &[&str], offenders: impl Iterator<Item = Offence>) -> Vec<String> {
    let offenders: Vec<Offence> = offenders.collect();
    let keys: BTreeSet<&str> = offenders.iter().map(|one| one.key.as_str()).collect();
    let stale = known
        .iter()
        .filter(|entry| !keys.contains(*entry))
        .map(|entry| format!("{entry}: offends no more; take it off the list of known ones"));
    let new = offenders
        .iter()
        .filter(|one| !known.contains(&one.key.as_str()))
        .map(|one| one.shown.clone());
    new.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_offender_and_a_stale_entry_both_fail() {
        let offence = |key: &str| Offence {
            key: key.to_owned(),
            shown: format!("{key} offends"),
        };
        let found = unknown_or_stale(&["a", "b"], [offence("a"), offence("c")].into_iter());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("c offends") && found[1].starts_with("b: offends no more"));
        assert!(unknown_or_stale(&["a"], [offence("a")].into_iter()).is_empty());
    }
}
