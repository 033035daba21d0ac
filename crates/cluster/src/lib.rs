//! The Kubernetes API as Ludgate uses it: a client with deadlines, watches that never publish a
//! partial list, and the custom resources (`crd`).
//!
//! Invariant: only controllers, labs and the API write to Kubernetes, by a [`writer::Writer`].
//! Controllers also write their Lease and the certificate of their webhook.

pub mod conditions;
pub mod crd;
pub mod deadline;
pub mod endpoint_slices;
pub mod merge_patch;
pub mod object;
pub mod pod_logs;
mod staleness;
pub mod watch;
mod watch_stream;
pub mod writer;

use std::{fmt, path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};

use ludgate_model::clock::Clock;

use staleness::Staleness;

/// Deadline for a connection to the API; after it a new attempt is more likely to succeed.
const CONNECT: Duration = Duration::from_secs(4);

/// The cluster and the namespaces that are read.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Namespaces whose apps are published. If two have an app of one name, the first wins.
    pub namespaces: Vec<String>,
    /// The kubeconfig file; `None`: the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Watches are reopened after this time, so that a dead connection is noticed.
    pub watch: Duration,
}

impl ClusterSettings {
    /// Longest silence on a call before the connection counts as dead: a quarter longer than a
    /// watch lasts.
    pub fn call_timeout(&self) -> Duration {
        self.watch + (self.watch / 4).max(Duration::from_secs(1))
    }
}

/// The reasons for which no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig is unreadable or invalid.
    #[error("kubernetes.kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The process is not in a pod, and no kubeconfig is configured.
    #[error(
        "kubernetes: no service account of a pod is here, and kubernetes.kubeconfig is not set: {0}"
    )]
    NotInAPod(#[from] kube::config::InClusterError),
    /// The client cannot be built, such as from an invalid CA.
    #[error("kubernetes: {0}")]
    Client(#[from] kube::Error),
}

/// The API of one cluster. Clones share connections.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    streaming_client: Client,
    config: Config,
    settings: ClusterSettings,
    watches: Staleness,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Makes the clients without a call to the API. Must run on the control runtime.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn new(settings: ClusterSettings, clock: Clock) -> Result<Cluster, ClusterError> {
        let mut config = match &settings.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            None => Config::incluster()?,
        };
        config.connect_timeout = Some(CONNECT);
        // Callers retry themselves: the client's own retries may wait for minutes, or for as long
        // as a server demands.
        config.default_retry = false;
        // A followed log may be silent for hours.
        let streaming_client = ClientBuilder::try_from(config.clone())?.build();
        config.read_timeout = Some(settings.call_timeout());
        let client = ClientBuilder::try_from(config.clone())?.build();
        Ok(Cluster {
            client,
            streaming_client,
            config,
            settings,
            watches: Staleness::new(clock),
        })
    }

    /// The client for calls and watches. Its reads time out after
    /// [`ClusterSettings::call_timeout`].
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client without a read timeout, for streams. Callers must set their own deadlines.
    pub fn streaming_client(&self) -> &Client {
        &self.streaming_client
    }

    /// The configuration of the client: the address of the API server, its CA, and credentials.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings that the client was made from.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// The time since the stalest watch last heard from the API.
    pub fn staleness(&self) -> Duration {
        self.watches.oldest()
    }

    fn watches(&self) -> &Staleness {
        &self.watches
    }
}
