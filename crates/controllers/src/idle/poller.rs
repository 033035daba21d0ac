//! Polls the admin listeners of all gateways.
//!
//! Plain http, as probes and metrics: the listener is on the network of the cluster, and Host must
//! be an address there. So `HttpClient`, which calls other machines by https only, does not fit.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    net::SocketAddr,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use ludgate_model::{
    clock::{Clock, Moment, millis},
    error_cause::chain_text,
};
use ludgate_ops::metrics::Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio::{net::lookup_host, time::timeout};

use super::{
    gateway_activity::GatewayActivity,
    report::{self, GatewayReport, InvalidReport, MAX_REPORT},
    settings::{GatewayAddress, IdleSettings},
};

/// Time from one round of polls to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Deadline of one poll, and of one resolution of a name.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pause between two warnings about one gateway.
const WARNING_PAUSE: Duration = Duration::from_secs(60);
/// Unused connections are closed after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Polls all gateways once a second.
pub struct GatewayPoller {
    settings: IdleSettings,
    activity: GatewayActivity,
    clock: Clock,
    client: Client<HttpConnector, Empty<Bytes>>,
    polls: Family<PollLabels, Counter>,
    /// The addresses of each of the settings' gateways when its name was resolved last.
    addresses: Vec<Vec<SocketAddr>>,
    /// When a warning about a gateway was logged.
    warned: HashMap<String, Moment>,
}

/// Labels of a poll.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabels {
    result: &'static str,
}

/// Why a poll failed.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("its name cannot be resolved")]
    Unresolved(#[source] io::Error),
    #[error("the request cannot be built")]
    Request(#[from] http::Error),
    #[error("it cannot be reached")]
    Unreachable(#[source] hyper_util::client::legacy::Error),
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Timeout,
    #[error("it answers {0}; the token must be that of its [admin]")]
    Status(StatusCode),
    #[error("its report is incomplete or larger than 8 MiB")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("its report is not understood")]
    Report(#[from] InvalidReport),
}

impl PollError {
    fn result(&self) -> &'static str {
        match self {
            PollError::Unresolved(_) => "unresolved",
            PollError::Request(_) | PollError::Unreachable(_) => "unreachable",
            PollError::Timeout => "timeout",
            PollError::Status(_) => "refused",
            PollError::Body(_) | PollError::Report(_) => "invalid",
        }
    }
}

impl GatewayPoller {
    /// A poller that has not polled yet.
    pub fn new(settings: IdleSettings, clock: Clock, registry: &Registry) -> GatewayPoller {
        let polls = Family::<PollLabels, Counter>::default();
        registry.register(
            "controller_gateway_polls",
            "Polls of the gateways' activity by result",
            polls.clone(),
        );
        GatewayPoller {
            activity: GatewayActivity::new(clock.clone()),
            clock,
            client: Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(KEEP_ALIVE)
                .build(HttpConnector::new()),
            polls,
            addresses: vec![Vec::new(); settings.gateways.len()],
            settings,
            warned: HashMap::new(),
        }
    }

    /// The uses that it finds.
    pub fn activity(&self) -> GatewayActivity {
        self.activity.clone()
    }

    /// Polls for as long as the process runs. Also the replicas that do not lead poll, so that one
    /// that takes over knows what its predecessor knew.
    pub async fn run(mut self) {
        loop {
            let next = self.clock.now().after(INTERVAL);
            self.poll().await;
            self.clock.sleep_until(next).await;
        }
    }

    /// Polls every gateway once. Each answer counts as soon as it is there.
    async fn poll(&mut self) {
        let is_resolved = self.resolve().await;
        let addresses: BTreeSet<SocketAddr> = self.addresses.iter().flatten().copied().collect();
        self.activity.set_gateways(&addresses, is_resolved);
        let polls = addresses.iter().map(|address| self.poll_gateway(*address));
        let failures = join_all(polls).await;
        for (address, error) in failures.into_iter().flatten() {
            self.warn(address.to_string(), &error);
        }
    }

    /// Resolves all names. Those that cannot be resolved now keep their addresses, since their
    /// gateways may still wake apps. Returns whether all were resolved.
    async fn resolve(&mut self) -> bool {
        let gateways = self.settings.gateways.clone();
        let resolved = join_all(gateways.iter().map(resolve)).await;
        let slots = self.addresses.iter_mut();
        let mut failures = Vec::new();
        for ((gateway, resolved), slot) in gateways.iter().zip(resolved).zip(slots) {
            match resolved {
                Ok(addresses) => *slot = addresses,
                Err(error) => failures.push((gateway.to_string(), error)),
            }
        }
        let is_complete = failures.is_empty();
        for (gateway, error) in failures {
            self.count(error.result());
            self.warn(gateway, &error);
        }
        is_complete
    }

    /// Polls a gateway. Returns its address with the error if it failed.
    async fn poll_gateway(&self, address: SocketAddr) -> Option<(SocketAddr, PollError)> {
        let sent = self.clock.now();
        let within = self.activity.within(address);
        let fetched = match timeout(DEADLINE, self.fetch(address, within)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(PollError::Timeout),
        };
        match fetched {
            Ok(report) => {
                self.count("ok");
                self.activity.merge(address, sent, report);
                None
            }
            Err(error) => {
                self.count(error.result());
                self.activity.poll_failed(address);
                Some((address, error))
            }
        }
    }

    async fn fetch(
        &self,
        address: SocketAddr,
        within: Duration,
    ) -> Result<GatewayReport, PollError> {
        let seconds = within.as_millis().div_ceil(1000);
        let token = self.settings.token.expose();
        let request = Request::get(format!("http://{address}/activity?within={seconds}"))
            .header(header::HOST, address.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Empty::new())?;
        let response = self.client.request(request).await;
        let response = response.map_err(PollError::Unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(PollError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_REPORT).collect();
        let body = body.await.map_err(PollError::Body)?.to_bytes();
        Ok(report::parse(&body)?)
    }

    fn count(&self, result: &'static str) {
        self.polls.get_or_create(&PollLabels { result }).inc();
    }

    /// Logs a failure, unless one of this gateway was logged within the last minute.
    fn warn(&mut self, gateway: String, error: &PollError) {
        let now = self.clock.now();
        self.warned
            .retain(|_, logged| now.0.saturating_sub(logged.0) < millis(WARNING_PAUSE));
        if self.warned.contains_key(&gateway) {
            return;
        }
        tracing::warn!(gateway, error = chain_text(error), "cannot poll a gateway");
        self.warned.insert(gateway, now);
    }
}

/// All addresses of a gateway's name.
async fn resolve(gateway: &GatewayAddress) -> Result<Vec<SocketAddr>, PollError> {
    let lookup = lookup_host((gateway.host.as_str(), gateway.port));
    let found = match timeout(DEADLINE, lookup).await {
        Ok(found) => found.map_err(PollError::Unresolved)?,
        Err(_) => return Err(PollError::Unresolved(io::ErrorKind::TimedOut.into())),
    };
    let addresses: Vec<SocketAddr> = found.collect();
    match addresses.is_empty() {
        true => Err(PollError::Unresolved(io::ErrorKind::NotFound.into())),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests;
