//! Installations whose definition or version is gone.

use ludgate_cluster::crd::{
    definition::{ApplicationDefinition, ApplicationVersion},
    installation::ApplicationInstallation,
};

/// Why the version of an installation can no longer be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// There is no such definition.
    DefinitionRemoved,
    /// The definition is being deleted.
    DefinitionDeleting,
    /// The definition has no such version.
    VersionRemoved,
}

impl Withdrawal {
    /// The reason in the condition and in the Event.
    pub fn reason(self) -> &'static str {
        match self {
            Withdrawal::DefinitionRemoved => "ApplicationDefinitionRemoved",
            Withdrawal::DefinitionDeleting => "ApplicationDefinitionDeleting",
            Withdrawal::VersionRemoved => "ApplicationVersionRemoved",
        }
    }

    /// The reason, for people.
    pub fn message(self, installation: &ApplicationInstallation) -> String {
        let reference = &installation.spec.application_ref;
        let name = &reference.name;
        match self {
            Withdrawal::DefinitionRemoved => {
                format!("there is no ApplicationDefinition \"{name}\"")
            }
            Withdrawal::DefinitionDeleting => {
                format!("ApplicationDefinition \"{name}\" is being deleted")
            }
            Withdrawal::VersionRemoved => format!(
                "ApplicationDefinition \"{name}\" has no version \"{}\"",
                reference.version
            ),
        }
    }
}

/// The version that an installation names.
///
/// # Errors
/// It cannot be installed.
pub fn find_version<'d>(
    installation: &ApplicationInstallation,
    definition: Option<&'d ApplicationDefinition>,
) -> Result<&'d ApplicationVersion, Withdrawal> {
    let definition = definition.ok_or(Withdrawal::DefinitionRemoved)?;
    if definition.metadata.deletion_timestamp.is_some() {
        return Err(Withdrawal::DefinitionDeleting);
    }
    let wanted = &installation.spec.application_ref.version;
    let mut versions = definition.spec.versions.iter();
    let found = versions.find(|entry| &entry.version == wanted);
    found.ok_or(Withdrawal::VersionRemoved)
}

/// Whether the app was ever installed, so that a missing version is no mistake of its author.
pub fn was_installed(installation: &ApplicationInstallation) -> bool {
    let status = installation.status.as_ref();
    status.is_some_and(|status| status.application_version.is_some())
}

/// Whether the installation ends with its version. A definition that is gone says nothing, so the
/// app then stays: only its own deletion ends it.
pub fn ends_installation(definition: Option<&ApplicationDefinition>) -> bool {
    let policy = definition.and_then(|definition| definition.spec.on_version_removed.as_deref());
    policy == Some("uninstall")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    #[test]
    fn a_version_is_found_or_its_absence_has_a_reason() {
        let installation = samples::installation(json!({}));
        let definition = samples::definition(json!({}));
        let found = find_version(&installation, Some(&definition));
        assert_eq!(found.map(|entry| entry.version.as_str()), Ok("1.0.0"));
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let other = json!({ "spec": { "versions": [samples::version("2.0.0")] } });
        for (definition, wanted, message) in [
            (
                None,
                Withdrawal::DefinitionRemoved,
                "there is no ApplicationDefinition \"example\"",
            ),
            (
                Some(samples::definition(deleted)),
                Withdrawal::DefinitionDeleting,
                "ApplicationDefinition \"example\" is being deleted",
            ),
            (
                Some(samples::definition(other)),
                Withdrawal::VersionRemoved,
                "ApplicationDefinition \"example\" has no version \"1.0.0\"",
            ),
        ] {
            let found = find_version(&installation, definition.as_ref());
            assert_eq!(found, Err(wanted));
            assert_eq!(wanted.message(&installation), message);
        }
    }

    #[test]
    fn only_a_definition_that_says_so_ends_its_installations() {
        for (policy, wanted) in [
            (json!(null), false),
            (json!("keep"), false),
            (json!("uninstall"), true),
        ] {
            let patch = json!({ "spec": { "onVersionRemoved": policy } });
            let definition = samples::definition(patch);
            assert_eq!(ends_installation(Some(&definition)), wanted, "{policy}");
        }
        assert!(!ends_installation(None));
    }
}
