//! Where an installation may have its app. Without IO.
//!
//! People who may create installations in one namespace must not reach other ones by them.
//! Administrators permit more: by an annotation of a namespace or of a target's Secret, by the
//! default namespace of a definition, and by the settings.

mod pattern;

pub use pattern::{InvalidNamespacePattern, NamespacePattern};

use std::collections::BTreeSet;

use kube::ResourceExt;
use ludgate_cluster::crd::{app_target::AppNamespaceSpec, definition::ApplicationDefinition};

/// Annotation of a namespace, or of the Secret of a target: the namespaces whose installations may
/// have their apps there, separated by blanks or commas. `*`: all.
pub const INSTALLS_FROM_ANNOTATION: &str = "ludgate.dev/installs-from";

/// Whether a list of [`INSTALLS_FROM_ANNOTATION`] has this namespace. `None`: there is no list, so
/// it has none.
pub fn lists_namespace(list: Option<&str>, namespace: &str) -> bool {
    let separators = |letter: char| letter == ',' || letter.is_whitespace();
    let mut listed = list.unwrap_or_default().split(separators);
    listed.any(|listed| !listed.is_empty() && (listed == namespace || listed == "*"))
}

/// What the settings say.
#[derive(Clone, Copy, Debug)]
pub struct PlacementRules<'a> {
    /// The namespace of the controller and of all credentials, on its own cluster.
    pub home_namespace: &'a str,
    /// Namespaces without any app, on all clusters.
    pub protected_namespaces: &'a BTreeSet<String>,
    /// The names of namespaces that installations may create.
    pub new_namespaces: &'a [NamespacePattern],
}

/// The cluster of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementTarget<'a> {
    /// That of the controller.
    Home,
    /// That of a Secret.
    Secret {
        /// The name of the target.
        name: &'a str,
        /// The list of the Secret.
        installs_from: Option<&'a str>,
    },
}

/// A namespace that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExistingNamespace<'a> {
    /// Its list.
    pub installs_from: Option<&'a str>,
    /// Whether it was created for the installation.
    pub is_created_here: bool,
}

/// Where an installation wants its app to be.
#[derive(Clone, Copy, Debug)]
pub struct WantedPlacement<'a> {
    /// The namespace of the installation.
    pub own: &'a str,
    /// The cluster.
    pub target: PlacementTarget<'a>,
    /// The namespace of the app.
    pub namespace: &'a AppNamespaceSpec,
    /// The namespace as it is on the cluster; `None`: there is none.
    pub existing: Option<ExistingNamespace<'a>>,
    /// The definition that the installation names.
    pub definition: Option<&'a ApplicationDefinition>,
}

/// A placement that is permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermittedPlacement {
    /// Whether the installation may set labels and annotations of the namespace.
    pub may_label: bool,
    /// Whether the namespace, which does not exist, is one for all installations of the
    /// installation's namespace.
    pub is_new_for_all: bool,
}

/// Why a placement is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementRefused {
    /// No app may be there.
    #[error("no app may be installed in the protected namespace \"{0}\"")]
    Protected(String),
    /// The Secret of the target does not list the namespace of the installation.
    #[error(
        "target \"{target}\" permits no installations of namespace \"{own}\": an administrator \
         must list it in the annotation ludgate.dev/installs-from of the target's Secret"
    )]
    Target {
        /// The name of the target.
        target: String,
        /// The namespace of the installation.
        own: String,
    },
    /// The namespace exists, and does not list that of the installation.
    #[error(
        "namespace \"{namespace}\" permits no installations of namespace \"{own}\": an \
         administrator must list \"{own}\" in its annotation ludgate.dev/installs-from"
    )]
    Existing {
        /// The namespace of the app.
        namespace: String,
        /// The namespace of the installation.
        own: String,
    },
    /// The namespace does not exist, and the installation may not create it.
    #[error(
        "namespace \"{namespace}\" does not exist, and installations of namespace \"{own}\" may \
         create only {patterns}: an administrator must create it with the annotation \
         ludgate.dev/installs-from"
    )]
    New {
        /// The namespace of the app.
        namespace: String,
        /// The namespace of the installation.
        own: String,
        /// The names that are permitted.
        patterns: String,
    },
}

impl PlacementRules<'_> {
    /// Whether an installation may have its app where it wants.
    ///
    /// # Errors
    /// It may not, with the text for its author.
    pub fn check(
        &self,
        wanted: WantedPlacement<'_>,
    ) -> Result<PermittedPlacement, PlacementRefused> {
        let WantedPlacement {
            own,
            target,
            namespace,
            existing,
            definition,
        } = wanted;
        let name = &namespace.name;
        if self.protects(name, target) {
            return Err(PlacementRefused::Protected(name.clone()));
        }
        if let PlacementTarget::Secret {
            name: target,
            installs_from,
        } = target
            && !lists_namespace(installs_from, own)
        {
            return Err(PlacementRefused::Target {
                target: target.to_owned(),
                own: own.to_owned(),
            });
        }
        let is_chosen = definition.is_some_and(|definition| chooses(definition, name));
        let is_own = own == name;
        let Some(existing) = existing else {
            let is_new_for_all = namespace.create && self.may_create(own, name);
            return match is_new_for_all || is_chosen || is_own {
                true => Ok(PermittedPlacement {
                    may_label: true,
                    is_new_for_all,
                }),
                false => Err(PlacementRefused::New {
                    namespace: name.clone(),
                    own: own.to_owned(),
                    patterns: self.patterns(own),
                }),
            };
        };
        let may_label =
            existing.is_created_here || is_chosen || lists_namespace(existing.installs_from, own);
        match may_label || is_own {
            true => Ok(PermittedPlacement {
                may_label,
                is_new_for_all: false,
            }),
            false => Err(PlacementRefused::Existing {
                namespace: name.clone(),
                own: own.to_owned(),
            }),
        }
    }

    /// In the home namespace, the account of an app could read all credentials.
    fn protects(&self, namespace: &str, target: PlacementTarget<'_>) -> bool {
        let is_home = target == PlacementTarget::Home && namespace == self.home_namespace;
        is_home || self.protected_namespaces.contains(namespace)
    }

    fn may_create(&self, own: &str, name: &str) -> bool {
        let mut patterns = self.new_namespaces.iter();
        patterns.any(|pattern| pattern.matches(own, name))
    }

    fn patterns(&self, own: &str) -> String {
        let patterns = self
            .new_namespaces
            .iter()
            .map(|pattern| pattern.filled(own));
        let patterns: Vec<String> = patterns.collect();
        match patterns.is_empty() {
            true => "no namespace".to_owned(),
            false => patterns.join(", "),
        }
    }
}

/// Whether an administrator chose this namespace for the installations of a definition: as its
/// default, or without one by making it a default or enforced app, which has its own name.
fn chooses(definition: &ApplicationDefinition, namespace: &str) -> bool {
    let spec = &definition.spec;
    let default = spec.default_namespace.as_ref();
    match default.map(|default| default.name.as_str()) {
        Some(name) if !name.is_empty() => name == namespace,
        Some(_) | None => (spec.default || spec.enforced) && definition.name_any() == namespace,
    }
}

#[cfg(test)]
mod tests;
