//! Labels and annotations by which the controller finds its objects.

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

/// Checks that the target that an installation is bound to does not change, once it is recorded. It
/// is first recorded as the target that the installation names.
///
/// # Errors
/// The message for the person who changes it.
pub fn check_bound_target(
    object: &impl ResourceExt,
    before: &impl ResourceExt,
) -> Result<(), String> {
    let new = object.annotations().get(BOUND_TARGET_ANNOTATION);
    let old = before.annotations().get(BOUND_TARGET_ANNOTATION);
    let is_kept = match (old, new) {
        (Some(old), Some(new)) => old == new,
        (Some(_), None) => false,
        (None, Some(new)) => new == target_name(before),
        (None, None) => true,
    };
    match is_kept {
        true => Ok(()),
        false => Err(format!(
            "[metadata.annotations: annotation \"{BOUND_TARGET_ANNOTATION}\" is immutable]"
        )),
    }
}
