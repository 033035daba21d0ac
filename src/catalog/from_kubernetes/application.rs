//! Parses a `PhApplication` part by part, so that an invalid part affects only itself and is
//! reported.

use kube::ResourceExt;
use serde::Deserialize;
use serde_json::Value;

use super::{
    access_annotation,
    shown_text::{MAX_MESSAGE, MAX_TITLE, shown},
};
use crate::{
    cluster::crd::application::{ACCESS_ANNOTATION, ASSERTION_ANNOTATION, PhApplicationSpec},
    cluster::object::Object,
    model::{
        access::{Access, GroupName},
        app::{AppId, AppState},
        vhost::HostLabel,
    },
    route::host::{RESERVED_ID, is_reserved},
};

/// The API server's limit for all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The last version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedApp {
    /// The published form; `None`: no version was valid so far.
    pub published: Option<PublishedApp>,
    /// The problem of the current version.
    pub problem: Option<String>,
    /// The owning group, independent of the access rule.
    pub group: Option<GroupName>,
}

/// An app that can be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedApp {
    /// Title on pages.
    pub title: String,
    /// The parts that always take effect at once.
    pub live: LiveRule,
    /// The HTTP port of its Service.
    pub port: u16,
    /// The Service's name for that port, where the object has one.
    port_name: Option<String>,
    /// Remove the prefix before forwarding.
    pub rewrite: bool,
    /// Send a signed token that names the person.
    pub assertion: bool,
}

/// Access rule and state. They are taken from the current version, even if other parts of it are
/// invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRule {
    /// The access rule.
    pub access: Access,
    /// The reason for the state.
    pub message: Option<Box<str>>,
    phase: ControllerPhase,
    stop: bool,
}

/// The phase in the status, which the controller writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerPhase {
    /// No phase, or one that does not prevent requests.
    Unspecified,
    Stopping,
    Stopped,
    Error,
}

impl PublishedApp {
    /// The state of the app. Readiness comes from its pods, not from the phase; `stop` is the
    /// owner's wish.
    pub fn state(&self, has_ready_pods: bool) -> AppState {
        match (self.live.phase, self.live.stop, has_ready_pods) {
            (ControllerPhase::Stopped, _, _) => AppState::Stopped,
            (ControllerPhase::Stopping, _, _)
            | (ControllerPhase::Unspecified | ControllerPhase::Error, true, true) => {
                AppState::Stopping
            }
            (ControllerPhase::Unspecified | ControllerPhase::Error, true, false) => {
                AppState::Stopped
            }
            (ControllerPhase::Unspecified | ControllerPhase::Error, false, true) => {
                AppState::Running
            }
            (ControllerPhase::Unspecified, false, false) => AppState::Starting,
            (ControllerPhase::Error, false, false) => AppState::Failed,
        }
    }

    /// The pods' port behind `httpPort`, found by the Service's port name. Slices have the pods'
    /// port numbers while `httpPort` is the Service's, so numbers are compared only if there is no
    /// name.
    pub fn port_of(&self, ports: &[(String, u16)]) -> Option<u16> {
        let is_it = |(name, port): &&(String, u16)| match &self.port_name {
            Some(wanted) => name == wanted,
            None => *port == self.port,
        };
        ports.iter().find(is_it).map(|(_, port)| *port)
    }
}

/// Parses an object. If it is invalid, its last valid form stays in force, except for the access
/// rule and the state: they always come from the current version, and an unknown rule denies.
pub fn read(object: &Object, before: Option<&ObservedApp>) -> ObservedApp {
    let (access, problem) = access(object);
    let live = live_rule(object, access);
    let group = object
        .spec
        .get("groupName")
        .and_then(Value::as_str)
        .and_then(GroupName::new);
    match published_app(object, live.clone()) {
        Ok(published) => ObservedApp {
            published: Some(published),
            problem,
            group,
        },
        // Valid: an app without a page.
        Err(Wrong::NoPort) => ObservedApp {
            published: None,
            problem: Some("it has no httpPort: there is nothing to open".to_owned()),
            group,
        },
        Err(Wrong::Because(what)) => ObservedApp {
            published: before
                .and_then(|seen| seen.published.clone())
                .map(|published| PublishedApp { live, ..published }),
            problem: Some(what),
            group,
        },
    }
}

/// Never fails: absent or mistyped parts have no effect.
fn live_rule(object: &Object, access: Access) -> LiveRule {
    let status = |name: &str| object.status.get(name).and_then(Value::as_str);
    LiveRule {
        access,
        message: status("message").map(|message| shown(message, MAX_MESSAGE).into()),
        phase: match status("phase") {
            Some("Stopping") => ControllerPhase::Stopping,
            Some("Stopped") => ControllerPhase::Stopped,
            Some("Error") => ControllerPhase::Error,
            Some(_) | None => ControllerPhase::Unspecified,
        },
        stop: object.spec.get("stop") == Some(&Value::Bool(true)),
    }
}

/// The reasons for which an object is not published.
enum Wrong {
    NoPort,
    Because(String),
}

impl From<String> for Wrong {
    fn from(what: String) -> Wrong {
        Wrong::Because(what)
    }
}

/// The access rule, and what is wrong with it: by the annotation, else by the scope. Never fails:
/// what cannot be read denies.
fn access(object: &Object) -> (Access, Option<String>) {
    if let Some(annotation) = object.annotations().get(ACCESS_ANNOTATION) {
        let (access, problem) = access_annotation::read(annotation);
        let why = |what| format!("its annotation {ACCESS_ANNOTATION} {what}: everybody is denied");
        return (access, problem.map(why));
    }
    let access = by_scope(&object.spec);
    let problem = problem_of(&access);
    (access, problem)
}

/// The access rule of a scope. An absent or mistyped one denies.
fn by_scope(spec: &Value) -> Access {
    let text = |name: &str| spec.get(name).and_then(Value::as_str);
    match text("scope") {
        Some("public") => Access::Public,
        Some("primehub") => Access::User,
        Some("group") => match text("groupName").and_then(GroupName::new) {
            Some(group) => Access::Group(group),
            None => Access::Unknown("group without a groupName".into()),
        },
        Some(other) => Access::Unknown(shown(other, MAX_TITLE).into()),
        None => Access::Unknown("no scope".into()),
    }
}

fn problem_of(access: &Access) -> Option<String> {
    match access {
        Access::Unknown(written) => Some(format!(
            "scope {written:?} is not understood: everybody is denied"
        )),
        Access::Public
        | Access::User
        | Access::Group(_)
        | Access::Owner(_)
        | Access::Admins
        | Access::Person(_)
        | Access::Compound(_) => None,
    }
}

fn published_app(object: &Object, live: LiveRule) -> Result<PublishedApp, Wrong> {
    let name = object.name_any();
    if AppId::new(&name).is_none() {
        let what = "its name is no app's: lower-case letters, digits and inner dashes, at most 59";
        return Err(what.to_owned().into());
    }
    if is_reserved(&name) {
        return Err(format!("its name {RESERVED_ID}").into());
    }
    let annotations: usize = object
        .annotations()
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if annotations > MAX_ANNOTATIONS {
        return Err(format!("its annotations are longer than {MAX_ANNOTATIONS} bytes").into());
    }
    let spec = PhApplicationSpec::deserialize(&object.spec).map_err(|error| {
        format!(
            "its spec cannot be read: {}",
            shown(&error.to_string(), MAX_TITLE)
        )
    })?;
    let port = match spec.http_port {
        None => return Err(Wrong::NoPort),
        Some(port) => u16::try_from(port).ok().filter(|port| *port != 0),
    };
    let port = port.ok_or_else(|| "its httpPort is none: 1 to 65535".to_owned())?;
    let title = shown(&spec.display_name, MAX_TITLE);
    Ok(PublishedApp {
        title: if title.is_empty() { name } else { title },
        live,
        port,
        port_name: port_name(&spec.svc_template.spec, port)?,
        rewrite: spec.rewrite.unwrap_or(false),
        assertion: assertion(object)?,
    })
}

/// The annotation, as `kubectl annotate` writes it.
fn assertion(object: &Object) -> Result<bool, String> {
    match object.annotations().get(ASSERTION_ANNOTATION) {
        None => Ok(false),
        Some(text) => text.parse().map_err(|_| {
            let written = shown(text, MAX_TITLE);
            format!("its annotation {ASSERTION_ANNOTATION} is neither true nor false: {written:?}")
        }),
    }
}

/// The Service's name for the port; empty for an unnamed port.
fn port_name(service: &Value, port: u16) -> Result<Option<String>, String> {
    let ports = service
        .get("ports")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_it = |entry: &&Value| {
        let number = entry.get("port").and_then(Value::as_u64);
        let protocol = entry.get("protocol").and_then(Value::as_str);
        number == Some(u64::from(port)) && protocol.is_none_or(|protocol| protocol == "TCP")
    };
    let Some(entry) = ports.iter().find(is_it) else {
        return Ok(None);
    };
    match entry.get("name") {
        None | Some(Value::Null) => Ok(Some(String::new())),
        Some(Value::String(name)) if HostLabel::new(name.as_bytes()).is_some() => {
            Ok(Some(name.clone()))
        }
        Some(_) => Err("its svcTemplate gives the port a name that no port has".to_owned()),
    }
}
