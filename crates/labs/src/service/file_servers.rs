//! File servers of people, and the pod for administrators of file systems.
//!
//! Their state is what the watches show, so reading it costs no call. Of several processes the one
//! with the Lease creates and deletes them. The Lease is another one than that of labs.

mod admin;
mod calls;
mod operations;
mod owned;
mod server_phase;
mod servers;
mod shared;

use std::{
    future,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Client, runtime::reflector::store::WriterDropped};
use ludgate_cluster::writer::Writer;
use ludgate_controllers::{leader::LeaderElector, watched::FirstLists};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::{lab_service::LabService, leadership::Leadership};
use crate::{
    config::{ContainerImage, LabsConfig},
    dialect::Dialect,
};
use admin::FilesystemAdminService;
pub use operations::{FileOperations, FileServerOperations, FilesystemAdminOperations};
use owned::{OwnedSelection, OwnedStores};
use servers::FileServerService;
use shared::{FileShared, locked};

/// Owner of the fields that the objects get.
const FIELD_MANAGER: &str = "ludgate-labs";

/// What file servers and the pod for administrators depend on besides the cluster.
#[derive(Clone, Debug)]
pub struct FileServicesSettings {
    /// The configuration.
    pub config: Arc<LabsConfig>,
    /// Image of the containers. Without it, there are neither file servers nor the pod.
    pub image: Option<ContainerImage>,
    /// Peers of NetworkPolicies that may connect to file servers.
    pub peers: Vec<Value>,
    /// Namespace of the Lease and of the pod for administrators.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Of this process. Two of one name would both lead.
    pub identity: String,
    /// How long a watch lasts.
    pub watch: Duration,
    /// Maximum number of calls to the API server at the same time.
    pub max_calls: usize,
}

/// File servers and the pod for administrators, as far as they are configured. Clones share them.
#[derive(Clone)]
pub struct FileServices(Arc<FileServicesInner>);

struct FileServicesInner {
    client: Client,
    settings: FileServicesSettings,
    shared: FileShared,
    servers: Option<FileServerService>,
    admin: Option<FilesystemAdminService>,
    /// Taken by [`FileServices::run`].
    changes: Mutex<Option<BoxStream<'static, ()>>>,
}

impl LabService {
    /// The file servers beside the labs. Only the dialect of Nublado has them.
    pub fn file_services(&self) -> FileServices {
        let settings = &self.0.settings;
        let image = settings.helper_image.clone();
        let is_nublado = settings.dialect == Dialect::Nublado;
        let is_wanted = settings.config.fileserver.is_some() || settings.config.fsadmin.is_enabled;
        if is_nublado && is_wanted && image.is_none() {
            tracing::warn!("file servers are configured, but there is no image for them");
        }
        FileServices::new(
            self.0.client.clone(),
            FileServicesSettings {
                config: settings.config.clone(),
                image: image.filter(|_| is_nublado),
                peers: settings.peers.clone(),
                namespace: settings.namespace.clone(),
                lease: format!("{}-files", settings.lease),
                identity: settings.identity.clone(),
                watch: settings.watch,
                max_calls: settings.max_calls,
            },
        )
    }
}

impl FileServices {
    /// What is configured. None of it is known before [`FileServices::run`].
    pub fn new(client: Client, settings: FileServicesSettings) -> FileServices {
        let config = &settings.config;
        let shared = FileShared {
            writer: Writer::new(client.clone(), FIELD_MANAGER),
            touched: Arc::new(watch::Sender::new(())),
            permits: Arc::new(Semaphore::new(settings.max_calls.max(1))),
            leadership: Leadership::default(),
            first_lists: FirstLists::default(),
        };
        let watched = |category: &'static str, namespace: &str| {
            let selection = OwnedSelection {
                category,
                namespace,
                length: settings.watch,
            };
            OwnedStores::watch(&client, selection)
        };
        let image = settings.image.as_ref();
        let mut changes = Vec::new();
        let servers = image
            .zip(config.fileserver.as_ref())
            .map(|(image, servers)| {
                let (stores, changed) = watched("fileserver", &servers.namespace);
                changes.push(changed);
                let config = config.clone();
                let (servers, image) = (servers.clone(), image.clone());
                let peers = settings.peers.clone();
                FileServerService::new(shared.clone(), stores, config, servers, image, peers)
            });
        let admin = image.filter(|_| config.fsadmin.is_enabled).map(|image| {
            let namespace = &settings.namespace;
            let (stores, changed) = watched("fsadmin", namespace);
            changes.push(changed);
            let config = config.clone();
            FilesystemAdminService::new(shared.clone(), stores, config, image, namespace)
        });
        let changes = match changes.is_empty() {
            true => None,
            false => Some(stream::select_all(changes).boxed()),
        };
        FileServices(Arc::new(FileServicesInner {
            client,
            settings,
            shared,
            servers,
            admin,
            changes: Mutex::new(changes),
        }))
    }

    /// What the routes use.
    pub fn operations(&self) -> FileOperations {
        let FileServicesInner { servers, admin, .. } = &*self.0;
        FileOperations {
            servers: servers
                .clone()
                .map(|servers| -> Arc<dyn FileServerOperations> { Arc::new(servers) }),
            admin: admin
                .clone()
                .map(|admin| -> Arc<dyn FilesystemAdminOperations> { Arc::new(admin) }),
        }
    }

    /// Whether this process creates and deletes.
    pub fn is_leading(&self) -> bool {
        self.0.shared.leadership.token().is_ok()
    }

    /// Follows the cluster, and works while it has the Lease, until `shutdown`. Ends at once if
    /// nothing is configured, and when it is called again.
    pub async fn run(self, shutdown: CancellationToken) {
        let inner = &*self.0;
        let Some(mut changes) = locked(&inner.changes).take() else {
            return;
        };
        let follow = async {
            while changes.next().await.is_some() {
                inner.shared.touched.send_replace(());
            }
        };
        let publish = async {
            // If the watches have ended, so does the process.
            let _ = inner.shared.first_lists.wait(self.all_listed()).await;
            future::pending::<()>().await;
        };
        let settings = &inner.settings;
        let elector = LeaderElector::new(
            inner.client.clone(),
            &settings.namespace,
            &settings.lease,
            settings.identity.clone(),
        );
        let lead = elector.run(
            watch::Sender::new(false),
            || self.lead(),
            shutdown.cancelled(),
        );
        tokio::select! {
            () = follow => tracing::error!("the watches of file servers have ended"),
            () = publish => {}
            () = lead => {}
        }
    }

    async fn all_listed(&self) -> Result<(), WriterDropped> {
        let FileServicesInner { servers, admin, .. } = &*self.0;
        let stores = [
            servers.as_ref().map(FileServerService::stores),
            admin.as_ref().map(FilesystemAdminService::stores),
        ];
        for stores in stores.into_iter().flatten() {
            stores.wait_until_ready().await?;
        }
        Ok(())
    }

    /// Works as the leader until it is dropped.
    async fn lead(&self) {
        let FileServicesInner {
            servers, shared, ..
        } = &*self.0;
        if shared.first_lists.wait(self.all_listed()).await.is_err() {
            // The watches have ended, and with them the process.
            return;
        }
        let leading = CancellationToken::new();
        let _until_lost = leading.clone().drop_guard();
        // From now on requests are taken.
        shared.leadership.begin(leading.clone());
        match servers {
            Some(servers) => servers.lead(&leading).await,
            None => future::pending().await,
        }
    }
}
