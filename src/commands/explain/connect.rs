//! Opens a connection to an app, as a gateway would, and sends no request on it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use tokio::runtime::{Builder, LocalOptions};

use crate::{
    forward::{
        ForwardSettings,
        metrics::ForwardMetrics,
        pool::{Pool, PoolKey},
    },
    model::{app::App, concurrency_limit::Holder},
    ops::{
        metrics::{AppLabels, Registry},
        request_metrics::DeadlineMetrics,
    },
};

/// The result of a connection attempt.
pub(super) struct Attempt {
    pub(super) is_connected: bool,
    /// A line for the explanation.
    pub(super) text: String,
}

/// Connects within the deadline of the settings.
///
/// # Errors
/// The runtime cannot start.
pub(super) fn connect(app: &Arc<App>, settings: ForwardSettings) -> anyhow::Result<Attempt> {
    // The forwarder spawns tasks that stay on its thread.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    Ok(runtime.block_on(attempt(app, settings)))
}

/// Connects to each upstream of the app.
async fn attempt(app: &Arc<App>, settings: ForwardSettings) -> Attempt {
    let metrics =
        ForwardMetrics::register(&Registry::new(), DeadlineMetrics::default(), AppLabels::Off);
    let pool = Pool::new(settings, Arc::new(metrics));
    let members = app.group.as_ref().map_or(1, |group| group.members().len());
    let mut attempt = Attempt {
        is_connected: false,
        text: String::new(),
    };
    for server in 0..members {
        attempt.add(&pool, app, server).await;
    }
    attempt
}

impl Attempt {
    /// The app can be reached if one of its upstreams accepts connections.
    async fn add(&mut self, pool: &Pool, app: &Arc<App>, server: usize) {
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let key = PoolKey {
            server,
            client: app.spec.proxy_protocol.then_some(client),
        };
        let upstream = app.upstream_at(server);
        let started = Instant::now();
        match pool.connect(app, key, Holder::Unknown).await {
            Ok(_) => {
                let elapsed = started.elapsed().as_millis();
                self.is_connected = true;
                self.text += &format!(
                    "connect   {upstream} accepts connections ({elapsed} ms); no request was sent\n"
                );
            }
            Err(fault) => {
                let outcome = fault.reason();
                let cause = app.upstream_health.cause(outcome);
                let cause = cause.map_or_else(|| fault.to_string(), |cause| cause.to_string());
                // On one line, whatever the app has sent.
                let cause = cause.escape_debug();
                self.text += &format!("connect   {upstream}: {outcome}: {cause}\n");
            }
        }
    }
}
