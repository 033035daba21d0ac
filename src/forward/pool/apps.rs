//! What one data thread keeps for each app: idle connections, the TLS configuration, and the
//! connection that is being opened.
//!
//! The key is the app as published: after it is published again, with the same address or another,
//! its old connections are not reused. Last in, first out, so that few connections stay warm.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use rustls::ClientConfig;
use tokio::sync::watch;

use super::key::PoolKey;
use crate::{
    forward::{
        app_tls::{self, UpstreamTlsFailure},
        fault::Fault,
        sender::RequestSender,
        settings::ForwardSettings,
        upstream_connection::UpstreamConnection,
        upstream_faults::note_cause,
    },
    model::{app::App, concurrency_limit::Holder},
};

/// Maximum number of idle connections to one app of one data thread.
const MAX_IDLE: usize = 64;
/// How long it counts that an app closed an idle connection.
const CLOSED_MEMORY: Duration = Duration::from_secs(60);

/// The result of opening a shared connection; `None`: not yet.
pub(in crate::forward) type OpenResult = Option<Result<(), Fault>>;

/// All apps that this data thread has connections to.
#[derive(Default)]
pub struct AppPools(RefCell<HashMap<usize, AppPool, RandomState>>);

/// One app.
struct AppPool {
    /// Reserves the address that is the key. Weak, because the strong count says whether the app is
    /// still published.
    app: Weak<App>,
    /// The most recently used last.
    #[expect(
        clippy::vec_box,
        reason = "the box is lent to a request and comes back"
    )]
    idle: Vec<Box<UpstreamConnection>>,
    tls: Option<Arc<ClientConfig>>,
    /// When the app last closed an idle connection.
    closed_idle: Option<Instant>,
    /// Shared connections that are being opened, one for each upstream or pod.
    opening: Vec<OpeningConnection>,
}

/// A shared connection that is being opened.
struct OpeningConnection {
    server: usize,
    result: watch::Receiver<OpenResult>,
}

impl OpeningConnection {
    fn is_pending(&self) -> bool {
        self.result.has_changed().is_ok() && self.result.borrow().is_none()
    }
}

impl AppPools {
    /// An idle connection, or a place on a shared one, that is open and fits the request.
    pub(in crate::forward) fn checkout(
        &self,
        app: &Arc<App>,
        key: PoolKey,
        now: Instant,
        holder: Holder<'_>,
        settings: &ForwardSettings,
    ) -> Option<Box<UpstreamConnection>> {
        let mut apps = self.0.borrow_mut();
        let pool = apps.get_mut(&address(app))?;
        let index = pool.find(key, now, settings.idle)?;
        let connection = pool.idle.get_mut(index)?;
        let mut connection = match &connection.sender {
            // A client over its share gets `Busy` when it tries to open a new connection.
            RequestSender::Http1(_)
                if !connection.slot.reassign(settings.connections(), holder) =>
            {
                return None;
            }
            RequestSender::Http1(_) => pool.idle.remove(index),
            RequestSender::Http2(_) => {
                connection.idle_since = now;
                Box::new(connection.share()?)
            }
        };
        connection.used_before = true;
        Some(connection)
    }

    /// Puts a connection into the pool.
    pub(in crate::forward) fn insert(&self, app: &Arc<App>, connection: Box<UpstreamConnection>) {
        self.with(app, |pool| {
            debug_assert!(std::ptr::eq(pool.app.as_ptr(), Arc::as_ptr(app)));
            // The first is the one that was unused for longest.
            if pool.idle.len() >= MAX_IDLE
                && let Some(oldest) = pool.idle.iter().position(|idle| !idle.is_in_use())
            {
                pool.idle.remove(oldest);
            }
            pool.idle.push(connection);
        });
    }

    /// Takes an HTTP/1.1 connection back after its request. A place on an HTTP/2 connection is
    /// dropped, since the pool still has the connection.
    pub(in crate::forward) fn check_in(
        &self,
        app: &Arc<App>,
        mut connection: Box<UpstreamConnection>,
    ) {
        match &mut connection.sender {
            RequestSender::Http2(_) => {}
            RequestSender::Http1(inline) => {
                inline.poll_idle();
                if !inline.is_closed() {
                    connection.slot.release_share();
                    connection.idle_since = Instant::now();
                    self.insert(app, connection);
                }
            }
        }
    }

    /// Whether the app closed an idle connection within [`CLOSED_MEMORY`].
    pub(in crate::forward) fn closes_idle(&self, app: &Arc<App>) -> bool {
        let mut apps = self.0.borrow_mut();
        let Some(pool) = apps.get_mut(&address(app)) else {
            return false;
        };
        pool.check_oldest();
        pool.closed_idle
            .is_some_and(|closed| closed.elapsed() < CLOSED_MEMORY)
    }

    /// Notes that the app closed an idle connection just when a request was sent on it.
    pub(in crate::forward) fn note_closed_idle(&self, app: &Arc<App>) {
        self.with(app, |pool| pool.closed_idle = Some(Instant::now()));
    }

    /// The result of the shared connection that is being opened to an upstream or pod. If none is,
    /// the sender is returned too, and the caller must open one.
    pub(in crate::forward) fn opening(
        &self,
        app: &Arc<App>,
        server: usize,
    ) -> (
        watch::Receiver<OpenResult>,
        Option<watch::Sender<OpenResult>>,
    ) {
        self.with(app, |pool| {
            pool.opening.retain(OpeningConnection::is_pending);
            let mut pending = pool.opening.iter();
            if let Some(opening) = pending.find(|opening| opening.server == server) {
                return (opening.result.clone(), None);
            }
            let (sender, result) = watch::channel(None);
            pool.opening.push(OpeningConnection {
                server,
                result: result.clone(),
            });
            (result, Some(sender))
        })
    }

    /// The TLS configuration of the app, made at its first connection.
    pub(in crate::forward) fn tls(&self, app: &Arc<App>) -> Result<Arc<ClientConfig>, Fault> {
        self.with(app, |pool| {
            if let Some(config) = &pool.tls {
                return Ok(config.clone());
            }
            let unusable = Fault::Tls(UpstreamTlsFailure::Handshake);
            let config = app_tls::app_client(&app.spec)
                .map_err(|error| note_cause(app, unusable, &error))?;
            pool.tls = Some(config.clone());
            Ok(config)
        })
    }

    /// Closes connections that were idle for too long, and forgets apps without connections.
    pub(in crate::forward) fn expire(&self, idle: Duration) {
        self.0.borrow_mut().retain(|_, pool| {
            pool.expire(idle);
            // Kept for apps that are still published: the TLS configuration was read from files.
            let is_known = pool.tls.is_some() || pool.closed_idle.is_some();
            !pool.idle.is_empty() || (is_known && pool.app.strong_count() > 0)
        });
    }

    fn with<T>(&self, app: &Arc<App>, use_pool: impl FnOnce(&mut AppPool) -> T) -> T {
        let mut apps = self.0.borrow_mut();
        use_pool(
            apps.entry(address(app))
                .or_insert_with(|| AppPool::new(app)),
        )
    }
}

impl AppPool {
    fn new(app: &Arc<App>) -> AppPool {
        AppPool {
            app: Arc::downgrade(app),
            idle: Vec::new(),
            tls: None,
            closed_idle: None,
            opening: Vec::new(),
        }
    }

    /// The index of the most recently used connection that fits and accepts a request. Checks no
    /// more connections than necessary; `expire` checks the others.
    fn find(&mut self, key: PoolKey, now: Instant, idle: Duration) -> Option<usize> {
        let mut index = self.idle.len();
        loop {
            index = index.checked_sub(1)?;
            let connection = self.idle.get(index)?;
            if !connection.is_reusable(now, idle) {
                if connection.was_closed_by_app() {
                    self.closed_idle = Some(now);
                }
                self.idle.remove(index);
            } else if connection.key == key && connection.has_capacity() {
                return Some(index);
            }
        }
    }

    /// An app closes the connection first that was idle for longest.
    fn check_oldest(&mut self) {
        let Some(oldest) = self.idle.first_mut() else {
            return;
        };
        oldest.poll_idle();
        if oldest.was_closed_by_app() {
            self.closed_idle = Some(Instant::now());
            self.idle.remove(0);
        }
    }

    fn expire(&mut self, idle: Duration) {
        let now = Instant::now();
        let closed_idle = &mut self.closed_idle;
        self.idle.retain_mut(|connection| {
            connection.poll_idle();
            if connection.was_closed_by_app() {
                *closed_idle = Some(now);
            }
            connection.is_reusable(now, idle)
        });
    }
}

fn address(app: &Arc<App>) -> usize {
    Arc::as_ptr(app) as usize
}
