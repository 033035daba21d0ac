//! The straight line: peer → incoming → route → catalog → caller → authorize → forward.
//!
//! A [`Gateway`] is what all threads share; a [`DataThread`](thread::DataThread) walks the line.
//! Any early end is a [`Decision`](decision::Decision); `respond` alone makes responses of
//! decisions, and the line logs once.

pub mod access_log;
pub mod address_token;
pub mod answer;
pub mod connection;
pub mod console_token;
pub mod consult;
pub mod decide;
pub mod decision;
pub mod endpoints;
pub mod form_budget;
pub mod locate;
pub mod metrics;
pub mod pages;
pub mod parked;
pub mod recognised;
pub mod request_id;
pub mod respond;
pub mod return_to;
pub mod sign_in_rate;
pub mod still_allowed;
pub mod tenant;
pub mod thread;
pub mod tunnel;

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::{
    arvados::tokens::ArvadosTokens,
    catalog::Catalog,
    cluster::pod_logs::PodLogs,
    forward::{self, metrics::ForwardMetrics},
    identity::{oidc::Oidc, rechecks::Rechecks},
    model::{clock::Clock, policy_changes::PolicyChanges},
    ops::line_sink::LineSink,
    session::Sessions,
};
use form_budget::FormBudget;
use metrics::GatewayMetrics;
use sign_in_rate::SignInRate;

/// What every data thread shares.
#[derive(Debug)]
pub struct Gateway {
    /// Which apps there are.
    pub catalog: Catalog,
    /// Who is signed in.
    pub sessions: Arc<Sessions>,
    /// The provider's client; `None`: nobody can sign in, public apps only.
    pub oidc: Option<Arc<Oidc>>,
    /// Asks the provider again about who is signed in; `None`: nobody can sign in.
    pub rechecks: Option<Arc<Rechecks>>,
    /// Tokens of Arvados; `None`: they are no credentials.
    pub arvados: Option<Arc<ArvadosTokens>>,
    /// The logs of apps' pods; `None`: they are not served.
    pub logs: Option<PodLogs>,
    /// What may be collected before anybody is authorised.
    pub forms: FormBudget,
    /// How often one client may sign in.
    pub sign_in_rate: SignInRate,
    /// Time.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Arc<GatewayMetrics>,
    /// What the forwarder counts.
    pub forward_metrics: Arc<ForwardMetrics>,
    /// Rings when streams must be judged again.
    pub policy_changes: PolicyChanges,
    /// Where request lines go.
    pub log: LineSink,
    /// Deadlines towards apps.
    pub forward: forward::ForwardSettings,
    /// The runtime for everything that is not a request.
    pub control: Handle,
}
