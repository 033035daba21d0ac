//! Names of entries.

use crate::source::error::SourceError;

/// Longest name, in bytes.
const MAX_NAME: usize = 1024;

/// The parts of an entry's name. They are names only: no `..`, no root, no backslash.
///
/// # Errors
/// Permanent, with the name.
pub(super) fn parts(name: &[u8]) -> Result<Vec<&str>, SourceError> {
    let refused = |why: &str| {
        let shown = String::from_utf8_lossy(name);
        let shown: String = shown.chars().take(100).collect();
        SourceError::permanent(format!("the archive's entry {shown:?} {why}"))
    };
    let text = std::str::from_utf8(name).map_err(|_| refused("is not UTF-8"))?;
    if text.len() > MAX_NAME {
        return Err(refused("has a too long name"));
    }
    if text.starts_with('/') {
        return Err(refused("is absolute"));
    }
    if text.chars().any(|c| c.is_control() || c == '\\') {
        return Err(refused("has a backslash or a control character"));
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(refused("has \"..\" in its name")),
            part => parts.push(part),
        }
    }
    match parts.is_empty() {
        true => Err(refused("has no name")),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for (name, wanted) in [
            ("a/Chart.yaml", Some("a|Chart.yaml")),
            ("./a//b/", Some("a|b")),
            ("a/..b", Some("a|..b")),
            ("a/ b c", Some("a| b c")),
            ("../a", None),
            ("a/../../b", None),
            ("a/..", None),
            ("/etc/passwd", None),
            ("//a", None),
            ("a\\..\\b", None),
            ("a\0b", None),
            ("a/b\n", None),
            ("", None),
            ("./", None),
        ] {
            let found = parts(name.as_bytes()).ok().map(|parts| parts.join("|"));
            assert_eq!(found.as_deref(), wanted, "{name:?}");
        }
        assert!(parts(b"a/\xff").is_err());
        assert!(parts("a/".repeat(600).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn every_accepted_name_stays_below_its_folder(name in "[a./\\\\]{0,12}") {
            if let Ok(parts) = parts(name.as_bytes()) {
                let path: std::path::PathBuf = parts.iter().collect();
                let is_normal = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(path.components().all(is_normal), "{path:?}");
            }
        }
    }
}
