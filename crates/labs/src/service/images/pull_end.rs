//! How pulling an image to a node ends, read from the status of the pod that does it.

use serde_json::Value;

/// Reasons to wait after which kubelet only tries the same again.
const HOPELESS: [&str; 3] = ["ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"];

/// How pulling an image ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PullEnd {
    /// The node has the image.
    Pulled,
    /// It does not, for this reason.
    Failed(String),
    /// It took too long.
    TimedOut,
}

impl PullEnd {
    /// The word for metrics.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            PullEnd::Pulled => "pulled",
            PullEnd::Failed(_) => "failed",
            PullEnd::TimedOut => "timeout",
        }
    }
}

/// How it ended, if it did.
pub(super) fn end_of_pull(status: &Value) -> Option<PullEnd> {
    let container = &status["containerStatuses"][0];
    match status["phase"].as_str() {
        Some("Succeeded") => Some(PullEnd::Pulled),
        // Without the program that it should run, the image was pulled nevertheless. While it runs,
        // the image is there already.
        Some("Running" | "Failed") if !text(&container["imageID"]).is_empty() => {
            Some(PullEnd::Pulled)
        }
        Some("Failed") => Some(failed(text(&status["reason"]))),
        _ => {
            let reason = text(&container["state"]["waiting"]["reason"]);
            HOPELESS.contains(&reason).then(|| failed(reason))
        }
    }
}

fn failed(reason: &str) -> PullEnd {
    let reason = if reason.is_empty() { "Failed" } else { reason };
    PullEnd::Failed(reason.to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pull_ends_with_its_pod_or_when_kubelet_gives_up() {
        let waiting = |reason: &str| {
            let container = json!({ "imageID": "", "state": { "waiting": { "reason": reason } } });
            json!({ "phase": "Pending", "containerStatuses": [container] })
        };
        let failed = |reason: &str| Some(PullEnd::Failed(reason.to_owned()));
        for (status, expected) in [
            (json!(null), None),
            (json!({ "phase": "Pending" }), None),
            (json!({ "phase": "Running" }), None),
            (waiting("ContainerCreating"), None),
            (waiting("ErrImagePull"), None),
            (waiting("ImagePullBackOff"), failed("ImagePullBackOff")),
            (json!({ "phase": "Succeeded" }), Some(PullEnd::Pulled)),
            (json!({ "phase": "Failed" }), failed("Failed")),
            (
                json!({ "phase": "Failed", "reason": "Evicted" }),
                failed("Evicted"),
            ),
            (
                json!({ "phase": "Failed", "containerStatuses": [{ "imageID": "r@sha256:12" }] }),
                Some(PullEnd::Pulled),
            ),
            (
                json!({ "phase": "Running", "containerStatuses": [{ "imageID": "r@sha256:12" }] }),
                Some(PullEnd::Pulled),
            ),
        ] {
            assert_eq!(end_of_pull(&status), expected, "{status}");
        }
    }
}
