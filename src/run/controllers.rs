//! Wires a process of controllers together.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use kube::{api::ApiResource, core::GroupVersionKind, discovery, error::DiscoveryError};
use tokio::sync::watch;

use super::{
    admin_listener::{self, serve_admin},
    error::StartError,
    installations::InstallationTasks,
};
use crate::{
    cluster::Cluster,
    controllers::{
        application::{
            controller::ApplicationController, settings::ApplicationSettings, stores::OptionalKinds,
        },
        idle::{gateway_activity::GatewayActivity, poller::GatewayPoller, settings::IdleSettings},
        leader::LeaderElector,
        metrics::ReconcileMetrics,
        viewer::{controller::ViewerController, settings::ViewerSettings},
        webhook::{
            certificate_store::{CertificateStore, CurrentCertificate},
            object_rules::RulesSource,
            server::{ReviewedSettings, WebhookServer},
        },
    },
    installs::controller::{settings::InstallationSettings, webhook::InstallationWebhook},
    model::clock::Clock,
    ops::process::Process,
    settings::{ControllerSettings, WebhookSettings},
};

/// Pause before the cluster is asked again.
const RETRY: Duration = Duration::from_secs(2);

/// A running process of controllers.
pub struct RunningControllers {
    /// Its diagnostics and lifecycle.
    pub process: Process,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// The address of the webhook, if it is on.
    pub webhook: Option<SocketAddr>,
    /// Where the settings of its controllers are replaced.
    pub settings: ReplaceableSettings,
}

/// Settings of controllers that are replaced while they run. A controller that is off has none.
pub struct ReplaceableSettings {
    /// The controller of apps.
    pub applications: Option<watch::Sender<Arc<ApplicationSettings>>>,
    /// The controller of viewers.
    pub viewers: Option<watch::Sender<Arc<ViewerSettings>>>,
    /// The controller of installations.
    pub installations: Option<watch::Sender<Arc<InstallationSettings>>>,
}

impl ReplaceableSettings {
    /// Replaces all settings. Which controllers run does not change.
    pub fn replace(&self, settings: ControllerSettings) {
        replace(self.applications.as_ref(), settings.applications);
        replace(self.viewers.as_ref(), settings.viewers);
        replace(self.installations.as_ref(), settings.installations);
    }
}

fn replace<S>(sender: Option<&watch::Sender<Arc<S>>>, settings: Option<S>) {
    if let (Some(sender), Some(settings)) = (sender, settings) {
        sender.send_replace(Arc::new(settings));
    }
}

/// Starts the controllers on the current runtime. They work while this process, which `identity`
/// names, holds the lease.
///
/// # Errors
/// See [`StartError`].
pub async fn start_controllers(
    settings: ControllerSettings,
    identity: String,
) -> Result<RunningControllers, StartError> {
    let process = Process::new();
    let cluster = Cluster::new(settings.cluster, Clock::system()).await?;
    let metrics = ReconcileMetrics::register(&process.registry);
    let (leader_sender, is_leader) = watch::channel(false);
    let leading = move || if *is_leader.borrow() { "yes" } else { "no" }.to_owned();
    let configuration = process.configuration.clone();
    let server = process
        .admin(settings.admin.token)
        .dependency("configuration", move || Some(configuration.status()))
        .status("leading", leading);
    let admin = serve_admin(server, settings.admin.address)?;
    let applications = settings.applications.map(Arc::new).map(watch::channel);
    let (application_sender, applications) = applications.unzip();
    let viewers = settings.viewers.map(Arc::new).map(watch::channel);
    let (viewer_sender, viewers) = viewers.unzip();
    let installations = settings.installations.map(Arc::new).map(watch::channel);
    let (installation_sender, installations) = installations.unzip();
    let others = other_rules(&cluster, installations.as_ref());
    let installations = match installations {
        Some(settings) => Some(InstallationTasks::new(settings, &process.registry).await?),
        None => None,
    };
    let reviewed = ReviewedSettings {
        applications: applications.clone(),
        viewers: viewers.clone(),
    };
    let webhook = settings
        .webhook
        .map(|webhook| start_webhook(&process, &cluster, webhook, reviewed, others));
    let webhook = webhook.transpose()?;
    let home = cluster.settings().namespaces.first().cloned();
    let home = home.unwrap_or_default();
    let elector = LeaderElector::new(cluster.client().clone(), &home, &settings.lease, identity);
    let tasks = LeaderTasks {
        cluster,
        applications,
        viewers,
        installations,
        activity: poll_gateways(settings.idle, &process),
        metrics,
    };
    let mut drain = process.drain.watcher();
    tokio::spawn(async move {
        let stopping = async { drain.stopping().await };
        elector.run(leader_sender, || tasks.run(), stopping).await;
    });
    tracing::info!(%admin, "started");
    Ok(RunningControllers {
        process,
        admin,
        webhook,
        settings: ReplaceableSettings {
            applications: application_sender,
            viewers: viewer_sender,
            installations: installation_sender,
        },
    })
}

/// Serves the admission webhook, in every replica. The process is ready when it has a certificate.
/// Returns the address.
fn start_webhook(
    process: &Process,
    cluster: &Cluster,
    settings: WebhookSettings,
    reviewed: ReviewedSettings,
    others: Vec<Box<dyn RulesSource>>,
) -> Result<SocketAddr, StartError> {
    let listener = admin_listener::open(settings.address)?;
    let address = listener.local_addr()?;
    let certificate = Arc::new(CurrentCertificate::default());
    let store = CertificateStore::new(
        cluster.client().clone(),
        settings.certificate,
        certificate.clone(),
    );
    let namespaces = cluster.settings().namespaces.as_slice().into();
    let latch = process.ready.latch("webhook certificate");
    tokio::spawn(store.run(|| latch.release()));
    let server = WebhookServer::new(certificate, namespaces, reviewed, others);
    tokio::spawn(server.serve(listener));
    tracing::info!(%address, "serving the webhook");
    Ok(address)
}

/// The rules of kinds that the webhook does not know itself: those of installations.
fn other_rules(
    cluster: &Cluster,
    installations: Option<&watch::Receiver<Arc<InstallationSettings>>>,
) -> Vec<Box<dyn RulesSource>> {
    let rules = installations.map(|settings| {
        let client = cluster.client().clone();
        let namespaces = cluster.settings().namespaces.as_slice().into();
        let webhook = InstallationWebhook::new(client, namespaces, settings.clone());
        Box::new(webhook) as Box<dyn RulesSource>
    });
    rules.into_iter().collect()
}

/// Polls the gateways in every replica, so that a new leader knows the uses of apps.
fn poll_gateways(settings: Option<IdleSettings>, process: &Process) -> GatewayActivity {
    let Some(settings) = settings else {
        return GatewayActivity::disabled();
    };
    let poller = GatewayPoller::new(settings, Clock::system(), &process.registry);
    let activity = poller.activity();
    tokio::spawn(poller.run());
    activity
}

/// What the leader does.
struct LeaderTasks {
    cluster: Cluster,
    applications: Option<watch::Receiver<Arc<ApplicationSettings>>>,
    viewers: Option<watch::Receiver<Arc<ViewerSettings>>>,
    installations: Option<InstallationTasks>,
    activity: GatewayActivity,
    metrics: ReconcileMetrics,
}

impl LeaderTasks {
    async fn run(&self) {
        let others = join(self.run_viewers(), self.run_installations());
        join(self.run_applications(), others).await;
    }

    async fn run_installations(&self) {
        if let Some(installations) = &self.installations {
            installations.run(&self.cluster, &self.metrics).await;
        }
    }

    async fn run_applications(&self) {
        let Some(settings) = &self.applications else {
            return;
        };
        let optional_kinds = OptionalKinds {
            instance_types: self.find_kind("InstanceType").await,
            datasets: self.find_kind("Dataset").await,
        };
        let controllers = self.cluster.settings().namespaces.iter().map(|namespace| {
            let controller = ApplicationController {
                client: self.cluster.client().clone(),
                namespace: namespace.clone(),
                watch: self.cluster.settings().watch,
                settings: settings.clone(),
                optional_kinds: optional_kinds.clone(),
                metrics: self.metrics.for_controller("applications"),
            };
            controller.run()
        });
        join_all(controllers).await;
    }

    async fn run_viewers(&self) {
        let Some(settings) = &self.viewers else {
            return;
        };
        let controllers = self.cluster.settings().namespaces.iter().map(|namespace| {
            let controller = ViewerController {
                client: self.cluster.client().clone(),
                namespace: namespace.clone(),
                watch: self.cluster.settings().watch,
                settings: settings.clone(),
                activity: self.activity.clone(),
                metrics: self.metrics.for_controller("viewers"),
            };
            controller.run()
        });
        join_all(controllers).await;
    }

    /// A kind that PrimeHub defines, if the cluster has it.
    async fn find_kind(&self, name: &str) -> Option<ApiResource> {
        let kind = GroupVersionKind::gvk("primehub.io", "v1alpha1", name);
        loop {
            match discovery::pinned_kind(self.cluster.client(), &kind).await {
                Ok((resource, _)) => return Some(resource),
                Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => return None,
                Err(kube::Error::Api(status)) if status.code == 404 => return None,
                Err(error) => {
                    tracing::warn!(%error, "cannot ask the cluster for its kinds");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}
