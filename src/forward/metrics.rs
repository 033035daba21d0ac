//! The metrics of the forwarder.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

use super::fault::Fault;
use crate::{
    model::app::App,
    ops::{
        metrics::{AppLabels, Registry},
        request_metrics::DeadlineMetrics,
    },
};

/// Maximum number of apps with a label of their own. Further ones share [`OTHER_APPS`].
const MAX_APPS: usize = 1000;
/// The label of all other apps. No id begins with an underscore.
const OTHER_APPS: &str = "_other";

/// `outcome` of a request that got no response from its app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaultLabels {
    outcome: &'static str,
}

/// The same, with the app.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppFaultLabels {
    app: String,
    outcome: &'static str,
}

/// Faults, with the labels that the settings ask for.
#[derive(Debug)]
enum FaultCounter {
    ByOutcome(Family<FaultLabels, Counter>),
    ByApp {
        faults: Family<AppFaultLabels, Counter>,
        /// The apps that have a label of their own. Locked for faults only.
        named: Mutex<HashSet<String>>,
    },
}

/// The metrics of connections to apps.
#[derive(Debug)]
pub struct ForwardMetrics {
    /// Open connections to apps.
    pub upstream_connections: Gauge,
    /// Missed deadlines of clients and apps.
    pub deadlines: DeadlineMetrics,
    faults: FaultCounter,
}

impl ForwardMetrics {
    /// Registers the metrics. The listener shares `deadlines`.
    pub fn register(
        registry: &Registry,
        deadlines: DeadlineMetrics,
        app_labels: AppLabels,
    ) -> ForwardMetrics {
        let upstream_connections = Gauge::default();
        registry.register(
            "upstream_connections",
            "Open connections to apps",
            upstream_connections.clone(),
        );
        ForwardMetrics {
            upstream_connections,
            deadlines,
            faults: FaultCounter::register(registry, app_labels),
        }
    }

    /// Counts a request that got no response from its app.
    pub(super) fn count_fault(&self, app: &App, fault: Fault) {
        self.faults.count(app, fault.reason());
    }
}

impl FaultCounter {
    fn register(registry: &Registry, app_labels: AppLabels) -> FaultCounter {
        let name = "upstream_faults";
        match app_labels {
            AppLabels::Off => {
                let faults = Family::<FaultLabels, Counter>::default();
                let help = "Requests that got no response from their app, by outcome";
                registry.register(name, help, faults.clone());
                FaultCounter::ByOutcome(faults)
            }
            AppLabels::On => {
                let faults = Family::<AppFaultLabels, Counter>::default();
                let help = "Requests that got no response from their app, by app and outcome";
                registry.register(name, help, faults.clone());
                FaultCounter::ByApp {
                    faults,
                    named: Mutex::default(),
                }
            }
        }
    }

    fn count(&self, app: &App, outcome: &'static str) {
        match self {
            FaultCounter::ByOutcome(faults) => {
                faults.get_or_create(&FaultLabels { outcome }).inc();
            }
            FaultCounter::ByApp { faults, named } => {
                let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
                let app = label(app, &mut named).to_owned();
                drop(named);
                faults.get_or_create(&AppFaultLabels { app, outcome }).inc();
            }
        }
    }
}

/// The label of an app: its id. Containers and routes of a hub come and go, ids of labs and viewers
/// may name people, and there may be many of all of them. So these share a label.
fn label<'a>(app: &'a App, named: &mut HashSet<String>) -> &'a str {
    let id = app.id();
    if app.is_hub_route()
        || app.attested().is_some()
        || id.lab_username().is_some()
        || id.is_viewer()
    {
        return OTHER_APPS;
    }
    // A published port is a part of its app.
    let id = id.as_str().split(':').next().unwrap_or_default();
    if named.contains(id) {
        return id;
    }
    if named.len() >= MAX_APPS {
        return OTHER_APPS;
    }
    named.insert(id.to_owned());
    id
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{
        access::Access,
        app::{AppId, AppSpec, Upstream, UpstreamScheme},
    };

    fn app(id: AppId) -> App {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "localhost".into(),
            port: 1,
        };
        App::on_host(AppSpec::new(
            id,
            upstream,
            Access::User,
            Duration::from_secs(1),
        ))
    }

    #[test]
    fn apps_have_labels_of_their_own_up_to_a_limit() {
        let id = |text: &str| AppId::new(text).expect("an id");
        let mut named = HashSet::new();
        for (app_id, wanted) in [
            (id("web"), "web"),
            (id("web").with_port(80), "web"),
            (AppId::for_lab("rachel").expect("an id"), OTHER_APPS),
            (AppId::for_viewer("team", "v").expect("an id"), OTHER_APPS),
            (
                AppId::for_installation("team", "web").expect("an id"),
                "/team/web",
            ),
        ] {
            assert_eq!(label(&app(app_id), &mut named), wanted);
        }
        for number in 0..2 * MAX_APPS {
            label(&app(id(&format!("app-{number}"))), &mut named);
        }
        assert_eq!(named.len(), MAX_APPS);
        assert_eq!(
            label(&app(id("web")), &mut named),
            "web",
            "it keeps its own"
        );
        assert_eq!(label(&app(id("late")), &mut named), OTHER_APPS);
    }

    #[test]
    fn faults_name_their_app_only_if_wanted() {
        for (app_labels, wanted) in [
            (
                AppLabels::Off,
                "ludgate_upstream_faults_total{outcome=\"upstream_refused\"} 1",
            ),
            (
                AppLabels::On,
                "ludgate_upstream_faults_total{app=\"web\",outcome=\"upstream_refused\"} 1",
            ),
        ] {
            let registry = Registry::new();
            let metrics =
                ForwardMetrics::register(&registry, DeadlineMetrics::default(), app_labels);
            let web = app(AppId::new("web").expect("an id"));
            metrics.count_fault(&web, Fault::Refused);
            let text = registry.render();
            assert!(text.lines().any(|line| line == wanted), "{text}");
        }
    }
}
