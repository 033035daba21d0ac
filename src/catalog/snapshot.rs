//! The site and its apps at one moment, as requests see them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{hub_routes::HubRoutes, lookup::Lookup};
use crate::{
    model::{
        access::GroupName,
        app::{App, AppId, AppSpec, Isolation},
        site::Site,
        vhost::{HostLabel, VirtualHost},
    },
    route::host::{HostTarget, parse_label},
};

/// The site and its apps. Immutable; a change is a new snapshot.
#[derive(Debug)]
pub struct Snapshot {
    site: Arc<Site>,
    /// The apps on paths. Any client can look up ids, but only operators add apps, and each lab
    /// needs an account and a namespace, so a fast hash without DoS protection is safe.
    apps: HashMap<AppId, Arc<App>, RandomState>,
    /// The apps and their published ports on hosts.
    hosts: HashMap<HostLabel, Arc<App>, RandomState>,
    /// The labs among the apps on paths, by username.
    labs: HashMap<Box<str>, Arc<App>, RandomState>,
    /// The routes of a hub, which change without a new snapshot.
    hub_routes: Option<Arc<HubRoutes>>,
    problems: Vec<Problem>,
    /// The group that each object of a cluster belongs to, independent of its access rule: by
    /// namespace, then by name.
    groups: HashMap<Box<str>, HashMap<Box<str>, GroupName>>,
    /// All of these groups.
    named: HashSet<GroupName>,
    complete: bool,
}

/// An app that is not published as its author wrote it, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The app's id.
    pub id: String,
    /// The object that defines it, such as `hub/mlflow`.
    pub object: String,
    /// What is wrong with it.
    pub what: String,
    /// Whether its last valid form is still published.
    pub kept: bool,
}

impl Snapshot {
    /// A snapshot of these apps. Of two apps with one id the later wins; the configuration refuses
    /// duplicates.
    pub fn new(site: Arc<Site>, specs: impl IntoIterator<Item = AppSpec>) -> Snapshot {
        Snapshot::build(site, specs, None)
    }

    /// A first snapshot, before its source is listed completely: missing apps may still appear.
    pub fn incomplete(site: Arc<Site>, specs: impl IntoIterator<Item = AppSpec>) -> Snapshot {
        Snapshot {
            complete: false,
            ..Snapshot::build(site, specs, None)
        }
    }

    /// The same snapshot with the routes of a hub. Later snapshots have them too.
    pub fn with_hub_routes(self, hub_routes: Option<Arc<HubRoutes>>) -> Snapshot {
        Snapshot { hub_routes, ..self }
    }

    /// The next snapshot. An unchanged app keeps its `Arc`, and with it its connections.
    pub fn followed_by(
        &self,
        specs: impl IntoIterator<Item = AppSpec>,
        problems: Vec<Problem>,
        groups: HashMap<Box<str>, HashMap<Box<str>, GroupName>>,
    ) -> Snapshot {
        let named = groups.values().flat_map(HashMap::values).cloned().collect();
        Snapshot {
            problems,
            groups,
            named,
            ..Snapshot::build(self.site.clone(), specs, Some(self))
        }
    }

    /// The next snapshot with other apps of the file, before the other source is listed completely.
    pub fn still_incomplete(&self, specs: impl IntoIterator<Item = AppSpec>) -> Snapshot {
        Snapshot {
            complete: false,
            ..Snapshot::build(self.site.clone(), specs, Some(self))
        }
    }

    fn build(
        site: Arc<Site>,
        specs: impl IntoIterator<Item = AppSpec>,
        before: Option<&Snapshot>,
    ) -> Snapshot {
        let specs: Vec<AppSpec> = specs.into_iter().collect();
        let on_host = |label: &HostLabel, spec: &AppSpec| {
            let old = before.and_then(|before| before.hosts.get(label));
            // The host may have been that of a port of another app.
            let old = old.filter(|app| *app.id() == spec.id);
            let same = old.filter(|app| app.spec == *spec);
            same.cloned()
                .unwrap_or_else(|| Arc::new(follows(old, App::on_host(spec.clone()))))
        };
        let mut hosts = HashMap::default();
        if site.apps_domain.is_some() {
            // A published port takes precedence over an app with the same label.
            let names = specs
                .iter()
                .filter_map(|spec| Some((own_label(spec)?, spec)));
            hosts.extend(names.map(|(label, spec)| (label, on_host(&label, spec))));
            for spec in &specs {
                let ports = spec.published_ports.iter();
                hosts.extend(ports.filter_map(|published| {
                    let label = published_label(&spec.id, published.port)?;
                    Some((label, on_host(&label, &spec.port(published)?)))
                }));
            }
        }
        let taken: HashSet<HostLabel> = hosts
            .iter()
            .filter(|(label, app)| app.id().as_str() != label.as_str())
            .map(|(label, _)| *label)
            .collect();
        let apps: HashMap<AppId, Arc<App>, RandomState> = specs
            .into_iter()
            .map(|spec| {
                let own = own_label(&spec)
                    .filter(|label| site.apps_domain.is_some() && !taken.contains(label));
                let old = before.and_then(|before| before.apps.get(&spec.id));
                let same = old.filter(|app| app.spec == spec && app.host == own);
                let id = spec.id.clone();
                let hosted = || {
                    let mut app = follows(old, App::hosted(spec, site.mount_of(&id), own));
                    // Both addresses of the app lead to its upstreams, which are checked once.
                    if let Some(on_host) = own.and_then(|label| hosts.get(&label)) {
                        app.upstream_health = on_host.upstream_health.clone();
                        app.group = on_host.group.clone();
                    }
                    Arc::new(app)
                };
                let app = same.cloned().unwrap_or_else(hosted);
                (id, app)
            })
            .collect();
        let labs: HashMap<Box<str>, Arc<App>, RandomState> = apps
            .iter()
            .filter_map(|(id, app)| Some((id.lab_username()?.into(), app.clone())))
            .collect();
        Snapshot {
            site,
            apps,
            hosts,
            labs,
            hub_routes: before.and_then(|before| before.hub_routes.clone()),
            problems: Vec::new(),
            groups: HashMap::new(),
            named: HashSet::new(),
            complete: true,
        }
    }

    /// The site.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The app of that id, on its path.
    pub fn find(&self, id: &str) -> Option<&Arc<App>> {
        self.apps.get(id)
    }

    /// The lab of a person.
    pub fn lab(&self, username: &str) -> Option<&Arc<App>> {
        self.labs.get(username)
    }

    /// The routes of a hub, if one may add them.
    pub fn hub_routes(&self) -> Option<&HubRoutes> {
        self.hub_routes.as_deref()
    }

    /// The app, or the port of an app, that has this host.
    pub fn at_host(&self, label: &HostLabel) -> Option<&Arc<App>> {
        self.hosts.get(label)
    }

    /// What is at a virtual host, as far as this snapshot knows.
    pub fn at(&self, vhost: &VirtualHost) -> Lookup {
        match vhost {
            VirtualHost::Site => Lookup::Site,
            VirtualHost::Host(label) => match parse_label(label) {
                HostTarget::Broken => Lookup::Malformed,
                HostTarget::Port(..) | HostTarget::Bare(_) => Lookup::Unknown,
                HostTarget::Name(_) => self
                    .at_host(label)
                    .map_or(Lookup::Unknown, |app| Lookup::App(app.clone())),
            },
            VirtualHost::Port(_) => Lookup::Unassigned,
        }
    }

    /// All apps, in no order.
    pub fn apps(&self) -> impl Iterator<Item = &Arc<App>> {
        self.apps.values()
    }

    /// All apps as they are published: on paths, on hosts, and published ports.
    pub fn published(&self) -> impl Iterator<Item = &Arc<App>> {
        self.apps.values().chain(self.hosts.values())
    }

    /// The published ports of an app, with the hosts they are at.
    pub fn ports_of(&self, app: &App) -> impl Iterator<Item = (HostLabel, &Arc<App>)> {
        app.spec.published_ports.iter().filter_map(|published| {
            let label = published_label(app.id(), published.port)?;
            Some((label, self.hosts.get(&label)?))
        })
    }

    /// Why an app has no host of its own although hosts are served; for operators.
    pub fn note_on(&self, app: &App) -> Option<String> {
        if self.site.apps_domain.is_none() || app.host.is_some() {
            return None;
        }
        let other = own_label(&app.spec).and_then(|label| self.hosts.get(&label))?;
        Some(format!(
            "its host is that of {}, which publishes that port: it has its path only",
            other.id()
        ))
    }

    /// The apps that are not published as they were written.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The group that an object of a cluster belongs to; `None`: there is no such object, or it has
    /// none.
    pub fn group_of(&self, namespace: &str, name: &str) -> Option<&GroupName> {
        self.groups.get(namespace)?.get(name)
    }

    /// Whether any object of a cluster belongs to this group.
    pub fn has_group(&self, group: &GroupName) -> bool {
        self.named.contains(group)
    }

    /// Whether another snapshot has the same content.
    pub fn is_same_as(&self, other: &Snapshot) -> bool {
        let same = |a: &Arc<App>, b: Option<&Arc<App>>| b.is_some_and(|b| Arc::ptr_eq(a, b));
        self.complete == other.complete
            && self.apps.len() == other.apps.len()
            && self.hosts.len() == other.hosts.len()
            && self
                .apps
                .iter()
                .all(|(id, app)| same(app, other.apps.get(id)))
            && self
                .hosts
                .iter()
                .all(|(label, app)| same(app, other.hosts.get(label)))
            && self.problems == other.problems
            && self.groups == other.groups
    }

    /// Whether its sources are listed completely: an app that is missing here does not exist.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How many apps there are.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }
}

/// The label of an app's own host; `None`: it has its path only.
fn own_label(spec: &AppSpec) -> Option<HostLabel> {
    match spec.isolation {
        Isolation::Path => None,
        Isolation::Both | Isolation::Host => HostLabel::new(spec.id.as_str().as_bytes()),
    }
}

/// The label of a published port; `None` when it would be longer than a label can be.
pub fn published_label(id: &AppId, port: u16) -> Option<HostLabel> {
    HostLabel::new(format!("{id}-{port}").as_bytes())
}

/// A changed app keeps its load, the times of its last use and report, its health, and what was
/// learned about its trailing slash and about upstreams that it still has. A failure of the old
/// upstream thus ends with the first response of the new one.
fn follows(old: Option<&Arc<App>>, app: App) -> App {
    match old {
        Some(old) => App {
            group: match (&app.group, &old.group) {
                (Some(group), Some(old)) => Some(group.following(old)),
                (Some(_), None) | (None, _) => app.group.clone(),
            },
            load: old.load.clone(),
            activity: old.activity.clone(),
            trailing_slash: old.trailing_slash.clone(),
            stray_requests: old.stray_requests.clone(),
            upstream_health: old.upstream_health.clone(),
            ..app
        },
        None => app,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use http::uri::PathAndQuery;

    use super::*;
    use crate::model::{
        access::Access,
        app::{PublishedPort, Upstream, UpstreamScheme},
        cookie_names::CookieNames,
        health_check::HealthCheck,
        site::WebOrigin,
    };

    /// The default site, with hosts of apps.
    fn site_with_hosts() -> Arc<Site> {
        let mut site = Site::with_default_paths(
            WebOrigin::new(true, "gw.test", 443),
            CookieNames::new(true, "c", &[]),
        );
        site.apps_domain = Some("svc.test".into());
        Arc::new(site)
    }

    fn at_host<'s>(snapshot: &'s Snapshot, label: &str) -> &'s Arc<App> {
        let label = HostLabel::new(label.as_bytes()).expect("a label");
        snapshot.at_host(&label).expect("an app")
    }

    fn spec(id: &str, ports: &[u16]) -> AppSpec {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "10.0.0.1".into(),
            port: 5000,
        };
        let publish = |port: &u16| PublishedPort {
            port: *port,
            access: Access::User,
            label: None,
            upstream: None,
        };
        AppSpec {
            published_ports: ports.iter().map(publish).collect(),
            ..AppSpec::new(
                AppId::new(id).expect("an id"),
                upstream,
                Access::Public,
                Duration::from_secs(1),
            )
        }
    }

    #[test]
    fn a_published_port_has_its_host_before_an_app_of_that_name() {
        let apps = [spec("web-80", &[]), spec("web", &[80, 443])];
        let snapshot = Snapshot::new(site_with_hosts(), apps);
        let at = |label: &str| {
            let label = HostLabel::new(label.as_bytes()).expect("a label");
            snapshot
                .at_host(&label)
                .map(|app| format!("{} {}", app.id(), app.spec.upstream))
        };
        assert_eq!(at("web").as_deref(), Some("web http://10.0.0.1:5000"));
        assert_eq!(at("web-80").as_deref(), Some("web:80 http://10.0.0.1"));
        assert_eq!(
            at("web-443").as_deref(),
            Some("web:443 http://10.0.0.1:443")
        );
        assert_eq!(at("web-81"), None);
        let shadowed = snapshot.find("web-80").expect("on its path");
        assert!(shadowed.host.is_none());
        let note = snapshot.note_on(shadowed).expect("a reason");
        assert!(note.contains("web:80"), "{note}");
        let whole = snapshot.find("web").expect("on its path");
        assert_eq!(
            whole.host.map(|label| label.to_string()).as_deref(),
            Some("web")
        );
        assert!(snapshot.note_on(whole).is_none());
        assert_eq!(snapshot.ports_of(whole).count(), 2);
    }

    #[test]
    fn an_app_with_a_path_only_has_no_host_and_its_published_ports_have_theirs() {
        let path_only = AppSpec {
            isolation: Isolation::Path,
            ..spec("web", &[80])
        };
        let snapshot = Snapshot::new(site_with_hosts(), [path_only, spec("both", &[])]);
        let has_host = |label: &str| {
            let label = HostLabel::new(label.as_bytes()).expect("a label");
            snapshot.at_host(&label).is_some()
        };
        assert_eq!(["web", "web-80", "both"].map(has_host), [false, true, true]);
        let app = snapshot.find("web").expect("on its path");
        assert!(app.host.is_none() && snapshot.note_on(app).is_none());
    }

    #[test]
    fn an_app_that_gets_a_host_has_one_health_of_its_upstreams_at_both_addresses() {
        let spec = |isolation| AppSpec {
            isolation,
            health: Some(HealthCheck {
                path: PathAndQuery::from_static("/"),
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(1),
                failures: 1,
            }),
            ..spec("web", &[])
        };
        let first = Snapshot::new(site_with_hosts(), [spec(Isolation::Path)]);
        let next = first.followed_by([spec(Isolation::Both)], Vec::new(), HashMap::new());
        let (path, host) = (next.find("web").expect("an app"), at_host(&next, "web"));
        let groups = [path, host].map(|app| app.group.clone().expect("a group"));
        let record = groups[0].members()[0].check.as_ref().expect("a check");
        record.record(Err("refused".to_owned()), 1, Instant::now());
        assert_eq!(groups.map(|group| group.failing()), [1, 1]);
        path.upstream_health.fail("refused", &"", Instant::now());
        assert!(host.upstream_health.is_failing());
    }

    #[test]
    fn an_app_on_the_host_of_an_earlier_port_takes_over_nothing_from_it() {
        let apps = |ports: &[u16]| [spec("web-80", &[]), spec("web", ports)];
        let first = Snapshot::new(site_with_hosts(), apps(&[80]));
        let port = at_host(&first, "web-80");
        assert_eq!(port.id().as_str(), "web:80");
        port.upstream_health.fail("refused", &"", Instant::now());
        let next = first.followed_by(apps(&[]), Vec::new(), HashMap::new());
        let app = at_host(&next, "web-80");
        assert_eq!(app.id().as_str(), "web-80");
        assert!(!app.upstream_health.is_failing());
    }

    #[test]
    fn a_lab_is_an_app_on_its_path_that_is_found_by_its_username() {
        let mut site = Site::with_default_paths(
            WebOrigin::new(true, "gw.test", 443),
            CookieNames::new(true, "c", &[]),
        );
        site.apps_domain = Some("svc.test".into());
        site.labs_prefix = Some("/nb/user".into());
        let lab = AppSpec {
            id: AppId::for_lab("rachel").expect("an id"),
            ..spec("rachel", &[])
        };
        let snapshot = Snapshot::new(Arc::new(site), [lab, spec("bob", &[])]);
        let found = snapshot.lab("rachel").expect("a lab");
        assert_eq!(&*found.mount, "/nb/user/rachel");
        assert!(found.host.is_none(), "it has no host of its own");
        assert!(
            snapshot
                .find("lab:rachel")
                .is_some_and(|app| Arc::ptr_eq(app, found))
        );
        assert!(snapshot.find("rachel").is_none());
        assert!(snapshot.lab("bob").is_none(), "an app is no lab");
        let next = snapshot.followed_by([spec("bob", &[])], Vec::new(), HashMap::new());
        assert!(next.lab("rachel").is_none());
    }
}
