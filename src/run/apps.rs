//! Starts the catalogue and its sources: the configuration file, an Arvados cluster, a Kubernetes
//! cluster.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{context::Context, error::StartError, identity::Identity};
use crate::{
    caller::source::CredentialSource,
    catalog::{
        Catalog, from_kubernetes::KubernetesSource, hub_routes::HubRoutes, metrics::CatalogMetrics,
        resolver::Resolver, snapshot::Snapshot,
    },
    cluster::{Cluster, pod_logs::PodLogs},
    identity::oidc::Oidc,
    integrations::arvados::{
        ArvadosSettings, client::Api, containers::Containers, credentials::ArvadosCredentials,
        tokens::ArvadosTokens,
    },
    model::{app::AppSpec, site::Site},
    ops::http_client::CallCounter,
    session::Sessions,
    settings::resolve_kubernetes::KubernetesSettings,
};

/// The settings of all sources.
pub(super) struct Sources {
    pub(super) site: Arc<Site>,
    /// The apps of the configuration file.
    pub(super) own: Vec<AppSpec>,
    pub(super) arvados: Option<ArvadosSettings>,
    pub(super) kubernetes: Option<KubernetesSettings>,
    /// Deadline for response headers of apps that set none.
    pub(super) response_head: Duration,
    /// The routes of a hub, if one may add them.
    pub(super) hub_routes: Option<Arc<HubRoutes>>,
}

/// The catalogue, with the credentials and logs of its sources.
pub(super) struct Apps {
    pub(super) catalog: Catalog,
    pub(super) credentials: Vec<Arc<dyn CredentialSource>>,
    pub(super) logs: Option<PodLogs>,
}

/// The apps of the configuration file, which may be replaced while the process runs.
pub(super) struct OwnApps {
    catalog: Catalog,
    /// `None`: there is no identity provider.
    oidc: Option<Arc<Oidc>>,
    specs: watch::Sender<Vec<AppSpec>>,
    /// The Kubernetes source publishes them together with the apps of the cluster.
    has_cluster: bool,
}

/// Makes the catalogue and starts its sources. Without a cluster it is complete at once.
pub(super) async fn start(
    sources: Sources,
    identity: &Identity,
    context: &Context,
) -> Result<(Apps, OwnApps), StartError> {
    keep_access_tokens(identity.oidc.as_deref(), &sources.own);
    let mut credentials = Vec::new();
    let mut resolver = None;
    if let Some(settings) = &sources.arvados {
        let arvados = arvados(settings, sources.response_head, &identity.sessions, context)?;
        resolver = Some(arvados.resolver);
        credentials.push(arvados.credentials);
    }
    let cluster = match &sources.kubernetes {
        Some(settings) => {
            Some(Cluster::new(settings.cluster.clone(), context.clock.clone()).await?)
        }
        None => None,
    };
    let own = sources.own.clone();
    let snapshot = match &cluster {
        Some(_) => Snapshot::incomplete(sources.site.clone(), own),
        None => Snapshot::new(sources.site.clone(), own),
    };
    let catalog = Catalog::new(
        snapshot.with_hub_routes(sources.hub_routes.clone()),
        resolver,
        context.policy_changes.clone(),
        Arc::new(CatalogMetrics::register(&context.process.registry)),
    );
    let specs = watch::Sender::new(sources.own.clone());
    let has_cluster = cluster.is_some();
    let mut logs = None;
    if let (Some(cluster), Some(settings)) = (cluster, &sources.kubernetes) {
        start_kubernetes(&cluster, settings, &sources, &catalog, &specs, context);
        logs = settings.logs.then(|| PodLogs::new(cluster));
    }
    let own = OwnApps {
        catalog: catalog.clone(),
        oidc: identity.oidc.clone(),
        specs,
        has_cluster,
    };
    let apps = Apps {
        catalog,
        credentials,
        logs,
    };
    Ok((apps, own))
}

/// The access tokens of people are kept only while an app gets them, and only apps of the file can.
fn keep_access_tokens(oidc: Option<&Oidc>, apps: &[AppSpec]) {
    if let Some(oidc) = oidc {
        oidc.keep_access_tokens(apps.iter().any(|app| app.pass_access_token));
    }
}

/// Arvados as a source of apps and of credentials.
struct Arvados {
    resolver: Arc<dyn Resolver>,
    credentials: Arc<dyn CredentialSource>,
}

fn arvados(
    settings: &ArvadosSettings,
    response_head: Duration,
    sessions: &Arc<Sessions>,
    context: &Context,
) -> Result<Arvados, StartError> {
    let calls = CallCounter::register(
        &context.process.registry,
        "arvados_requests",
        "Calls to the Arvados API server",
    );
    let api = Api::new(settings, calls)?;
    let containers = Containers::new(
        settings,
        api.as_system(settings),
        response_head,
        context.clock.clone(),
        context.control.clone(),
    );
    let tokens = ArvadosTokens::new(
        api,
        settings.accept_sign_in,
        sessions.clone(),
        context.clock.clone(),
        context.control.clone(),
    );
    Ok(Arvados {
        resolver: Arc::new(containers),
        credentials: Arc::new(ArvadosCredentials::new(Arc::new(tokens))),
    })
}

/// The process is not ready before the first complete list.
fn start_kubernetes(
    cluster: &Cluster,
    settings: &KubernetesSettings,
    sources: &Sources,
    catalog: &Catalog,
    specs: &watch::Sender<Vec<AppSpec>>,
    context: &Context,
) {
    let source = KubernetesSource::new(
        sources.site.clone(),
        specs.subscribe(),
        sources.response_head,
        settings.isolation,
        &settings.cluster.namespaces,
        settings.served_kinds(),
    );
    let first_list = context.process.ready.latch("the apps of the cluster");
    tokio::spawn(source.run(cluster.clone(), catalog.clone(), first_list));
}

impl OwnApps {
    /// Replaces the apps at once. Streams whose app is gone, or whose rule no longer admits the
    /// caller, are closed; all others continue.
    pub(super) fn replace(&self, apps: Vec<AppSpec>) {
        keep_access_tokens(self.oidc.as_deref(), &apps);
        let now = self.catalog.load();
        if !self.has_cluster {
            self.catalog
                .publish(now.followed_by(apps, Vec::new(), HashMap::new()));
            return;
        }
        if !now.is_complete() {
            // The Kubernetes source publishes nothing before its first complete list, and a
            // narrowed rule must not wait for that.
            self.catalog.publish(now.still_incomplete(apps.clone()));
        }
        self.specs.send_replace(apps);
    }
}
