//! The catalogue of a Kubernetes cluster: `PhApplication` and `PVCViewer` objects, installed apps,
//! labs, and the ready pods of their Services.
//!
//! The source watches and publishes whole snapshots. Nothing is published before all kinds were
//! listed once, and an incomplete list changes nothing. During an outage of the API the last state
//! stays in force.
//!
//! Invariant: the access rule in force is always the last one written. Other parts of an invalid
//! object keep their last valid form.

mod access_annotation;
pub mod access_template;
mod application;
mod installations;
pub mod labs;
mod namespace;
mod ready_pods;
mod shown_text;
mod viewer;
mod viewer_apps;

use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::ApiResource};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Catalog,
    snapshot::{Problem, Snapshot},
};
use crate::{
    cluster::{
        Cluster,
        crd::{
            application::{PhApplication, SERVICE_PREFIX},
            definition::ApplicationDefinition,
            installation::ApplicationInstallation,
            viewer::{PVCViewer, VIEWER_PREFIX},
        },
        endpoint_slices,
        watch::{ObjectEvent, WatchTarget},
    },
    installs::releases::workloads::HELM_LABEL,
    model::{
        app::{AppId, AppSpec, AppState, Isolation, PathRewrite, Upstream, UpstreamScheme},
        site::Site,
    },
    ops::readiness::Latch,
};
use access_template::{AccessTemplate, NamespaceMetadata};
use application::PublishedApp;
use installations::WatchedInstallations;
use labs::{LabSource, WatchedLabs};
use namespace::WatchedNamespace;
use ready_pods::ReadyPods;
use viewer_apps::ViewerDefaults;

/// Changes are gathered for this time after the first, and published together.
const GATHER: Duration = Duration::from_millis(20);
/// Pause between snapshots, as a multiple of the time that the last one took.
const REST: u32 = 5;
/// What is wrong with an annotation for which there are no keys.
const NO_ASSERTION_KEYS: &str =
    "its annotation ludgate/assertion has no effect: the gateway has no identity.assertion_keys";
/// Interval at which the age of the catalogue is measured.
const AGE_EVERY: Duration = Duration::from_secs(1);

/// Turns objects of a cluster into apps of the catalogue.
pub struct KubernetesSource {
    site: Arc<Site>,
    /// The apps of the configuration file, which take precedence over objects of the same name.
    own: watch::Receiver<Vec<AppSpec>>,
    /// Deadline for response headers.
    timeout: Duration,
    isolation: Isolation,
    namespaces: Vec<WatchedNamespace>,
    /// The access rule of viewers; `None`: they are not served.
    viewers: Option<AccessTemplate>,
    /// The installed apps; `None`: they are not served.
    installations: Option<WatchedInstallations>,
    /// Whether installations of all namespaces are watched.
    all_installations: bool,
    /// The labs of all namespaces; `None`: they are not served.
    labs: Option<WatchedLabs>,
}

/// The kinds of apps besides PhApplications; those that are `None` are not served.
#[derive(Default)]
pub struct ServedKinds {
    /// The access rule of viewers, which are served below `site.viewers_prefix`.
    pub viewers: Option<AccessTemplate>,
    /// Installed apps, which are served below `site.installs_prefix`.
    pub installations: Option<InstallationScope>,
    /// Labs, which are served below `site.labs_prefix`.
    pub labs: Option<LabSource>,
}

/// Whose installed apps are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallationScope {
    /// Those of the namespaces of the source.
    Namespaces,
    /// Those of all namespaces.
    All,
}

impl KubernetesSource {
    /// A source for these namespaces, without any list yet.
    pub fn new(
        site: Arc<Site>,
        own: watch::Receiver<Vec<AppSpec>>,
        timeout: Duration,
        isolation: Isolation,
        namespaces: &[String],
        served: ServedKinds,
    ) -> KubernetesSource {
        let ServedKinds {
            viewers,
            installations,
            labs,
        } = served;
        let all_installations = installations == Some(InstallationScope::All);
        let installations = installations.map(|scope| {
            WatchedInstallations::new(match scope {
                InstallationScope::Namespaces => namespaces.len(),
                InstallationScope::All => 1,
            })
        });
        let namespaces = namespaces
            .iter()
            .map(|name| WatchedNamespace::new(name, viewers.as_ref()))
            .collect();
        KubernetesSource {
            site,
            own,
            timeout,
            isolation,
            namespaces,
            viewers,
            installations,
            all_installations,
            labs: labs.map(WatchedLabs::new),
        }
    }

    /// Watches and publishes for as long as the process runs. `first` is released with the first
    /// complete snapshot.
    pub async fn run(mut self, cluster: Cluster, catalog: Catalog, first: Latch) {
        let mut first = Some(first);
        let mut events = self.watch(&cluster);
        let mut tick = tokio::time::interval(AGE_EVERY);
        let mut due: Option<Instant> = None;
        let mut rested = Instant::now();
        loop {
            tokio::select! {
                Some((index, kind, event)) = events.recv() => {
                    if self.apply(index, kind, event) {
                        due = due.or_else(|| Some(rested.max(Instant::now() + GATHER)));
                    }
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    let begun = Instant::now();
                    let next = self.snapshot(&catalog.load());
                    // Snapshots take at most a sixth of the time, however often objects change.
                    rested = Instant::now() + begun.elapsed() * REST;
                    if let Some(next) = next.filter(|next| !next.is_same_as(&catalog.load())) {
                        catalog.metrics().problems.set(i64::try_from(next.problems().len()).unwrap_or(i64::MAX));
                        if next.problems() != catalog.load().problems() {
                            log_new_problems(&next, &catalog.load());
                        }
                        catalog.publish(next);
                        if let Some(first) = first.take() {
                            first.release();
                            tracing::info!(apps = catalog.load().len(), "listed the apps of the cluster");
                        }
                    }
                }
                Ok(()) = self.own.changed() => {
                    due = due.or_else(|| Some(rested.max(Instant::now() + GATHER)));
                }
                _ = tick.tick() => { catalog.metrics().age.set(cluster.staleness().as_secs_f64()); },
            }
        }
    }

    /// Waits for the first complete lists, and returns their snapshot.
    pub async fn load_once(mut self, cluster: &Cluster) -> Snapshot {
        let empty = Snapshot::incomplete(self.site.clone(), Vec::new());
        let mut events = self.watch(cluster);
        while let Some((index, kind, event)) = events.recv().await {
            if self.apply(index, kind, event)
                && let Some(snapshot) = self.snapshot(&empty)
            {
                return snapshot;
            }
        }
        empty
    }

    /// Starts all watches, with one queue for their events.
    fn watch(&self, cluster: &Cluster) -> mpsc::Receiver<(usize, ObjectKind, ObjectEvent)> {
        let (sender, events) = mpsc::channel(1);
        let start = |index: usize, kind: ObjectKind, target: WatchTarget, namespace: &str| {
            let mut one = cluster.watch(target, namespace);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(event) = one.recv().await {
                    if sender.send((index, kind, event)).await.is_err() {
                        return;
                    }
                }
            });
        };
        for (index, namespace) in self.namespaces.iter().enumerate() {
            for (kind, target) in self.targets() {
                start(index, kind, target, namespace.name());
            }
        }
        if self.installations.is_some() {
            let installations = ApiResource::erase::<ApplicationInstallation>(&());
            let definitions = ApiResource::erase::<ApplicationDefinition>(&());
            let definitions = WatchTarget::Everywhere(definitions);
            start(0, ObjectKind::Definitions, definitions, "");
            let services = ApiResource::erase::<Service>(&());
            let label = HELM_LABEL.to_owned();
            let services = WatchTarget::LabeledEverywhere(services, label.clone());
            start(0, ObjectKind::ReleaseServices, services, "");
            let slices = WatchTarget::LabeledSlices(label);
            start(0, ObjectKind::ReleaseSlices, slices, "");
            if self.all_installations {
                let target = WatchTarget::Everywhere(installations);
                start(0, ObjectKind::Installations, target, "");
            } else {
                for (index, namespace) in self.namespaces.iter().enumerate() {
                    let target = WatchTarget::Kind(installations.clone());
                    start(index, ObjectKind::Installations, target, namespace.name());
                }
            }
        }
        if self.labs.is_some() {
            start(0, ObjectKind::Labs, WatchedLabs::target(), "");
        }
        events
    }

    /// What is watched in each namespace.
    fn targets(&self) -> Vec<(ObjectKind, WatchTarget)> {
        let apps = WatchTarget::Kind(ApiResource::erase::<PhApplication>(&()));
        let mut targets = vec![
            (ObjectKind::Apps, apps),
            (ObjectKind::Slices, WatchTarget::EndpointSlices),
        ];
        if let Some(access) = &self.viewers {
            let viewers = WatchTarget::Kind(ApiResource::erase::<PVCViewer>(&()));
            targets.push((ObjectKind::Viewers, viewers));
            if access.reads_namespaces() {
                targets.push((ObjectKind::Namespace, WatchTarget::Namespace));
            }
        }
        targets
    }

    /// Applies an event. Returns whether it may change the snapshot.
    fn apply(&mut self, index: usize, kind: ObjectKind, event: ObjectEvent) -> bool {
        // Labs are in namespaces that are not listed.
        if let (ObjectKind::Labs, Some(labs)) = (kind, &mut self.labs) {
            return labs.apply(event);
        }
        match (kind, &mut self.installations) {
            (ObjectKind::Installations, Some(all)) => return all.apply(index, event),
            (ObjectKind::Definitions, Some(all)) => return all.apply_definition(event),
            (ObjectKind::ReleaseServices, Some(all)) => return all.services.apply_service(event),
            (ObjectKind::ReleaseSlices, Some(all)) => return all.services.apply_slice(event),
            (_, _) => {}
        }
        let Some(namespace) = self.namespaces.get_mut(index) else {
            return false;
        };
        let serves_viewers = self.viewers.is_some();
        match kind {
            ObjectKind::Apps => namespace.apps.apply(event, |object, before| {
                Some((object.name_any(), application::read(object, before)))
            }),
            ObjectKind::Slices => namespace.slices.apply(event, |object, _| {
                // Slices of other Services are not stored.
                let slice = endpoint_slices::parse(object).filter(|slice| {
                    slice.service.starts_with(SERVICE_PREFIX)
                        || (serves_viewers && slice.service.starts_with(VIEWER_PREFIX))
                })?;
                Some((object.name_any(), slice))
            }),
            ObjectKind::Viewers => {
                let (site, name) = (&self.site, namespace.name().to_owned());
                namespace.viewers.apply(event, |object, before| {
                    let seen = viewer::read(object, &name, site, before);
                    Some((object.name_any(), seen))
                })
            }
            ObjectKind::Namespace => namespace.metadata.apply(event, |object, _| {
                let metadata = NamespaceMetadata {
                    labels: object.labels().clone(),
                    annotations: object.annotations().clone(),
                };
                Some((object.name_any(), metadata))
            }),
            ObjectKind::Labs
            | ObjectKind::Installations
            | ObjectKind::Definitions
            | ObjectKind::ReleaseServices
            | ObjectKind::ReleaseSlices => false,
        }
    }

    /// Whether all kinds were listed at least once.
    fn is_known(&self) -> bool {
        let installations = self.installations.as_ref();
        self.labs.as_ref().is_none_or(WatchedLabs::is_known)
            && installations.is_none_or(WatchedInstallations::is_known)
            && self.namespaces.iter().all(WatchedNamespace::is_known)
    }

    /// The current snapshot; `None` until all kinds were listed once.
    fn snapshot(&self, before: &Snapshot) -> Option<Snapshot> {
        if !self.is_known() {
            return None;
        }
        let mut problems = Vec::new();
        let mut specs = self.own.borrow().clone();
        let own: Vec<AppId> = specs.iter().map(|spec| spec.id.clone()).collect();
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        taken.extend(own.iter().map(|id| (id.as_str(), "the configuration file")));
        if let Some(label) = self.site.own_label() {
            taken.insert(label, "the site, whose host it would have");
        }
        let mut groups = HashMap::new();
        let pods = self.ready_pods();
        for namespace in &self.namespaces {
            let mut of_namespace = HashMap::new();
            for (name, seen) in namespace.apps.sorted() {
                of_namespace.extend(seen.group.clone().map(|group| (Box::from(name), group)));
                let object = format!("{}/{name}", namespace.name());
                let mut problem = |what: String, kept| {
                    problems.push(Problem {
                        id: name.to_owned(),
                        object: object.clone(),
                        what,
                        kept,
                    });
                };
                if let Some(what) = &seen.problem {
                    problem(what.clone(), seen.published.is_some());
                }
                if AppId::new(name).is_none() {
                    continue;
                }
                // An object owns its name even while it is invalid: another object must not take
                // over the address.
                match taken.entry(name) {
                    Entry::Occupied(other) => {
                        problem(format!("its name is taken by {}", other.get()), false);
                        continue;
                    }
                    Entry::Vacant(free) => free.insert(namespace.name()),
                };
                let Some(published) = &seen.published else {
                    continue;
                };
                let service = format!("{SERVICE_PREFIX}{name}");
                let ready = pods
                    .ready_addresses(namespace.name(), &service, |ports| published.port_of(ports));
                if ready.contested {
                    problem(
                        "some of its pods' addresses are also those of another app's pods: not used".into(),
                        true,
                    );
                }
                if published.assertion && !self.site.signs_assertions {
                    problem(NO_ASSERTION_KEYS.to_owned(), true);
                }
                specs.extend(self.spec(name, published, ready.addresses, namespace.name()));
            }
            groups.insert(namespace.name().into(), of_namespace);
        }
        // Ids of viewers, installations and labs have forms of their own, so they cannot take an
        // app's name.
        if let Some(access) = &self.viewers {
            let timeout = self.timeout;
            let defaults = ViewerDefaults { access, timeout };
            for namespace in &self.namespaces {
                let viewers = viewer_apps::specs(namespace, &pods, defaults, &mut problems);
                specs.extend(viewers);
            }
        }
        if let Some(installations) = &self.installations {
            specs.extend(installations.specs(&pods, self.timeout, &mut problems));
        }
        if let Some(labs) = &self.labs {
            specs.extend(labs.specs(&pods, self.timeout, &mut problems));
        }
        Some(before.followed_by(specs, problems, groups))
    }

    /// The pods of all apps, viewers, installed apps and labs.
    fn ready_pods(&self) -> ReadyPods<'_> {
        let in_namespaces = self.namespaces.iter().flat_map(|namespace| {
            let slices = namespace.slices.sorted();
            slices.map(move |(_, slice)| (namespace.name(), slice))
        });
        let installed = self.installations.iter();
        let installed = installed.flat_map(WatchedInstallations::slices);
        let labs = self.labs.iter().flat_map(WatchedLabs::slices);
        ReadyPods::new(in_namespaces.chain(installed).chain(labs))
    }

    fn spec(
        &self,
        name: &str,
        published: &PublishedApp,
        ready: Vec<SocketAddr>,
        namespace: &str,
    ) -> Option<AppSpec> {
        let state = published.state(!ready.is_empty());
        let upstream = Upstream {
            scheme: UpstreamScheme::Pods(ready.into()),
            host: format!("{SERVICE_PREFIX}{name}.{namespace}.svc").into(),
            port: published.port,
        };
        let message = published
            .live
            .message
            .clone()
            .filter(|_| state != AppState::Running);
        Some(AppSpec {
            name: Some(published.title.clone()),
            path_rewrite: match published.rewrite {
                true => PathRewrite::strip(),
                false => PathRewrite::Keep,
            },
            isolation: self.isolation,
            assertion: published.assertion,
            state,
            message,
            ..AppSpec::new(
                AppId::new(name)?,
                upstream,
                published.live.access.clone(),
                self.timeout,
            )
        })
    }
}

#[derive(Clone, Copy)]
enum ObjectKind {
    Apps,
    Slices,
    Viewers,
    Namespace,
    Labs,
    Installations,
    Definitions,
    /// Services of releases.
    ReleaseServices,
    /// EndpointSlices of these Services.
    ReleaseSlices,
}

/// Logs problems that are new; the whole list is at `GET /apps`.
fn log_new_problems(next: &Snapshot, before: &Snapshot) {
    let known: HashSet<(&str, &str)> = before
        .problems()
        .iter()
        .map(|problem| (&*problem.object, &*problem.what))
        .collect();
    for problem in next.problems() {
        if !known.contains(&(&*problem.object, &*problem.what)) {
            let Problem {
                object, what, kept, ..
            } = problem;
            tracing::warn!(%object, problem = %what, still_published = kept, "an app has an invalid definition");
        }
    }
}
