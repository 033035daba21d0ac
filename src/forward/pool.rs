//! Connections to apps, kept for the next request; one pool per data thread.
//!
//! The key is the app as published: when an app is published anew, with another address or the
//! same, its old connections are not used again. Last in, first out, so that few connections stay
//! warm.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use rustls::ClientConfig;
use tokio::sync::watch;

use super::{
    ForwardSettings,
    app_tls::{self, UpstreamTlsFailure},
    body_rate::ReusableTimer,
    connect,
    fault::Fault,
    metrics::ForwardMetrics,
    pooled::{PooledConnection, RequestSender, UpstreamConnection},
};
use crate::{
    model::{
        app::{App, Protocol, UpstreamScheme},
        load::{Holder, Slot, Taken},
    },
    ops::tls_client,
};

/// Requests at the same time on one connection of HTTP/2: one lost packet, or one that is closed,
/// holds up all of them.
pub const STREAMS: u32 = 32;
/// Connections that are kept for one app by one data thread.
const MOST_KEPT: usize = 64;
/// That an app closes kept connections is remembered for this long.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The connections of one data thread.
pub struct Pool {
    apps: RefCell<HashMap<usize, AppPool, RandomState>>,
    /// For all containers, whose certificates say nothing.
    containers: OnceCell<Arc<ClientConfig>>,
    /// Deadlines and bounds.
    pub settings: ForwardSettings,
    /// What is counted.
    pub metrics: Arc<ForwardMetrics>,
}

/// Which of an app's connections fit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKey {
    /// Which of several pods.
    pub pod: usize,
    /// Whose connection it is, when the app is told that by the connection (PROXY protocol).
    pub client: Option<SocketAddr>,
}

struct AppPool {
    /// Keeps the address that is the key from being given to another app, and not the app itself:
    /// others count by that who still uses it.
    app: std::sync::Weak<App>,
    /// The youngest last.
    #[expect(
        clippy::vec_box,
        reason = "the box is lent to a request and comes back"
    )]
    kept: Vec<Box<UpstreamConnection>>,
    tls: Option<Arc<ClientConfig>>,
    /// When it last closed a kept connection by itself.
    closed_one: Option<Instant>,
    /// A connection for many that is being opened.
    opening: Option<watch::Receiver<Opening>>,
}

/// `None`: not yet.
type Opening = Option<Result<(), Fault>>;

impl UpstreamConnection {
    /// Whether it goes on: open, and used lately or now.
    fn stays(&self, now: Instant, idle: Duration) -> bool {
        !self.is_closed() && (self.is_in_use() || now.duration_since(self.since) < idle)
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Closed by the app, of which HTTP/1.1 says nothing; one of HTTP/2 says goodbye, and what it
    /// did not do.
    fn went_away(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(inline_connection) => inline_connection.is_closed(),
            RequestSender::Http2(_) => false,
        }
    }

    /// Notices that it was closed.
    fn rest(&mut self) {
        match &mut self.sender {
            RequestSender::Http1(inline_connection) => inline_connection.rest(),
            RequestSender::Http2(_) => {}
        }
    }

    fn is_in_use(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(_) => false,
            RequestSender::Http2(shared) => Rc::strong_count(&shared.slot) > 1,
        }
    }

    /// Another place on one that many share.
    fn slot(&self) -> Option<UpstreamConnection> {
        let RequestSender::Http2(shared) = &self.sender else {
            return None;
        };
        Some(UpstreamConnection {
            sender: RequestSender::Http2(shared.clone()),
            heard: self.heard.clone(),
            slot: self.slot.clone(),
            proof: self.proof.clone(),
            pool: self.pool.clone(),
            metrics: self.metrics.clone(),
            timer: ReusableTimer::default(),
            ..*self
        })
    }

    fn has_room(&self) -> bool {
        match &self.sender {
            RequestSender::Http1(inline_connection) => inline_connection.is_ready(),
            RequestSender::Http2(shared) => Rc::strong_count(&shared.slot) <= STREAMS as usize,
        }
    }
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: ForwardSettings, metrics: Arc<ForwardMetrics>) -> Rc<Pool> {
        Rc::new(Pool {
            apps: RefCell::default(),
            containers: OnceCell::new(),
            settings,
            metrics,
        })
    }

    /// A place among those whose answer an app has not begun, or whose body has not come.
    ///
    /// # Errors
    /// [`Fault::Busy`]: it has as much to do as it may, or as it may for this client.
    pub fn admit(&self, app: &App, slot: Slot, holder: Holder<'_>) -> Result<Taken, Fault> {
        app.load
            .take(slot, self.settings.requests(), holder)
            .ok_or(Fault::Busy)
    }

    /// A kept connection that is open and takes a request, if there is one.
    pub fn checkout(
        self: &Rc<Self>,
        app: &Arc<App>,
        near: PoolKey,
        now: Instant,
        holder: Holder<'_>,
    ) -> Option<PooledConnection> {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.get_mut(&key(app))?;
        let at = of_app.youngest(near, now, self.settings.idle)?;
        let connection = of_app.kept.get_mut(at)?;
        let mut connection = match &connection.sender {
            // A client over its share gets `Busy` when it tries to open a new connection.
            RequestSender::Http1(_)
                if !connection.slot.pass_to(self.settings.connections(), holder) =>
            {
                return None;
            }
            RequestSender::Http1(_) => of_app.kept.remove(at),
            RequestSender::Http2(_) => {
                connection.since = now;
                Box::new(connection.slot()?)
            }
        };
        connection.used_before = true;
        Some(PooledConnection {
            connection,
            app: app.clone(),
        })
    }

    /// Whether the app has lately closed connections that were kept for it. What may not be sent
    /// twice is then sent on a new one: on a kept one it could arrive together with the end, and
    /// nobody could say whether it was done.
    pub fn closes_idle_connections(&self, app: &Arc<App>) -> bool {
        let mut apps = self.apps.borrow_mut();
        let Some(of_app) = apps.get_mut(&key(app)) else {
            return false;
        };
        of_app.look_at_the_oldest();
        of_app
            .closed_one
            .is_some_and(|closed| closed.elapsed() < REMEMBERED)
    }

    /// It has closed one under a request.
    pub fn note_closed_idle(&self, app: &Arc<App>) {
        let mut apps = self.apps.borrow_mut();
        apps.entry(key(app))
            .or_insert_with(|| AppPool::new(app))
            .closed_one = Some(Instant::now());
    }

    /// A connection that takes a request, if need be a new one.
    ///
    /// # Errors
    /// Those of [`Pool::connect`].
    pub async fn acquire(
        self: &Rc<Self>,
        app: &Arc<App>,
        near: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        match app.spec.protocol {
            Protocol::Http1 => self.connect(app, near, holder).await,
            Protocol::Http2 => self.acquire_shared(app, near, holder).await,
        }
    }

    /// A place on a connection that many share: one that is kept, or that somebody else is opening
    /// just now, or a new one.
    ///
    /// # Errors
    /// Those of [`Pool::connect`], whoever tried.
    pub async fn acquire_shared(
        self: &Rc<Self>,
        app: &Arc<App>,
        near: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        loop {
            if let Some(pooled) = self.checkout(app, near, Instant::now(), holder) {
                return Ok(pooled);
            }
            let (mut result, opens) = self.opening(app);
            let Some(opens) = opens else {
                // Dropped without a result by somebody who has gone: then it is open to others
                // again.
                match result.wait_for(Option::is_some).await.map(|told| *told) {
                    Ok(Some(Err(fault))) => return Err(fault),
                    Ok(Some(Ok(())) | None) | Err(_) => continue,
                }
            };
            let pooled = self.connect(app, near, holder).await;
            opens.send_replace(Some(pooled.as_ref().map(|_| ()).map_err(|fault| *fault)));
            return pooled;
        }
    }

    /// What becomes of the connection that is being opened; with the one who tells it when nobody
    /// does so yet.
    fn opening(
        &self,
        app: &Arc<App>,
    ) -> (watch::Receiver<Opening>, Option<watch::Sender<Opening>>) {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| AppPool::new(app));
        if let Some(result) = &of_app.opening
            && result.has_changed().is_ok()
            && result.borrow().is_none()
        {
            return (result.clone(), None);
        }
        let (opens, result) = watch::channel(None);
        of_app.opening = Some(result.clone());
        (result, Some(opens))
    }

    /// A new connection; to the pod that `near` names, or another one if that takes none.
    ///
    /// # Errors
    /// Those of [`connect::open`]; [`Fault::Busy`] when there are as many as there may be, or as
    /// this client may have.
    pub async fn connect(
        self: &Rc<Self>,
        app: &Arc<App>,
        near: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        let slot = app
            .load
            .take(Slot::Connection, self.settings.connections(), holder)
            .ok_or(Fault::Busy)?;
        let tls = self.tls(app)?;
        let opened = connect::open(app, near, tls, &self.settings, (&self.metrics, slot)).await?;
        let connect::OpenedConnection {
            sender,
            heard,
            slot,
            proof,
        } = opened;
        let connection = Box::new(UpstreamConnection {
            sender,
            heard,
            slot,
            proof: proof.map(Rc::new),
            used_before: false,
            near,
            pool: Rc::downgrade(self),
            metrics: self.metrics.clone(),
            timer: ReusableTimer::default(),
            since: Instant::now(),
        });
        if let Some(slot) = connection.slot() {
            self.store(app, Box::new(slot));
        }
        Ok(PooledConnection {
            connection,
            app: app.clone(),
        })
    }

    /// Keeps a connection whose request is answered.
    pub fn check_in(&self, pooled: PooledConnection) {
        let PooledConnection {
            mut connection,
            app,
        } = pooled;
        match &mut connection.sender {
            // The connection itself is kept since it was opened; this was a place on it.
            RequestSender::Http2(_) => {}
            RequestSender::Http1(inline_connection) => {
                inline_connection.rest();
                if !inline_connection.is_closed() {
                    connection.slot.give_up();
                    connection.since = Instant::now();
                    self.store(&app, connection);
                }
            }
        }
    }

    fn store(&self, app: &Arc<App>, kept: Box<UpstreamConnection>) {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| AppPool::new(app));
        debug_assert!(std::ptr::eq(of_app.app.as_ptr(), Arc::as_ptr(app)));
        // The oldest first: the youngest are used first, and these were not needed for longest.
        if of_app.kept.len() >= MOST_KEPT
            && let Some(at) = of_app
                .kept
                .iter()
                .position(|connection| !connection.is_in_use())
        {
            of_app.kept.remove(at);
        }
        of_app.kept.push(kept);
    }

    /// Closes what was not used for the idle time and forgets apps without connections.
    pub fn expire(&self) {
        self.apps.borrow_mut().retain(|_, of_app| {
            of_app.tidy(self.settings.idle);
            // What is known of an app that is still published is kept: its TLS configuration was
            // read from files.
            let is_known = of_app.tls.is_some() || of_app.closed_one.is_some();
            !of_app.kept.is_empty() || (is_known && of_app.app.strong_count() > 0)
        });
    }

    /// Expires now and then; never ends.
    pub async fn expire_periodically(self: Rc<Self>) {
        let mut tick = tokio::time::interval(self.settings.idle.max(Duration::from_secs(1)) / 2);
        loop {
            tick.tick().await;
            self.expire();
        }
    }

    fn tls(&self, app: &Arc<App>) -> Result<Option<Arc<ClientConfig>>, Fault> {
        match app.spec.upstream.scheme {
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => {
                return Ok(None);
            }
            UpstreamScheme::Container(_) => {
                let containers = || tls_client::of_any_certificate();
                return Ok(Some(self.containers.get_or_init(containers).clone()));
            }
            UpstreamScheme::Https => {}
        }
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| AppPool::new(app));
        if of_app.tls.is_none() {
            let config = app_tls::client(&app.spec.tls).map_err(|error| {
                tracing::debug!(app = %app.id(), %error, "no TLS towards the app");
                Fault::Tls(UpstreamTlsFailure::Handshake)
            })?;
            of_app.tls = Some(match app.spec.protocol {
                Protocol::Http1 => config,
                Protocol::Http2 => {
                    let mut config = ClientConfig::clone(&config);
                    config.alpn_protocols = vec![b"h2".to_vec()];
                    Arc::new(config)
                }
            });
        }
        Ok(of_app.tls.clone())
    }
}

impl AppPool {
    fn new(app: &Arc<App>) -> AppPool {
        AppPool {
            app: Arc::downgrade(app),
            kept: Vec::new(),
            tls: None,
            closed_one: None,
            opening: None,
        }
    }

    /// Where the one is that was used last, of those that fit and take a request. Looks at no other
    /// than it has to: what is older is tidied now and then.
    fn youngest(&mut self, near: PoolKey, now: Instant, idle: Duration) -> Option<usize> {
        let mut at = self.kept.len();
        loop {
            at = at.checked_sub(1)?;
            let connection = self.kept.get(at)?;
            if !connection.stays(now, idle) {
                if connection.went_away() {
                    self.closed_one = Some(now);
                }
                self.kept.remove(at);
            } else if connection.near == near && connection.has_room() {
                return Some(at);
            }
        }
    }

    /// The one that has rested longest is the first that an app closes.
    fn look_at_the_oldest(&mut self) {
        let Some(oldest) = self.kept.first_mut() else {
            return;
        };
        oldest.rest();
        if oldest.went_away() {
            self.closed_one = Some(Instant::now());
            self.kept.remove(0);
        }
    }

    /// Lets go of what was closed or was not used lately.
    fn tidy(&mut self, idle: Duration) {
        let (now, closed_one) = (Instant::now(), &mut self.closed_one);
        self.kept.retain_mut(|connection| {
            connection.rest();
            if connection.went_away() {
                *closed_one = Some(now);
            }
            connection.stays(now, idle)
        });
    }
}

fn key(app: &Arc<App>) -> usize {
    Arc::as_ptr(app) as usize
}
