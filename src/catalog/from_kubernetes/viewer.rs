//! Parses a PVCViewer into an app below the prefix of viewers.
//!
//! Invariant: a viewer is published only at the path that follows from its namespace and name, and
//! only once its controller has put that path into its status.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::shown_text::{MAX_MESSAGE, MAX_TITLE, shown};
use crate::{
    cluster::object::{DeepObject, Object},
    controllers::viewer::parsed::Viewer,
    model::{
        app::{AppId, AppState, PathRewrite},
        site::Site,
    },
};

/// The Service's name for the port of a viewer.
const PORT_NAME: &str = "http";

/// The last version of a viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedViewer {
    /// The published form; `None`: it is not published.
    pub published: Option<PublishedViewer>,
    /// The problem of the current version.
    pub problem: Option<String>,
}

/// A viewer that can be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedViewer {
    /// Its id, which also gives its path.
    pub id: AppId,
    /// Title on pages.
    pub title: String,
    /// What becomes of its path.
    pub rewrite: PathRewrite,
    /// Deadline for response headers, if the viewer sets one.
    pub timeout: Option<Duration>,
    /// Why it has no pod; `None`: it has one, or will.
    stop: Option<ReportedStop>,
}

/// The reason that the controller reports for a viewer without a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReportedStop {
    state: AppState,
    message: Box<str>,
}

/// Conditions that stop a viewer, the first one that is true counts.
const STOPS: [(&str, AppState); 4] = [
    ("Invalid", AppState::Failed),
    ("PodSpecRejected", AppState::Failed),
    ("VolumeInUse", AppState::Stopped),
    ("Idle", AppState::Idle),
];

impl PublishedViewer {
    /// Its state. Readiness comes from its pods, not from its conditions.
    pub fn state(&self, has_ready_pods: bool) -> AppState {
        match (&self.stop, has_ready_pods) {
            (Some(stop), _) => stop.state,
            (None, true) => AppState::Running,
            (None, false) => AppState::Starting,
        }
    }

    /// The reason for its state.
    pub fn message(&self) -> Option<&str> {
        let message = self.stop.as_ref().map(|stop| &*stop.message);
        message.filter(|message| !message.is_empty())
    }

    /// The pods' port, by the Service's name for it.
    pub fn port_of(ports: &[(String, u16)]) -> Option<u16> {
        let mut ports = ports.iter();
        let found = ports.find(|(name, _)| name == PORT_NAME);
        found.map(|(_, port)| *port)
    }
}

/// Parses an object of a namespace. If its spec is invalid, its last valid form stays, with the
/// current state.
pub fn read(
    object: &Object,
    namespace: &str,
    site: &Site,
    before: Option<&WatchedViewer>,
) -> WatchedViewer {
    let stop = reported_stop(object);
    let viewer = match Viewer::parse(&DeepObject::from(object)) {
        Ok(viewer) => viewer,
        Err(error) => {
            let last = before.and_then(|seen| seen.published.clone());
            return WatchedViewer {
                published: last.map(|last| PublishedViewer { stop, ..last }),
                problem: Some(shown(&error.to_string(), MAX_MESSAGE)),
            };
        }
    };
    let published = published(object, namespace, &viewer, site);
    WatchedViewer {
        problem: published.as_ref().err().cloned().flatten(),
        published: published
            .ok()
            .map(|published| PublishedViewer { stop, ..published }),
    }
}

/// The published form, without its state.
///
/// # Errors
/// Why it is not published; `None`: its controller has not come to it yet, or it has no network.
fn published(
    object: &Object,
    namespace: &str,
    viewer: &Viewer,
    site: &Site,
) -> Result<PublishedViewer, Option<String>> {
    let Some(id) = AppId::for_viewer(namespace, &object.name_any()) else {
        // A viewer without networking may have such a name.
        let is_reached = viewer.networking.is_some();
        return Err(is_reached.then(|| "its name is no label of a host".to_owned()));
    };
    let mount = site.mount_of(&id);
    let path = format!("{mount}/");
    let networking = viewer.networking.as_ref();
    if networking.is_some_and(|networking| networking.prefix != path) {
        let prefix = site.viewers_prefix.as_deref().unwrap_or_default();
        let what = format!("its basePrefix is not {prefix}, the one of kubernetes.viewers");
        return Err(Some(what));
    }
    match object.status.get("url") {
        Some(Value::String(url)) if *url == path => {}
        Some(Value::Null) | None if object.status.is_null() || networking.is_none() => {
            return Err(None);
        }
        Some(Value::Null) | None => {
            let what = "its status has no url: its controller does not publish it";
            return Err(Some(what.to_owned()));
        }
        Some(_) => return Err(Some(format!("its status.url is not {path}"))),
    }
    let title = format!("{} in {namespace}", viewer.claim);
    Ok(PublishedViewer {
        id,
        title: shown(&title, MAX_TITLE),
        // The controller may publish a viewer without networking, at the path that its pod knows.
        rewrite: networking.map_or(PathRewrite::Keep, |it| rewrite(&it.rewrite, &mount)),
        timeout: networking.and_then(|networking| networking.timeout),
        stop: None,
    })
}

/// As a path prefix: a slash at its end makes no difference.
fn rewrite(written: &str, mount: &str) -> PathRewrite {
    match written.strip_suffix('/').unwrap_or(written) {
        prefix if prefix == mount => PathRewrite::Keep,
        prefix => PathRewrite::ReplacePrefix(prefix.into()),
    }
}

fn reported_stop(object: &Object) -> Option<ReportedStop> {
    if object.meta().deletion_timestamp.is_some() {
        return Some(ReportedStop {
            state: AppState::Stopping,
            message: "the viewer is being deleted".into(),
        });
    }
    let conditions = object.status.get("conditions").and_then(Value::as_array)?;
    let text = |condition: &Value, field: &str| {
        let text = condition.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    STOPS.iter().find_map(|(kind, state)| {
        let is_true = |condition: &&Value| {
            text(condition, "type") == *kind && text(condition, "status") == "True"
        };
        let condition = conditions.iter().find(is_true)?;
        Some(ReportedStop {
            state: *state,
            message: shown(&text(condition, "message"), MAX_MESSAGE).into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{cookie_names::CookieNames, site::WebOrigin};

    fn site() -> Site {
        let origin = WebOrigin::new(true, "gw.test", 443);
        Site {
            viewers_prefix: Some("/pvcviewers".into()),
            ..Site::with_default_paths(origin, CookieNames::new(true, "c", &[]))
        }
    }

    fn observed(spec: Value, status: Value, before: Option<&WatchedViewer>) -> WatchedViewer {
        let metadata = json!({ "name": "v", "namespace": "team" });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        let object = serde_json::from_value(object).expect("an object");
        read(&object, "team", &site(), before)
    }

    fn spec(networking: Value) -> Value {
        json!({ "pvc": "data", "networking": networking })
    }

    fn accepted() -> Value {
        json!({ "url": "/pvcviewers/team/v/" })
    }

    #[test]
    fn a_viewer_is_published_at_its_own_path_once_its_status_has_it() {
        let ours = || spec(json!({ "basePrefix": "/pvcviewers", "timeout": "30s" }));
        let seen = observed(ours(), accepted(), None);
        let published = seen.published.expect("published");
        assert_eq!(published.id.as_str(), "team/v");
        assert_eq!(published.title, "data in team");
        assert_eq!(published.timeout, Some(Duration::from_secs(30)));
        assert_eq!(seen.problem, None);
        let other = spec(json!({ "basePrefix": "/other" }));
        for (spec, status, problem) in [
            (ours(), Value::Null, None),
            (
                ours(),
                json!({ "ready": false }),
                Some("its status has no url"),
            ),
            (
                ours(),
                json!({ "url": "/pvcviewers/team/w/" }),
                Some("its status.url is not /pvcviewers/team/v/"),
            ),
            (
                ours(),
                json!({ "url": 5 }),
                Some("its status.url is not /pvcviewers/team/v/"),
            ),
            (
                other.clone(),
                accepted(),
                Some("its basePrefix is not /pvcviewers"),
            ),
            (
                other,
                json!({ "url": "/other/team/v/" }),
                Some("its basePrefix is not /pvcviewers"),
            ),
            (spec(Value::Null), json!({ "ready": true }), None),
        ] {
            let seen = observed(spec, status.clone(), None);
            assert_eq!(seen.published, None, "{status}");
            match (problem, &seen.problem) {
                (Some(wanted), Some(found)) => assert!(found.starts_with(wanted), "{found}"),
                (wanted, found) => assert_eq!(wanted, found.as_deref(), "{status}"),
            }
        }
    }

    #[test]
    fn a_viewer_with_a_pod_of_its_own_is_published() {
        // The claim's name is the deepest value that the gateway reads.
        let claim = json!({ "name": "x", "persistentVolumeClaim": { "claimName": "data" } });
        let container = json!({ "name": "a", "env": [{ "name": "B", "value": "c" }] });
        let mut spec = spec(json!({ "basePrefix": "/pvcviewers" }));
        spec["podSpec"] = json!({ "containers": [container], "volumes": [claim] });
        let seen = observed(spec, accepted(), None);
        assert!(seen.published.is_some(), "{:?}", seen.problem);
    }

    #[test]
    fn the_rewrite_takes_the_place_of_the_mount() {
        let replaced = |prefix: &str| PathRewrite::ReplacePrefix(prefix.into());
        for (written, wanted) in [
            (json!("/"), PathRewrite::strip()),
            (json!("/newrewrite"), replaced("/newrewrite")),
            (json!("/newrewrite/"), replaced("/newrewrite")),
            (json!("/pvcviewers/team/v/"), PathRewrite::Keep),
            (json!("/pvcviewers/team/v"), PathRewrite::Keep),
            (Value::Null, PathRewrite::Keep),
        ] {
            let networking = json!({ "basePrefix": "/pvcviewers", "rewrite": written });
            let seen = observed(spec(networking), accepted(), None);
            let rewrite = seen.published.map(|published| published.rewrite);
            assert_eq!(rewrite, Some(wanted), "{written}");
        }
        // The controller gives a viewer without networking the path that its pod knows.
        let seen = observed(spec(Value::Null), accepted(), None);
        assert_eq!(
            seen.published.map(|published| published.rewrite),
            Some(PathRewrite::Keep)
        );
    }

    #[test]
    fn the_state_comes_from_conditions_and_pods() {
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "message": format!("because {kind}") });
        for (conditions, ready, wanted, message) in [
            (json!([]), true, AppState::Running, None),
            (json!([]), false, AppState::Starting, None),
            (
                json!([condition("Ready", "False")]),
                true,
                AppState::Running,
                None,
            ),
            (
                json!([condition("Idle", "False")]),
                true,
                AppState::Running,
                None,
            ),
            (
                json!([condition("Ready", "False"), condition("Idle", "True")]),
                true,
                AppState::Idle,
                Some("because Idle"),
            ),
            (
                json!([condition("VolumeInUse", "True")]),
                false,
                AppState::Stopped,
                Some("because VolumeInUse"),
            ),
            (
                json!([
                    condition("Idle", "True"),
                    condition("PodSpecRejected", "True")
                ]),
                false,
                AppState::Failed,
                Some("because PodSpecRejected"),
            ),
            (json!("Idle"), false, AppState::Starting, None),
        ] {
            let mut status = accepted();
            status["conditions"] = conditions;
            let networking = json!({ "basePrefix": "/pvcviewers" });
            let seen = observed(spec(networking), status.clone(), None);
            let published = seen.published.expect("published");
            assert_eq!(published.state(ready), wanted, "{status}");
            assert_eq!(published.message(), message, "{status}");
        }
    }

    #[test]
    fn an_invalid_viewer_keeps_its_last_valid_form_with_its_current_state() {
        let good = observed(
            spec(json!({ "basePrefix": "/pvcviewers" })),
            accepted(),
            None,
        );
        let invalid = json!({
            "conditions": [{ "type": "Invalid", "status": "True", "message": "no claim" }],
        });
        let seen = observed(json!({ "pvc": "" }), invalid.clone(), Some(&good));
        assert_eq!(seen.problem.as_deref(), Some("PVC name must be specified"));
        let kept = seen.published.expect("kept");
        assert_eq!(kept.state(true), AppState::Failed);
        assert_eq!(kept.message(), Some("no claim"));
        let seen = observed(json!({ "pvc": "" }), invalid, None);
        assert_eq!(seen.published, None);
    }
}
