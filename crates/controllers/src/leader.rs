//! Leader election by a Lease, as Kubernetes' own controllers do it: of several replicas, one
//! works.
//!
//! Times of other processes are never compared with this one's clock. A lease counts as abandoned
//! when this process has seen no change of it for its duration.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use ludgate_cluster::deadline::{ApiCallError, with_deadline};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

/// Another process may take over after this time without a renewal.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The leader stops its work if it could not renew for this time, before another one may begin.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Deadline of one call, so that a hanging API cannot hide a lost lease.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Competes for one lease.
pub struct LeaderElector {
    api: Api<Lease>,
    name: String,
    identity: String,
    /// The last seen version of the lease, and when it was first seen.
    observed: Option<(String, Instant)>,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// This process holds the lease.
    Held,
    /// Another process does.
    HeldByOther,
}

impl LeaderElector {
    /// Competes for the lease `name`. `identity` must be unique: two processes of one identity
    /// would both lead.
    pub fn new(client: Client, namespace: &str, name: &str, identity: String) -> LeaderElector {
        LeaderElector {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity,
            observed: None,
        }
    }

    /// Runs `work` for as long as this process is the leader, again and again, until `stopping`.
    /// Then releases the lease, so that another process need not wait. `is_leader` follows.
    pub async fn run<F: Future<Output = ()>>(
        mut self,
        is_leader: watch::Sender<bool>,
        mut work: impl FnMut() -> F,
        stopping: impl Future<Output = ()>,
    ) {
        let election = async {
            loop {
                let renewed = self.acquire().await;
                tracing::info!(lease = self.name, identity = self.identity, "leading");
                is_leader.send_replace(true);
                tokio::select! {
                    () = work() => {}
                    () = self.renew(renewed) => {}
                }
                is_leader.send_replace(false);
                tracing::warn!(lease = self.name, "the lease is lost; no longer leading");
            }
        };
        tokio::select! {
            () = election => {}
            () = stopping => {}
        }
        if *is_leader.borrow() {
            is_leader.send_replace(false);
            self.release().await;
        }
    }

    /// Waits until the lease is this process's. Returns the time before it was written.
    async fn acquire(&mut self) -> Instant {
        loop {
            let started = Instant::now();
            match self.try_acquire_or_renew().await {
                Ok(Attempt::Held) => return started,
                Ok(Attempt::HeldByOther) => {}
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot acquire the lease");
                }
            }
            sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews the lease until it is lost. The deadline also ends a call that hangs.
    async fn renew(&mut self, mut renewed: Instant) {
        loop {
            let attempt = async {
                sleep(RETRY_PERIOD).await;
                let started = Instant::now();
                (started, self.try_acquire_or_renew().await)
            };
            match timeout_at(renewed + RENEW_DEADLINE, attempt).await {
                Ok((started, Ok(Attempt::Held))) => renewed = started,
                Ok((_, Ok(Attempt::HeldByOther))) | Err(_) => return,
                Ok((_, Err(error))) => {
                    tracing::warn!(lease = self.name, %error, "cannot renew the lease");
                }
            }
        }
    }

    /// Gets the lease if it is free or abandoned, or renews it.
    async fn try_acquire_or_renew(&mut self) -> Result<Attempt, ApiCallError> {
        let Some(lease) = with_deadline(CALL_TIMEOUT, self.api.get_opt(&self.name)).await? else {
            let lease = self.renewed(Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                ..Lease::default()
            });
            return lost_if_conflict(
                with_deadline(
                    CALL_TIMEOUT,
                    self.api.create(&PostParams::default(), &lease),
                )
                .await,
            );
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let since = match &self.observed {
            Some((seen, since)) if *seen == version => *since,
            Some(_) | None => Instant::now(),
        };
        self.observed = Some((version, since));
        if !self.is_own(&lease) && !is_free(&lease) && since.elapsed() < LEASE_DURATION {
            return Ok(Attempt::HeldByOther);
        }
        let lease = self.renewed(lease);
        // With the version that was read: of two processes, one gets a conflict.
        let parameters = PostParams::default();
        let replaced = with_deadline(
            CALL_TIMEOUT,
            self.api.replace(&self.name, &parameters, &lease),
        )
        .await;
        lost_if_conflict(replaced)
    }

    fn is_own(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }

    fn renewed(&self, lease: Lease) -> Lease {
        let now = Some(MicroTime(Timestamp::now()));
        let is_own = self.is_own(&lease);
        let before = lease.spec.unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: if is_own {
                before.acquire_time
            } else {
                now.clone()
            },
            renew_time: now,
            lease_transitions: Some(if is_own { transitions } else { transitions + 1 }),
            ..before
        };
        Lease {
            spec: Some(spec),
            ..lease
        }
    }

    async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(&self.name).await?;
            if self.is_own(&lease)
                && let Some(spec) = &mut lease.spec
            {
                spec.holder_identity = None;
                self.api
                    .replace(&self.name, &PostParams::default(), &lease)
                    .await?;
            }
            Ok(())
        };
        if let Err(error) = with_deadline(CALL_TIMEOUT, released).await {
            tracing::warn!(lease = self.name, %error, "cannot release the lease");
        }
    }
}

/// A conflict means that another process was faster.
fn lost_if_conflict(written: Result<Lease, ApiCallError>) -> Result<Attempt, ApiCallError> {
    match written {
        Ok(_) => Ok(Attempt::Held),
        Err(ApiCallError::Api(kube::Error::Api(status))) if status.code == 409 => {
            Ok(Attempt::HeldByOther)
        }
        Err(error) => Err(error),
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_ref();
    holder.filter(|holder| !holder.is_empty())
}

fn is_free(lease: &Lease) -> bool {
    holder(lease).is_none()
}
