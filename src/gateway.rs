//! The state that all data threads share.

pub mod metrics;
pub mod sign_in_rate;

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;

use crate::{
    body_budget::BodyBudget,
    caller::Callers,
    catalog::Catalog,
    cluster::pod_logs::PodLogs,
    forward::{ForwardSettings, metrics::ForwardMetrics},
    identity::{
        assertion::AssertionSigner,
        oidc::{Oidc, providers::SignInProvider},
        rechecks::Rechecks,
    },
    model::{
        clock::{Clock, Moment},
        policy_changes::PolicyChanges,
    },
    ops::line_sink::LineSink,
    session::{Sessions, record::SignIn},
};
use metrics::GatewayMetrics;
use sign_in_rate::SignInRate;

/// The state of the gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The apps.
    pub catalog: Catalog,
    /// Identifies callers.
    pub callers: Callers,
    /// The sessions of signed-in people.
    pub sessions: Arc<Sessions>,
    /// The client of the identity providers; `None`: public apps only.
    pub oidc: Option<Arc<Oidc>>,
    /// Rechecks group membership in the background; `None`: there is no identity provider.
    pub rechecks: Option<Arc<Rechecks>>,
    /// Signs identities for apps; `None`: there are no keys.
    pub assertions: Option<Arc<AssertionSigner>>,
    /// The logs of apps' pods; `None`: not served.
    pub logs: Option<PodLogs>,
    /// Limits the bodies that are collected before the request is authorized.
    pub forms: BodyBudget,
    /// Limits how often one client may sign in.
    pub sign_in_rate: SignInRate,
    /// Anonymous requests count as uses of an idle app at most once in this time; `None`: never.
    pub anonymous_use_interval: Option<Duration>,
    /// Time.
    pub clock: Clock,
    /// The time since which uses of apps are recorded.
    pub started: Moment,
    /// Metrics of requests, decisions and streams.
    pub metrics: Arc<GatewayMetrics>,
    /// Metrics of the forwarder.
    pub forward_metrics: Arc<ForwardMetrics>,
    /// Notifies when streams must be checked again.
    pub policy_changes: PolicyChanges,
    /// Where access-log lines go.
    pub log: LineSink,
    /// Deadlines and limits towards apps.
    pub forward: ForwardSettings,
    /// The runtime for everything that is not a request.
    pub control: Handle,
}

impl Gateway {
    /// The provider of a sign-in; `None`: it is not configured any more.
    pub fn provider(&self, sign_in: &SignIn) -> Option<&Arc<SignInProvider>> {
        self.oidc.as_ref()?.providers.of_sign_in(sign_in)
    }

    /// Revokes the refresh token of an ended sign-in at the provider, in the background.
    pub fn revoke_at_provider(&self, sign_in: &Arc<SignIn>) {
        if let Some(provider) = self.provider(sign_in) {
            let (provider, sign_in) = (provider.clone(), sign_in.clone());
            self.control
                .spawn(async move { provider.logout.revoke_refresh_token(&sign_in).await });
        }
    }
}
