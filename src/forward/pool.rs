//! Connections to apps, kept for the next request; one pool per data thread.
//!
//! The key is the app as published: when an app is published anew, with another address or the same, its
//! old connections are not used again. Last in, first out, so that few connections stay warm.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use rustls::ClientConfig;
use tokio::sync::watch;

use super::{
    Settings, connect,
    fault::Fault,
    lease::{Lease, Sender},
    proof::Proof,
};
use crate::{
    model::{
        app::{App, Protocol, UpstreamScheme},
        load::{Share, Taken},
    },
    telemetry::metrics::Metrics,
    trust::{self, app::Distrust},
};

/// Requests at the same time on one connection of HTTP/2: one lost packet, or one that is closed, holds up all of them.
pub const STREAMS: u32 = 32;
/// Connections that are kept for one app by one data thread.
const MOST_KEPT: usize = 64;
/// That an app closes kept connections is remembered for this long.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The connections of one data thread.
pub struct Pool {
    apps: RefCell<HashMap<usize, OfApp>>,
    /// For all containers, whose certificates say nothing.
    containers: OnceCell<Arc<ClientConfig>>,
    /// Deadlines and bounds.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Which of an app's connections fit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Which of several pods.
    pub pod: usize,
    /// Whose connection it is, when the app is told that by the connection (PROXY protocol).
    pub client: Option<SocketAddr>,
}

struct OfApp {
    /// Keeps the address that is the key from being given to another app, and not the app itself: others count
    /// by that who still uses it.
    app: std::sync::Weak<App>,
    kept: Vec<Kept>,
    tls: Option<Arc<ClientConfig>>,
    /// When it last closed a kept connection by itself.
    closed_one: Option<Instant>,
    /// A connection for many that is being opened.
    opening: Option<watch::Receiver<Opening>>,
}

/// `None`: not yet.
type Opening = Option<Result<(), Fault>>;

struct Kept {
    sender: Sender,
    heard: Arc<AtomicBool>,
    proof: Option<Rc<Proof>>,
    near: Near,
    since: Instant,
}

impl Kept {
    /// Whether it goes on: open, and used lately or now.
    fn stays(&self, idle: Duration) -> bool {
        !self.sender.is_closed() && (self.is_in_use() || self.since.elapsed() < idle)
    }

    fn is_in_use(&self) -> bool {
        match &self.sender {
            Sender::Http1(_) => false,
            Sender::Http2(shared) => Rc::strong_count(&shared.place) > 1,
        }
    }

    fn has_room(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(shared) => Rc::strong_count(&shared.place) <= STREAMS as usize,
        }
    }
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: Settings, metrics: Arc<Metrics>) -> Rc<Pool> {
        Rc::new(Pool { apps: RefCell::default(), containers: OnceCell::new(), settings, metrics })
    }

    /// A place among those whose answer an app has not begun.
    ///
    /// # Errors
    /// [`Fault::Busy`]: it has as much to do as it may.
    pub fn wait(&self, app: &App) -> Result<Taken, Fault> {
        app.load.take(Share::Waiting, self.settings.requests_per_app).ok_or(Fault::Busy)
    }

    /// A kept connection that is open and takes a request, if there is one.
    pub fn take(self: &Rc<Self>, app: &Arc<App>, near: Near) -> Option<Lease> {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.get_mut(&key(app))?;
        of_app.tidy(self.settings.idle);
        let kept = &mut of_app.kept;
        let at = kept.iter().rposition(|connection| connection.near == near && connection.has_room())?;
        let (sender, heard, proof) = match &mut kept.get_mut(at)?.sender {
            Sender::Http1(_) => {
                let Kept { sender, heard, proof, .. } = kept.remove(at);
                (sender, heard, proof)
            }
            Sender::Http2(shared) => {
                let sender = Sender::Http2(shared.clone());
                let connection = kept.get_mut(at)?;
                connection.since = Instant::now();
                (sender, connection.heard.clone(), connection.proof.clone())
            }
        };
        Some(self.lease(app, near, sender, heard, proof, true))
    }

    /// Whether the app has lately closed connections that were kept for it. What may not be sent twice is then sent on a new
    /// one: on a kept one it could arrive together with the end, and nobody could say whether it was done.
    pub fn is_fickle(&self, app: &Arc<App>) -> bool {
        let apps = self.apps.borrow();
        let closed = apps.get(&key(app)).and_then(|of_app| of_app.closed_one);
        closed.is_some_and(|closed| closed.elapsed() < REMEMBERED)
    }

    /// It has closed one under a request.
    pub fn closed_one(&self, app: &Arc<App>) {
        let mut apps = self.apps.borrow_mut();
        apps.entry(key(app)).or_insert_with(|| OfApp::new(app)).closed_one = Some(Instant::now());
    }

    /// A place on a connection that many share: one that is kept, or that somebody else is opening just now, or a new one.
    ///
    /// # Errors
    /// Those of [`Pool::connect`], whoever tried.
    pub async fn share(self: &Rc<Self>, app: &Arc<App>, near: Near) -> Result<Lease, Fault> {
        loop {
            if let Some(lease) = self.take(app, near) {
                return Ok(lease);
            }
            let (mut result, opens) = self.opening(app);
            let Some(opens) = opens else {
                // Dropped without a result by somebody who has gone: then it is open to others again.
                match result.wait_for(Option::is_some).await.map(|told| *told) {
                    Ok(Some(Err(fault))) => return Err(fault),
                    Ok(Some(Ok(())) | None) | Err(_) => continue,
                }
            };
            let lease = self.connect(app, near).await;
            opens.send_replace(Some(lease.as_ref().map(|_| ()).map_err(|fault| *fault)));
            return lease;
        }
    }

    /// What becomes of the connection that is being opened; with the one who tells it when nobody does so yet.
    fn opening(&self, app: &Arc<App>) -> (watch::Receiver<Opening>, Option<watch::Sender<Opening>>) {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| OfApp::new(app));
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
    /// Those of [`connect::open`]; [`Fault::Busy`] when the app has as many as it may.
    pub async fn connect(self: &Rc<Self>, app: &Arc<App>, near: Near) -> Result<Lease, Fault> {
        let place = app.load.take(Share::Connection, self.settings.connections_per_app).ok_or(Fault::Busy)?;
        let tls = self.tls(app)?;
        let opened = connect::open(app, near, tls, &self.settings, (&self.metrics, place)).await?;
        let proof = opened.proof.map(Rc::new);
        if let Sender::Http2(shared) = &opened.sender {
            self.store(
                app,
                Kept {
                    sender: Sender::Http2(shared.clone()),
                    heard: opened.heard.clone(),
                    proof: proof.clone(),
                    near,
                    since: Instant::now(),
                },
            );
        }
        Ok(self.lease(app, near, opened.sender, opened.heard, proof, false))
    }

    fn lease(
        self: &Rc<Self>,
        app: &Arc<App>,
        near: Near,
        sender: Sender,
        heard: Arc<AtomicBool>,
        proof: Option<Rc<Proof>>,
        used_before: bool,
    ) -> Lease {
        let (pool, metrics) = (Rc::downgrade(self), self.metrics.clone());
        Lease { sender, heard, proof, used_before, app: app.clone(), near, pool, metrics }
    }

    /// Keeps a connection whose request is answered.
    pub fn keep(&self, lease: Lease) {
        let Lease { sender, heard, proof, app, near, .. } = lease;
        match sender {
            // The connection itself is kept since it was opened; this was a place on it.
            Sender::Http2(_) => {}
            sender @ Sender::Http1(_) if !sender.is_closed() => {
                self.store(&app, Kept { sender, heard, proof, near, since: Instant::now() });
            }
            Sender::Http1(_) => {}
        }
    }

    fn store(&self, app: &Arc<App>, kept: Kept) {
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| OfApp::new(app));
        debug_assert!(std::ptr::eq(of_app.app.as_ptr(), Arc::as_ptr(app)));
        // The oldest first: the youngest are used first, and these were not needed for longest.
        if of_app.kept.len() >= MOST_KEPT
            && let Some(at) = of_app.kept.iter().position(|connection| !connection.is_in_use())
        {
            of_app.kept.remove(at);
        }
        of_app.kept.push(kept);
    }

    /// Closes what was not used for the idle time and forgets apps without connections.
    pub fn expire(&self) {
        self.apps.borrow_mut().retain(|_, of_app| {
            of_app.tidy(self.settings.idle);
            // What is known of an app that is still published is kept: its TLS configuration was read from files.
            let is_known = of_app.tls.is_some() || of_app.closed_one.is_some();
            !of_app.kept.is_empty() || (is_known && of_app.app.strong_count() > 0)
        });
    }

    /// Expires now and then; never ends.
    pub async fn keep_tidy(self: Rc<Self>) {
        let mut tick = tokio::time::interval(self.settings.idle.max(Duration::from_secs(1)) / 2);
        loop {
            tick.tick().await;
            self.expire();
        }
    }

    fn tls(&self, app: &Arc<App>) -> Result<Option<Arc<ClientConfig>>, Fault> {
        match app.spec.upstream.scheme {
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => return Ok(None),
            UpstreamScheme::Container(_) => {
                let containers = || trust::of_any_certificate();
                return Ok(Some(self.containers.get_or_init(containers).clone()));
            }
            UpstreamScheme::Https => {}
        }
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| OfApp::new(app));
        if of_app.tls.is_none() {
            let config = trust::app::client(&app.spec.tls).map_err(|error| {
                tracing::debug!(app = %app.id(), %error, "no TLS towards the app");
                Fault::Tls(Distrust::Handshake)
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

impl OfApp {
    fn new(app: &Arc<App>) -> OfApp {
        OfApp { app: Arc::downgrade(app), kept: Vec::new(), tls: None, closed_one: None, opening: None }
    }

    fn tidy(&mut self, idle: Duration) {
        let (now, closed_one) = (Instant::now(), &mut self.closed_one);
        self.kept.retain(|connection| {
            // One of HTTP/2 says goodbye, and what it did not do.
            if matches!(connection.sender, Sender::Http1(_)) && connection.sender.is_closed() {
                *closed_one = Some(now);
            }
            connection.stays(idle)
        });
    }
}

fn key(app: &Arc<App>) -> usize {
    Arc::as_ptr(app) as usize
}
