//! Installed apps (ApplicationInstallations) whose definitions publish a Service.
//!
//! An app is published as soon as its installation exists; until it is deployed, its page has the
//! reason. The upstream is the ready pods of a Service of its release.
//!
//! Invariant: an app is reachable only while, by its status, the current spec is accepted, the
//! release is deployed, and its namespace is permitted. Only a Service that this release created in
//! that namespace is used. So neither the author of an installation nor other people of the
//! namespace can point its path at another Service. The access rule is the current one of the
//! definition.

mod release_services;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use kube::{Resource, ResourceExt};
use serde_json::Value;

use self::release_services::{ReleaseServices, WantedService};
use super::{
    namespace::{ObjectStore, namespaced_name},
    ready_pods::ReadyPods,
    shown_text::{MAX_MESSAGE, MAX_TITLE, shown},
};
use crate::{
    catalog::snapshot::Problem,
    cluster::{endpoint_slices::EndpointSlice, object::Object, watch::ObjectEvent},
    installs::controller::{annotations::target_name, settings::HOME_TARGET},
    model::{
        access::Access,
        app::{AppId, AppSpec, AppState, PathRewrite, Upstream, UpstreamScheme},
        dns,
    },
};

/// The message of an app whose release lacks the Service that its definition names.
const NO_SERVICE: &str = "its release has no such Service with a selector and this port";
/// The message of an app whose pods are not ready.
const NO_PODS: &str = "none of its pods is ready";

/// The installations and definitions of a cluster that were listed so far.
pub struct WatchedInstallations {
    /// One store for each watched scope.
    installations: Vec<ObjectStore<Installation>>,
    definitions: ObjectStore<ExposedDefinition>,
    /// The Services of releases.
    pub services: ReleaseServices,
}

/// The part of a definition that publishing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExposedDefinition {
    title: String,
    /// `None`: its installations are not published.
    expose: Option<Result<Expose, String>>,
}

/// The Service of an app, and its access rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expose {
    service: String,
    port: u16,
    access: Access,
}

/// The part of an installation that publishing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Installation {
    namespace: String,
    name: String,
    definition: String,
    target: String,
    /// The namespace in which the controller permitted the app; empty: none.
    app_namespace: String,
    /// The release; empty: there is none.
    release: String,
    state: AppState,
    message: Option<String>,
}

impl WatchedInstallations {
    /// Without any list yet. `scopes` is the number of watches of installations.
    pub fn new(scopes: usize) -> WatchedInstallations {
        let stores = (0..scopes).map(|_| ObjectStore::keyed_by(namespaced_name));
        WatchedInstallations {
            installations: stores.collect(),
            definitions: ObjectStore::keyed_by(<Object as ResourceExt>::name_any),
            services: ReleaseServices::new(),
        }
    }

    /// Applies an event of the watch of this number. Returns whether it may change the snapshot.
    pub fn apply(&mut self, scope: usize, event: ObjectEvent) -> bool {
        let Some(store) = self.installations.get_mut(scope) else {
            return false;
        };
        store.apply(event, |object, _| {
            Some((namespaced_name(object), read(object)?))
        })
    }

    /// Applies an event of definitions. Returns whether it may change the snapshot.
    pub fn apply_definition(&mut self, event: ObjectEvent) -> bool {
        self.definitions.apply(event, |object, _| {
            Some((object.name_any(), read_definition(object)))
        })
    }

    /// Whether all were listed at least once.
    pub fn is_known(&self) -> bool {
        self.definitions.is_known()
            && self.services.is_known()
            && self.installations.iter().all(ObjectStore::is_known)
    }

    /// The slices of the Services of published apps, with their namespaces. Slices of other
    /// releases are left out, so that they cannot make an address contested.
    pub fn slices(&self) -> impl Iterator<Item = (&str, &EndpointSlice)> {
        let published: BTreeSet<(&str, &str)> = self
            .published()
            .into_values()
            .filter_map(|(installation, definition)| {
                let expose = definition.expose.as_ref()?.as_ref().ok()?;
                Some((&*installation.app_namespace, &*expose.service))
            })
            .collect();
        let slices = self.services.slices();
        slices.filter(move |(namespace, slice)| published.contains(&(*namespace, &*slice.service)))
    }

    /// Installations whose definitions publish them, in the order of their places.
    fn published(&self) -> BTreeMap<&str, (&Installation, &ExposedDefinition)> {
        let all = self.installations.iter().flat_map(ObjectStore::sorted);
        let published = all.filter_map(|(place, installation)| {
            let definition = self.definitions.get(&installation.definition)?;
            definition.expose.as_ref()?;
            Some((place, (installation, definition)))
        });
        published.collect()
    }

    /// The apps; problems are added to the list. `timeout` is the deadline for response headers.
    pub fn specs(
        &self,
        pods: &ReadyPods<'_>,
        timeout: Duration,
        problems: &mut Vec<Problem>,
    ) -> Vec<AppSpec> {
        let mut specs = Vec::new();
        for (place, (installation, definition)) in self.published() {
            match self.spec(installation, definition, pods, timeout) {
                Ok(spec) => {
                    if let Access::Unknown(rule) = &spec.access {
                        let what = format!("{rule:?} is no access rule: everybody is denied");
                        problems.push(problem(place, &what, true));
                    }
                    specs.push(spec);
                }
                Err(what) => problems.push(problem(place, &what, false)),
            }
        }
        specs
    }

    /// # Errors
    /// The reason why it is not published.
    fn spec(
        &self,
        installation: &Installation,
        definition: &ExposedDefinition,
        pods: &ReadyPods<'_>,
        timeout: Duration,
    ) -> Result<AppSpec, String> {
        let Some(expose) = &definition.expose else {
            return Err("its definition does not publish it".to_owned());
        };
        let expose = expose.as_ref().map_err(Clone::clone)?;
        let Installation {
            namespace,
            name,
            app_namespace,
            ..
        } = installation;
        let Some(id) = AppId::for_installation(namespace, name) else {
            return Err("its name is no label of a host".to_owned());
        };
        if installation.target != HOME_TARGET {
            return Err(format!("it is on the target {:?}", installation.target));
        }
        let Reachable {
            pods,
            state,
            message,
        } = self.reachable(installation, expose, pods);
        let upstream = Upstream {
            scheme: UpstreamScheme::Pods(pods.into()),
            host: format!("{}.{app_namespace}.svc", expose.service).into(),
            port: expose.port,
        };
        let title = match definition.title == *name {
            true => name.clone(),
            false => format!("{} ({name})", definition.title),
        };
        Ok(AppSpec {
            name: Some(shown(&title, MAX_TITLE)),
            path_rewrite: PathRewrite::strip(),
            state,
            message: message
                .filter(|_| state != AppState::Running)
                .map(Into::into),
            ..AppSpec::new(id, upstream, expose.access.clone(), timeout)
        })
    }

    /// The pods and the state of an app.
    fn reachable<'a>(
        &self,
        installation: &'a Installation,
        expose: &Expose,
        pods: &ReadyPods<'_>,
    ) -> Reachable<'a> {
        let Installation {
            app_namespace,
            release,
            state,
            message,
            ..
        } = installation;
        let unreachable = |state, message| Reachable {
            pods: Vec::new(),
            state,
            message,
        };
        if *state != AppState::Running {
            return unreachable(*state, message.as_deref());
        }
        if app_namespace.is_empty() || release.is_empty() {
            return unreachable(AppState::Starting, None);
        }
        let service = &expose.service;
        let port = self.services.port_name(WantedService {
            namespace: app_namespace,
            service,
            port: expose.port,
            release,
        });
        let Some(port) = port else {
            return unreachable(AppState::Failed, Some(NO_SERVICE));
        };
        let ready = pods.ready_addresses(app_namespace, service, |ports| {
            let mut ports = ports.iter();
            let found = ports.find(|(name, _)| name == port);
            found.map(|(_, number)| *number)
        });
        match ready.addresses.is_empty() {
            true => unreachable(AppState::Starting, Some(NO_PODS)),
            false => Reachable {
                pods: ready.addresses,
                state: AppState::Running,
                message: None,
            },
        }
    }
}

/// The pods of an app, or the reason why there are none.
struct Reachable<'a> {
    pods: Vec<SocketAddr>,
    state: AppState,
    message: Option<&'a str>,
}

fn problem(place: &str, what: &str, kept: bool) -> Problem {
    Problem {
        id: format!("/{place}"),
        object: format!("ApplicationInstallation {place}"),
        what: what.to_owned(),
        kept,
    }
}

fn text<'o>(value: &'o Value, path: &str) -> &'o str {
    let found = value.pointer(path).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn read(object: &Object) -> Option<Installation> {
    // From the status, which only the controller writes; labels and annotations are the author's.
    let placement = &object.status["placement"];
    let target = match text(placement, "/target") {
        "" => target_name(object),
        target => target,
    };
    let (state, message) = state(object);
    Some(Installation {
        namespace: object.meta().namespace.clone()?,
        name: object.name_any(),
        definition: text(&object.spec, "/applicationRef/name").to_owned(),
        target: target.to_owned(),
        app_namespace: text(placement, "/namespace").to_owned(),
        release: text(&object.status, "/helmRelease/name").to_owned(),
        state,
        message: message.map(|message| shown(&message, MAX_MESSAGE)),
    })
}

fn state(object: &Object) -> (AppState, Option<String>) {
    if object.meta().deletion_timestamp.is_some() {
        let message = "the app is being removed".to_owned();
        return (AppState::Stopping, Some(message));
    }
    let conditions = &object.status["conditions"];
    let generation = object.meta().generation.unwrap_or_default();
    let is_current = |kind: &str| {
        let observed = conditions[kind]["observedGeneration"].as_i64();
        observed.unwrap_or_default() == generation
    };
    let is_accepted = text(conditions, "/Accepted/status") == "True" && is_current("Accepted");
    let is_deployed = text(&object.status, "/helmRelease/info/status") == "deployed";
    // After a failed upgrade the previous release stays in use.
    if is_accepted && is_deployed {
        return (AppState::Running, None);
    }
    let message = |kind: &str| {
        let message = text(conditions, &format!("/{kind}/message"));
        (!message.is_empty()).then(|| message.to_owned())
    };
    for kind in ["Accepted", "Ready", "ManifestsRetrieved"] {
        let is_false = text(conditions, &format!("/{kind}/status")) == "False";
        if is_false && is_current(kind) {
            return (AppState::Failed, message(kind));
        }
    }
    (AppState::Starting, message("Ready"))
}

fn read_definition(object: &Object) -> ExposedDefinition {
    let title = text(&object.spec, "/displayName");
    let expose = object.spec.get("expose").filter(|it| !it.is_null());
    ExposedDefinition {
        title: match title.is_empty() {
            true => object.name_any(),
            false => title.to_owned(),
        },
        expose: expose.map(read_expose),
    }
}

/// # Errors
/// The mistake because of which nothing is published.
fn read_expose(expose: &Value) -> Result<Expose, String> {
    let service = text(expose, "/service");
    if !dns::is_label(service.as_bytes(), dns::MAX_LABEL) {
        return Err("expose.service of its definition is no name of a Service".to_owned());
    }
    let port = expose["port"]
        .as_u64()
        .and_then(|it| u16::try_from(it).ok());
    let Some(port) = port.filter(|port| *port > 0) else {
        return Err("expose.port of its definition is no port".to_owned());
    };
    Ok(Expose {
        service: service.to_owned(),
        port,
        // An unknown rule refuses all requests.
        access: Access::parse(text(expose, "/access")),
    })
}

#[cfg(test)]
mod tests;
