//! Watches one kind of object in one namespace, for ever: list, changes, and again from the beginning whenever
//! something may have been missed.
//!
//! Invariant: what cannot be read is never skipped. An event that was lost could be somebody's access.

use std::{fmt, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use kube::{
    Api,
    api::ApiResource,
    runtime::watcher::{self, Event, watcher},
};
use tokio::sync::mpsc;

use super::{Cluster, endpoint_slices, object::Object};

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Objects that wait to be looked at.
const QUEUE: usize = 512;

/// What a watch says.
#[derive(Debug)]
pub enum Told {
    /// All objects follow, from the beginning.
    Begin,
    /// One of all.
    Listed(Box<Object>),
    /// Those were all.
    Complete,
    /// One is new, or changed.
    Changed(Box<Object>),
    /// One is gone.
    Gone(Box<Object>),
}

/// What is watched.
#[derive(Clone, Debug)]
pub enum Watched {
    /// Objects of this kind.
    Kind(ApiResource),
    /// EndpointSlices, in the version that the cluster serves.
    EndpointSlices,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watched::Kind(kind) => f.write_str(&kind.plural),
            Watched::EndpointSlices => f.write_str("endpointslices"),
        }
    }
}

impl Cluster {
    /// Begins to watch in a task of its own, which ends when the receiver is dropped.
    pub fn watch(&self, watched: Watched, namespace: &str) -> mpsc::Receiver<Told> {
        let (tell, told) = mpsc::channel(QUEUE);
        let watch = Watch { cluster: self.clone(), watched, namespace: namespace.to_owned(), tell };
        tokio::spawn(watch.keep_on());
        told
    }
}

struct Watch {
    cluster: Cluster,
    watched: Watched,
    namespace: String,
    tell: mpsc::Sender<Told>,
}

/// How a run of the watcher ended.
enum Ended {
    /// Something may have been missed, or the API could not be asked.
    Failed,
    /// Nobody listens any more.
    Unheard,
}

impl Watch {
    async fn keep_on(self) {
        let builder = ExponentialBuilder::default()
            .with_min_delay(PAUSES.0)
            .with_max_delay(PAUSES.1)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        let mut pauses = builder.build();
        let mut said = false;
        loop {
            let mut worked = false;
            match self.run(&mut worked, &mut said).await {
                Ended::Unheard => return,
                Ended::Failed => {
                    if worked {
                        pauses = builder.build();
                    }
                    let pause = pauses.next().unwrap_or(PAUSES.1);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.tell.closed() => return,
                    }
                }
            }
        }
    }

    /// One run, from a list on. `worked` tells whether it saw a whole list.
    async fn run(&self, worked: &mut bool, said: &mut bool) -> Ended {
        let kind = match &self.watched {
            Watched::Kind(kind) => kind.clone(),
            Watched::EndpointSlices => match endpoint_slices::version(self.cluster.client()).await {
                Ok(kind) => kind,
                Err(error) => return self.failed(&error, said),
            },
        };
        let api: Api<Object> = Api::namespaced_with(self.cluster.client().clone(), &self.namespace, &kind);
        let lasts = u32::try_from(self.cluster.settings().watch.as_secs()).unwrap_or(u32::MAX).max(1);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default().timeout(lasts)));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.tell.closed() => return Ended::Unheard,
            };
            let told = match event {
                Some(Ok(Event::Init)) => Told::Begin,
                Some(Ok(Event::InitApply(object))) => Told::Listed(Box::new(object)),
                Some(Ok(Event::InitDone)) => {
                    *worked = true;
                    if std::mem::take(said) {
                        tracing::info!(what = %self.watched, namespace = self.namespace, "the Kubernetes API answers again");
                    }
                    Told::Complete
                }
                Some(Ok(Event::Apply(object))) => Told::Changed(Box::new(object)),
                Some(Ok(Event::Delete(object))) => Told::Gone(Box::new(object)),
                // The watcher would go on behind what it could not read, so it is begun anew, with a list.
                Some(Err(error)) => return self.failed(&error, said),
                None => return Ended::Failed,
            };
            if self.tell.send(told).await.is_err() {
                return Ended::Unheard;
            }
        }
    }

    /// Says once that it failed, until it works again.
    fn failed(&self, error: &dyn std::error::Error, said: &mut bool) -> Ended {
        let (what, namespace) = (&self.watched, &self.namespace);
        if std::mem::replace(said, true) {
            tracing::debug!(%what, %namespace, %error, "the Kubernetes API cannot be watched");
        } else {
            tracing::warn!(%what, %namespace, %error, "the Kubernetes API cannot be watched; the last state stays in force");
        }
        Ended::Failed
    }
}
