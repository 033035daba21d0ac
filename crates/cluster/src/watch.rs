//! A watch of one kind of object in one namespace, or in all: list, then changes, then a new list
//! whenever an event may have been missed. It never gives up.
//!
//! Invariant: an unreadable event is never skipped. It could be the one that revokes access.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api,
    api::{ApiResource, ListParams, WatchParams},
    core::Request,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Cluster, endpoint_slices,
    object::Object,
    staleness::LastContact,
    watch_stream::{StreamEvent, WatchError, WatchStream},
};

/// The first pause after a failure. Jitter doubles it at most.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// The longest pause, before jitter. An access rule that was revoked during an outage of the API
/// must take effect within five seconds of its return.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// A run of this length resets the backoff.
const STEADY: Duration = Duration::from_secs(10);
/// Least time between the starts of two watches.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest watch that the client accepts, in seconds.
const MAX_WATCH: u32 = 290;
/// Objects per page of a list.
const PAGE: u32 = 500;
/// Events that wait for the receiver.
const QUEUE: usize = 512;

/// An event of a watch, by kube-runtime's names.
#[derive(Debug)]
pub enum ObjectEvent {
    /// A list begins; the receiver discards any unfinished one.
    Init,
    /// An object of the list.
    InitApply(Box<Object>),
    /// The list is complete and replaces the previous state.
    InitDone,
    /// An object was added or changed.
    Apply(Box<Object>),
    /// An object was deleted.
    Delete(Box<Object>),
}

/// The kind of objects that a watch lists.
#[derive(Clone, Debug)]
pub enum WatchTarget {
    /// Objects of this kind.
    Kind(ApiResource),
    /// Objects of this kind, in all namespaces or in none.
    Everywhere(ApiResource),
    /// EndpointSlices, in the version that the cluster serves.
    EndpointSlices,
    /// EndpointSlices with this `key=value` label, in all namespaces.
    LabeledSlices(String),
    /// Objects of this kind with this `key=value` label, in all namespaces.
    LabeledEverywhere(ApiResource, String),
    /// The Namespace object itself. Its name is the field selector, so a ClusterRole with
    /// `resourceNames` suffices.
    Namespace,
    /// The nodes of the cluster. They are in no namespace.
    Nodes,
}

impl fmt::Display for WatchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchTarget::Kind(kind) | WatchTarget::Everywhere(kind) => f.write_str(&kind.plural),
            WatchTarget::LabeledEverywhere(kind, label) => {
                write!(f, "{} with {label}", kind.plural)
            }
            WatchTarget::EndpointSlices => f.write_str("endpointslices"),
            WatchTarget::LabeledSlices(label) => write!(f, "endpointslices with {label}"),
            WatchTarget::Namespace => f.write_str("namespaces"),
            WatchTarget::Nodes => f.write_str("nodes"),
        }
    }
}

impl Cluster {
    /// Starts a watch in a task of its own, which ends when the receiver is dropped.
    pub fn watch(&self, watched: WatchTarget, namespace: &str) -> mpsc::Receiver<ObjectEvent> {
        let (events, receiver) = mpsc::channel(QUEUE);
        let namespace = namespace.to_owned();
        let last_contact = self.watches().register();
        let watch = Watch {
            cluster: self.clone(),
            watched,
            namespace,
            last_contact,
            events,
        };
        tokio::spawn(watch.run_forever());
        receiver
    }
}

struct Watch {
    cluster: Cluster,
    watched: WatchTarget,
    namespace: String,
    last_contact: Arc<LastContact>,
    events: mpsc::Sender<ObjectEvent>,
}

/// The reason for the end of a run.
enum RunEnd {
    /// An event may have been missed, or the API could not be reached.
    Failed(WatchError),
    /// Events have no receiver any more.
    ReceiverDropped,
}

impl<E: Into<WatchError>> From<E> for RunEnd {
    fn from(error: E) -> RunEnd {
        RunEnd::Failed(error.into())
    }
}

impl Watch {
    async fn run_forever(self) {
        let builder = ExponentialBuilder::default()
            .with_min_delay(MIN_BACKOFF)
            .with_max_delay(MAX_BACKOFF)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        let mut pauses = builder.build();
        let mut first = true;
        let mut is_reported = false;
        loop {
            let began = Instant::now();
            // The run is cancelled at any await once the receiver is dropped.
            let ended = tokio::select! {
                Err(ended) = self.run(first, &mut is_reported) => ended,
                () = self.events.closed() => return,
            };
            let RunEnd::Failed(error) = ended else { return };
            first = false;
            self.failed(&error, &mut is_reported);
            // Only a long run resets the backoff: a watch that fails right after each list must
            // not list in a tight loop.
            if began.elapsed() > STEADY {
                pauses = builder.build();
            }
            let pause = pauses.next().unwrap_or(MAX_BACKOFF);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.events.closed() => return,
            }
        }
    }

    /// One list and the watches that continue it.
    async fn run(&self, first: bool, is_reported: &mut bool) -> Result<Infallible, RunEnd> {
        let api = self.api().await?;
        let mut version = self.list(&api, first).await?;
        if std::mem::take(is_reported) {
            tracing::info!(what = %self.watched, namespace = self.namespace, "the Kubernetes API is available again");
        }
        loop {
            let earliest = Instant::now() + MIN_INTERVAL;
            version = self.follow(&api, version).await?;
            // The next watch continues from that version. If watches end at once, they must not be
            // reopened at once.
            sleep_until(earliest).await;
        }
    }

    /// The objects that are watched.
    async fn api(&self) -> Result<Api<Object>, WatchError> {
        let client = self.cluster.client().clone();
        let kind = match &self.watched {
            WatchTarget::Kind(kind) => kind.clone(),
            WatchTarget::Everywhere(kind) | WatchTarget::LabeledEverywhere(kind, _) => {
                return Ok(Api::all_with(client, kind));
            }
            WatchTarget::EndpointSlices => self.slices().await?,
            WatchTarget::LabeledSlices(_) => {
                return Ok(Api::all_with(client, &self.slices().await?));
            }
            WatchTarget::Namespace => {
                return Ok(Api::all_with(client, &ApiResource::erase::<Namespace>(&())));
            }
            WatchTarget::Nodes => {
                return Ok(Api::all_with(client, &ApiResource::erase::<Node>(&())));
            }
        };
        Ok(Api::namespaced_with(client, &self.namespace, &kind))
    }

    /// EndpointSlices in the version that the cluster serves.
    async fn slices(&self) -> Result<ApiResource, WatchError> {
        let client = self.cluster.client();
        self.in_time(async { Ok(endpoint_slices::served_version(client).await?) })
            .await
    }

    /// The label selector, where not all objects of the kind are watched.
    fn labels(&self) -> Option<String> {
        match &self.watched {
            WatchTarget::LabeledSlices(label) | WatchTarget::LabeledEverywhere(_, label) => {
                Some(label.clone())
            }
            WatchTarget::Kind(_)
            | WatchTarget::Everywhere(_)
            | WatchTarget::EndpointSlices
            | WatchTarget::Namespace
            | WatchTarget::Nodes => None,
        }
    }

    /// The field selector, where not all objects of the kind are watched.
    fn fields(&self) -> Option<String> {
        match &self.watched {
            WatchTarget::Kind(_)
            | WatchTarget::Everywhere(_)
            | WatchTarget::EndpointSlices
            | WatchTarget::LabeledSlices(_)
            | WatchTarget::LabeledEverywhere(_, _)
            | WatchTarget::Nodes => None,
            WatchTarget::Namespace => Some(format!("metadata.name={}", self.namespace)),
        }
    }

    /// Lists all objects, and returns the version of the list.
    ///
    /// The first list may come from the server's cache, which takes half the time; the watch
    /// delivers what changed since. Later lists must be current, so that revoked access does not
    /// come back.
    async fn list(&self, api: &Api<Object>, first: bool) -> Result<String, RunEnd> {
        self.send(ObjectEvent::Init).await?;
        let all = ListParams {
            field_selector: self.fields(),
            label_selector: self.labels(),
            ..ListParams::default()
        };
        let of_now = all.clone().limit(PAGE);
        let mut page = if first {
            all.match_any()
        } else {
            of_now.clone()
        };
        loop {
            let list = self.in_time(async { Ok(api.list(&page).await?) }).await?;
            self.last_contact.touch();
            for object in list.items {
                self.send(ObjectEvent::InitApply(Box::new(object))).await?;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = of_now.clone().continue_token(&token),
                None => {
                    let version = list
                        .metadata
                        .resource_version
                        .filter(|version| !version.is_empty());
                    let version = version.ok_or(WatchError::MissingVersion)?;
                    self.send(ObjectEvent::InitDone).await?;
                    return Ok(version);
                }
            }
        }
    }

    /// Follows one watch to its end, and returns the last version seen.
    async fn follow(&self, api: &Api<Object>, mut version: String) -> Result<String, RunEnd> {
        let settings = self.cluster.settings();
        // The client rejects longer watches.
        let lasts = u32::try_from(settings.watch.as_secs())
            .unwrap_or(u32::MAX)
            .clamp(1, MAX_WATCH);
        let parameters = WatchParams {
            field_selector: self.fields(),
            label_selector: self.labels(),
            ..WatchParams::default().timeout(lasts)
        };
        let request = Request::new(api.resource_url()).watch(&parameters, &version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let mut changes = self
            .in_time(WatchStream::open(self.cluster.client(), request))
            .await?;
        self.last_contact.touch();
        // A watch that is silent for too long counts as ended: the next one repeats any event
        // that was lost.
        while let Ok(change) = timeout(settings.call_timeout(), changes.next()).await {
            let Some((change, at)) = change? else { break };
            self.last_contact.touch();
            match change {
                // Versions of one kind of object can be compared as numbers. An event of the
                // current version was applied already.
                StreamEvent::Apply(_) | StreamEvent::Delete(_) if at == version => continue,
                StreamEvent::Apply(_) | StreamEvent::Delete(_) | StreamEvent::Bookmark
                    if is_older(&at, &version) =>
                {
                    return Err(WatchError::OutOfOrder(at, version).into());
                }
                StreamEvent::Apply(object) => {
                    self.send(ObjectEvent::Apply(Box::new(object))).await?
                }
                StreamEvent::Delete(object) => {
                    self.send(ObjectEvent::Delete(Box::new(object))).await?
                }
                StreamEvent::Bookmark => {}
            }
            version = at;
        }
        Ok(version)
    }

    async fn send(&self, event: ObjectEvent) -> Result<(), RunEnd> {
        self.events
            .send(event)
            .await
            .map_err(|_| RunEnd::ReceiverDropped)
    }

    /// Bounds a call by the time after which the connection counts as dead.
    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, WatchError>>,
    ) -> Result<T, WatchError> {
        timeout(self.cluster.settings().call_timeout(), call)
            .await
            .unwrap_or(Err(WatchError::Timeout))
    }

    /// Logs a failure as a warning once, until the watch works again.
    fn failed(&self, error: &WatchError, is_reported: &mut bool) {
        let what = &self.watched;
        let namespace = &self.namespace;
        if std::mem::replace(is_reported, true) {
            tracing::debug!(%what, %namespace, %error, "the Kubernetes API cannot be watched");
        } else {
            tracing::warn!(%what, %namespace, %error, "cannot watch the Kubernetes API; the last state stays in force");
        }
    }
}

/// Whether a version is older than another. Versions that are not numbers cannot be compared.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        (Err(_), _) | (_, Err(_)) => false,
    }
}
