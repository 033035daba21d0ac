//! Watches one kind of object in one namespace, for ever: list, changes, and again from the
//! beginning whenever something may have been missed.
//!
//! Invariant: an unreadable event is never skipped. It could be the one that revokes access.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
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
    Cluster,
    changes::{Broken, Change, Changes},
    endpoint_slices,
    heard::Heard,
    object::Object,
};

/// The first pause after a failure, and the longest; each is drawn out to up to twice as long. What
/// was revoked while the API was away has to bite within five seconds of its return.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// A run that lasted this long was a good one.
const STEADY: Duration = Duration::from_secs(10);
/// From the beginning of one watch to that of the next, at least.
const LEAST: Duration = Duration::from_secs(1);
/// The longest that a watch may be asked to last, in seconds.
const LONGEST: u32 = 290;
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Objects that wait to be looked at.
const QUEUE: usize = 512;

/// What a watch says.
#[derive(Debug)]
pub enum Told {
    /// All objects follow, from the beginning.
    Begin,
    /// One of all.
    StreamGuard(Box<Object>),
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
        let (namespace, heard) = (namespace.to_owned(), self.silences().one_more());
        let watch = Watch {
            cluster: self.clone(),
            watched,
            namespace,
            heard,
            tell,
        };
        tokio::spawn(watch.keep_on());
        told
    }
}

struct Watch {
    cluster: Cluster,
    watched: Watched,
    namespace: String,
    heard: Arc<Heard>,
    tell: mpsc::Sender<Told>,
}

/// How a run ended.
enum Ended {
    /// Something may have been missed, or the API could not be asked.
    Failed(Broken),
    /// Nobody listens any more.
    Unheard,
}

impl<E: Into<Broken>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::Failed(error.into())
    }
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
        let (mut first, mut said) = (true, false);
        loop {
            let began = Instant::now();
            // Dropped when nobody listens any more, wherever it waits.
            let ended = tokio::select! {
                Err(ended) = self.run(first, &mut said) => ended,
                () = self.tell.closed() => return,
            };
            let Ended::Failed(error) = ended else { return };
            first = false;
            self.failed(&error, &mut said);
            // A run counts as good when it lasted: what fails right after each list must not be
            // listed for ever.
            if began.elapsed() > STEADY {
                pauses = builder.build();
            }
            let pause = pauses.next().unwrap_or(PAUSES.1);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.tell.closed() => return,
            }
        }
    }

    /// One run, from a list on.
    async fn run(&self, first: bool, said: &mut bool) -> Result<Infallible, Ended> {
        let kind = match &self.watched {
            Watched::Kind(kind) => kind.clone(),
            Watched::EndpointSlices => {
                self.in_time(async { Ok(endpoint_slices::version(self.cluster.client()).await?) })
                    .await?
            }
        };
        let api: Api<Object> =
            Api::namespaced_with(self.cluster.client().clone(), &self.namespace, &kind);
        let mut version = self.list(&api, first).await?;
        if std::mem::take(said) {
            tracing::info!(what = %self.watched, namespace = self.namespace, "the Kubernetes API is available again");
        }
        loop {
            let earliest = Instant::now() + LEAST;
            version = self.follow(&api, version).await?;
            // Watches end, and the next goes on from there; one that ends at once must not be asked
            // for at once.
            sleep_until(earliest).await;
        }
    }

    /// Lists all objects, and returns the version of the list.
    ///
    /// The first list may come from the server's cache, which takes half the time; the watch
    /// delivers what changed since. Later lists must be current, so that revoked access does not
    /// come back.
    async fn list(&self, api: &Api<Object>, first: bool) -> Result<String, Ended> {
        self.tell(Told::Begin).await?;
        let of_now = ListParams::default().limit(PAGE);
        let mut page = if first {
            ListParams::default().match_any()
        } else {
            of_now.clone()
        };
        loop {
            let list = self.in_time(async { Ok(api.list(&page).await?) }).await?;
            self.heard.note();
            for object in list.items {
                self.tell(Told::StreamGuard(Box::new(object))).await?;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = of_now.clone().continue_token(&token),
                None => {
                    let version = list
                        .metadata
                        .resource_version
                        .filter(|version| !version.is_empty());
                    let version = version.ok_or(Broken::NoVersion)?;
                    self.tell(Told::Complete).await?;
                    return Ok(version);
                }
            }
        }
    }

    /// One watch from a version on, to its end; gives back the version that was reached.
    async fn follow(&self, api: &Api<Object>, mut version: String) -> Result<String, Ended> {
        let settings = self.cluster.settings();
        // The client takes no longer ones.
        let lasts = u32::try_from(settings.watch.as_secs())
            .unwrap_or(u32::MAX)
            .clamp(1, LONGEST);
        let parameters = WatchParams::default().timeout(lasts);
        let request = Request::new(api.resource_url()).watch(&parameters, &version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let mut changes = self
            .in_time(Changes::open(self.cluster.client(), request))
            .await?;
        self.heard.note();
        // Silence for too long is an end as good as any: what was said meanwhile comes with the
        // next watch.
        while let Ok(change) = timeout(settings.patience(), changes.next()).await {
            let Some((change, at)) = change? else { break };
            self.heard.note();
            match change {
                // Versions of one kind of object can be compared as numbers. What came already is
                // in force.
                Change::Put(_) | Change::Gone(_) if at == version => continue,
                Change::Put(_) | Change::Gone(_) | Change::Bookmark if is_older(&at, &version) => {
                    return Err(Broken::Older(at, version).into());
                }
                Change::Put(object) => self.tell(Told::Changed(Box::new(object))).await?,
                Change::Gone(object) => self.tell(Told::Gone(Box::new(object))).await?,
                Change::Bookmark => {}
            }
            version = at;
        }
        Ok(version)
    }

    async fn tell(&self, told: Told) -> Result<(), Ended> {
        self.tell.send(told).await.map_err(|_| Ended::Unheard)
    }

    /// A call that must be answered whole before nobody can be there any more.
    async fn in_time<T>(&self, call: impl Future<Output = Result<T, Broken>>) -> Result<T, Broken> {
        timeout(self.cluster.settings().patience(), call)
            .await
            .unwrap_or(Err(Broken::Silent))
    }

    /// Says once that it failed, until it works again.
    fn failed(&self, error: &Broken, said: &mut bool) {
        let (what, namespace) = (&self.watched, &self.namespace);
        if std::mem::replace(said, true) {
            tracing::debug!(%what, %namespace, %error, "the Kubernetes API cannot be watched");
        } else {
            tracing::warn!(%what, %namespace, %error, "cannot watch the Kubernetes API; the last state stays in force");
        }
    }
}

/// Whether a version was before another. What is no number tells nothing.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        (Err(_), _) | (_, Err(_)) => false,
    }
}
