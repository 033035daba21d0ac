//! Labels and annotations by which the controller finds its objects.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::settings::HOME_TARGET;

/// Annotation with the target that an installation had when its finalizer was set. A label that
/// changes later would leave the release behind.
pub const BOUND_TARGET_ANNOTATION: &str = "ludgate.dev/bound-target";
/// Label of a Secret with the kubeconfig of a target, and of an installation on that target. Its
/// value is the name of the target.
pub const TARGET_LABEL: &str = "ludgate.dev/target";
/// Annotation of the Secret of a target: `true` stops all changes on the target.
pub const PAUSED_ANNOTATION: &str = "ludgate.dev/paused";
/// Annotation of a namespace with the UID of the installation that it was created for. It counts
/// only while the status of the installation says that the creation was begun.
pub const CREATED_FOR_ANNOTATION: &str = "ludgate.dev/created-for";
/// Annotation of the home namespace: the default apps of these targets were created. People may
/// have deleted them since.
pub const DEFAULTED_TARGETS_ANNOTATION: &str = "ludgate.dev/default-applications";

/// The name of a target in the selectors of definitions; `cluster_name` is that of this cluster.
pub fn selector_name<'n>(target: &'n str, cluster_name: &'n str) -> &'n str {
    match target {
        HOME_TARGET => cluster_name,
        other => other,
    }
}

/// The target that an installation was bound to, or the one that it names.
pub fn target_name(installation: &impl ResourceExt) -> &str {
    let bound = installation.annotations().get(BOUND_TARGET_ANNOTATION);
    let named = bound.or_else(|| installation.labels().get(TARGET_LABEL));
    named
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .unwrap_or(HOME_TARGET)
}

/// Checks that an installation stays on the target that it is bound to, and that it is bound to the
/// target that it names.
///
/// # Errors
/// The message for the person who changes it.
pub fn check_bound_target(
    object: &impl ResourceExt,
    before: &impl ResourceExt,
) -> Result<(), String> {
    let is_bound =
        |annotations: &BTreeMap<String, String>| annotations.contains_key(BOUND_TARGET_ANNOTATION);
    // Before it is bound, its label may change.
    let may_move = !is_bound(before.annotations()) && !is_bound(object.annotations());
    match may_move || target_name(object) == target_name(before) {
        true => Ok(()),
        false => Err(format!(
            "[metadata.annotations: annotation \"{BOUND_TARGET_ANNOTATION}\" must not name another target]"
        )),
    }
}
