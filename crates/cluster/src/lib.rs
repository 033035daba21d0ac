//! The Kubernetes API as Ludgate uses it: a client with deadlines, watches that never keep half a
//! truth, and the custom resources (`crd`).
//!
//! Invariant: nothing here writes to Kubernetes.

mod changes;
pub mod crd;
pub mod endpoint_slices;
mod heard;
pub mod object;
pub mod pod_logs;
pub mod watch;

use std::{fmt, path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};

use ludgate_model::clock::Clock;

use heard::Silences;

/// The API is reached within this time, or another try may do better.
const CONNECT: Duration = Duration::from_secs(4);

/// Where the API is, and what is read there.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The namespaces whose apps are published; of two apps of one name the first's counts.
    pub namespaces: Vec<String>,
    /// How to reach the API; `None`: as a pod does, by its service account.
    pub kubeconfig: Option<PathBuf>,
    /// A watch is opened anew after this long, so that a dead one is noticed.
    pub watch: Duration,
}

impl ClusterSettings {
    /// A call may be silent for so long, a quarter longer than a watch lasts: then nobody is there.
    pub fn patience(&self) -> Duration {
        self.watch + (self.watch / 4).max(Duration::from_secs(1))
    }
}

/// Why the API cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum NoCluster {
    /// The kubeconfig cannot be used.
    #[error("kubernetes.kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Not in a pod, and no kubeconfig given.
    #[error(
        "kubernetes: no service account of a pod is here, and kubernetes.kubeconfig is not set: {0}"
    )]
    NotInAPod(#[from] kube::config::InClusterError),
    /// The certificates cannot be used.
    #[error("kubernetes: {0}")]
    Client(#[from] kube::Error),
}

/// The API of one cluster. Cloning gives the same.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    patient: Client,
    settings: ClusterSettings,
    silences: Silences,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Makes the client; asks nobody yet. To be called on the control runtime.
    ///
    /// # Errors
    /// See [`NoCluster`].
    pub async fn new(settings: ClusterSettings, clock: Clock) -> Result<Cluster, NoCluster> {
        let mut config = match &settings.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            None => Config::incluster()?,
        };
        config.connect_timeout = Some(CONNECT);
        // Callers retry by themselves: the client's own retries wait for minutes, or for as long as
        // a server demands.
        config.default_retry = false;
        // What is followed may be silent for hours.
        let patient = ClientBuilder::try_from(config.clone())?.build();
        config.read_timeout = Some(settings.patience());
        let client = ClientBuilder::try_from(config)?.build();
        Ok(Cluster {
            client,
            patient,
            settings,
            silences: Silences::new(clock),
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client that waits for as long as it takes; who uses it sets the deadline of each call.
    pub fn patient(&self) -> &Client {
        &self.patient
    }

    /// Where the API is, and what is read there.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// How long ago the API last told something of what it has told nothing of for longest.
    pub fn silence(&self) -> Duration {
        self.silences.longest()
    }

    fn silences(&self) -> &Silences {
        &self.silences
    }
}
