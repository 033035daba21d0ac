//! Connections to apps: opens them, and reuses them for the next request. One pool per data thread.

pub(in crate::forward) mod apps;
pub mod key;

use std::{
    cell::OnceCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::ClientConfig;

use self::apps::AppPools;
pub use self::key::PoolKey;
use super::{
    chosen_upstream::ChosenUpstream,
    connect::{self, Dial},
    fault::Fault,
    metrics::ForwardMetrics,
    pooled::PooledConnection,
    settings::ForwardSettings,
};
use crate::{
    model::{
        app::{App, Protocol, UpstreamScheme},
        concurrency_limit::{Holder, LoadGuard, SlotKind},
    },
    ops::tls_client,
};

/// The connections of one data thread.
pub struct Pool {
    apps: Rc<AppPools>,
    /// For upstreams that prove themselves over HTTP: their certificates are not verified.
    any_certificate: OnceCell<Arc<ClientConfig>>,
    /// Deadlines and bounds.
    pub settings: ForwardSettings,
    /// Open connections and missed deadlines.
    pub metrics: Arc<ForwardMetrics>,
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: ForwardSettings, metrics: Arc<ForwardMetrics>) -> Rc<Pool> {
        Rc::new(Pool {
            apps: Rc::default(),
            any_certificate: OnceCell::new(),
            settings,
            metrics,
        })
    }

    /// Counts a request among those that wait for the app.
    ///
    /// # Errors
    /// [`Fault::Busy`]: the app, or this client at the app, has as many as it may.
    pub fn admit(&self, app: &App, slot: SlotKind, holder: Holder<'_>) -> Result<LoadGuard, Fault> {
        app.load
            .acquire(slot, self.settings.requests(), holder)
            .ok_or(Fault::Busy)
    }

    /// An idle connection that is open and accepts a request, if there is one.
    pub fn checkout(
        &self,
        app: &Arc<App>,
        key: PoolKey,
        now: Instant,
        holder: Holder<'_>,
    ) -> Option<PooledConnection> {
        let connection = self.apps.checkout(app, key, now, holder, &self.settings)?;
        Some(PooledConnection {
            connection,
            app: app.clone(),
            pools: Rc::downgrade(&self.apps),
            in_progress: None,
        })
    }

    /// Whether the app has lately closed idle connections.
    ///
    /// A request that must not be sent twice then needs a new connection: on an idle one it could
    /// cross the close, and it would stay unknown whether the app handled it.
    pub fn closes_idle_connections(&self, app: &Arc<App>) -> bool {
        self.apps.closes_idle(app)
    }

    /// A connection that accepts a request: a new one, or a place on a shared one. If the chosen
    /// upstream accepts no connection, one other upstream of the app is tried.
    ///
    /// # Errors
    /// Those of [`Pool::connect`].
    pub(super) async fn acquire(
        &self,
        app: &Arc<App>,
        chosen: &mut ChosenUpstream,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        let acquired = self.acquire_at(app, chosen.key, holder).await;
        if let Err(fault) = &acquired
            && fault.is_no_connection()
            && chosen.move_to_other(app)
        {
            return self.acquire_at(app, chosen.key, holder).await;
        }
        acquired
    }

    async fn acquire_at(
        &self,
        app: &Arc<App>,
        key: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        match app.spec.protocol {
            Protocol::Http1 => self.connect(app, key, holder).await,
            Protocol::Http2 => self.acquire_shared(app, key, holder).await,
        }
    }

    /// A place on a shared connection: an open one, one that another request is opening, or a new
    /// one.
    ///
    /// # Errors
    /// Those of [`Pool::connect`], also when another request opened the connection.
    pub(super) async fn acquire_shared(
        &self,
        app: &Arc<App>,
        key: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        loop {
            if let Some(pooled) = self.checkout(app, key, Instant::now(), holder) {
                return Ok(pooled);
            }
            let (mut result, opener) = self.apps.opening(app, key.server);
            let Some(opener) = opener else {
                // The sender is dropped without a result when its request went away: try again.
                match result.wait_for(Option::is_some).await.map(|result| *result) {
                    Ok(Some(Err(fault))) => return Err(fault),
                    Ok(Some(Ok(())) | None) | Err(_) => continue,
                }
            };
            let opened = self.connect(app, key, holder).await;
            opener.send_replace(Some(opened.as_ref().map(|_| ()).map_err(|fault| *fault)));
            return opened;
        }
    }

    /// A new connection, to the upstream or pod of the key, or to another pod if that pod accepts
    /// none.
    ///
    /// # Errors
    /// Those of [`connect::open`]; [`Fault::Busy`] when the app, or this client at the app, has as
    /// many connections as it may.
    pub async fn connect(
        &self,
        app: &Arc<App>,
        key: PoolKey,
        holder: Holder<'_>,
    ) -> Result<PooledConnection, Fault> {
        let slot = app
            .load
            .acquire(SlotKind::Connection, self.settings.connections(), holder)
            .ok_or(Fault::Busy)?;
        let dial = Dial {
            app,
            key,
            tls: self.tls(app)?,
            settings: &self.settings,
            metrics: &self.metrics,
        };
        let opened = connect::open(dial, slot).await;
        if let Some(group) = &app.group {
            group.record_connection(key.server, opened.is_ok(), Instant::now());
        }
        let connection = opened?;
        if let Some(shared) = connection.share() {
            self.apps.insert(app, Box::new(shared));
        }
        Ok(PooledConnection {
            connection,
            app: app.clone(),
            pools: Rc::downgrade(&self.apps),
            in_progress: None,
        })
    }

    /// Expires idle connections periodically; never ends.
    pub async fn expire_periodically(self: Rc<Self>) {
        let period = self.settings.idle.max(Duration::from_secs(1)) / 2;
        let mut tick = tokio::time::interval(period);
        loop {
            tick.tick().await;
            self.apps.expire(self.settings.idle);
        }
    }

    fn tls(&self, app: &Arc<App>) -> Result<Option<Arc<ClientConfig>>, Fault> {
        match app.spec.upstream.scheme {
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => Ok(None),
            UpstreamScheme::Attested(_) => {
                let any = || tls_client::config_for_any_certificate();
                Ok(Some(self.any_certificate.get_or_init(any).clone()))
            }
            UpstreamScheme::Https => self.apps.tls(app).map(Some),
        }
    }
}
