//! Two services of labs that share operations in a Redis. One of them can be killed.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use ludgate::{
    ops::{metrics::Registry, redis::StoreMetrics},
    session::keys::KeyRing,
};
use ludgate_labs::{
    error::LabError,
    events::LabEvent,
    service::{OperationStoreSettings, lab_service::LabService},
    state::LabStatus,
};
use redis::cmd;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::DropGuard;

use super::{
    changes::POD_PATIENCE,
    labs::{Labs, USER, caller, launch, specification},
    redis::RedisServer,
    until::holds_within,
};

/// Another replica goes on with an operation within this time (docs/labs.md).
pub const TAKEN_OVER: Duration = Duration::from_secs(15);

/// Two services and their Redis.
pub struct LabReplicas {
    /// The one that stays.
    pub labs: Labs,
    /// The one that can be killed.
    pub doomed: DoomedReplica,
    pub redis: RedisServer,
}

/// A service with a runtime of its own.
pub struct DoomedReplica {
    pub service: LabService,
    runtime: Option<Runtime>,
    _stop: DropGuard,
}

/// The events of a lab, as a listener gets them.
pub struct Listener {
    events: mpsc::UnboundedReceiver<LabEvent>,
    _task: JoinHandle<()>,
}

impl LabReplicas {
    /// Two services that take requests.
    pub async fn start() -> LabReplicas {
        let redis = RedisServer::start().await;
        // As after some time in use: its data is complete.
        let mut begun = cmd("SET");
        begun.arg("ludgate:labs:epoch").arg(1);
        redis.run::<()>(&begun).await;
        let labs = Labs::sharing(store(&redis)).await;
        let doomed = DoomedReplica::start(&labs, store(&redis)).await;
        LabReplicas {
            labs,
            doomed,
            redis,
        }
    }

    /// Waits until both take requests, or neither does.
    pub async fn until_ready(&self, wanted: bool) {
        let services = [&self.labs.service, &self.doomed.service];
        let are_ready = holds_within(POD_PATIENCE, async || {
            services
                .iter()
                .all(|service| service.is_leading() == wanted)
        });
        assert!(are_ready.await, "not {wanted} with both");
    }

    /// The status at both, as requests get it.
    pub async fn statuses(&self) -> [Option<LabStatus>; 2] {
        let mut statuses = [None; 2];
        let services = [&self.labs.service, &self.doomed.service];
        for (status, service) in statuses.iter_mut().zip(services) {
            service.refresh(USER).await;
            *status = service.get(USER).ok().map(|state| state.status);
        }
        statuses
    }

    /// Waits until both say so.
    pub async fn until_statuses(&self, wanted: Option<LabStatus>) {
        let mut last = [None; 2];
        let are_so = holds_within(POD_PATIENCE, async || {
            last = self.statuses().await;
            last == [wanted; 2]
        });
        let are_so = are_so.await;
        assert!(are_so, "{last:?} instead of {wanted:?}");
    }
}

/// How a replica uses the Redis.
fn store(redis: &RedisServer) -> OperationStoreSettings {
    let registry = Registry::new();
    OperationStoreSettings {
        redis: redis.settings(),
        keys: Arc::new(KeyRing::from_file(&redis.keys_file()).expect("keys")),
        metrics: StoreMetrics::register(&registry, ("commands", "Commands"), ("up", "Up")),
    }
}

impl DoomedReplica {
    async fn start(labs: &Labs, store: OperationStoreSettings) -> DoomedReplica {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let place = labs.place();
        let launched =
            runtime.spawn(async move { launch(place, "doomed", 600, Some(store)).await });
        let (service, stop, _task) = launched.await.expect("no panic");
        let leads = holds_within(POD_PATIENCE, async || service.is_leading());
        assert!(leads.await, "the second service takes no requests");
        DoomedReplica {
            service,
            runtime: Some(runtime),
            _stop: stop,
        }
    }

    /// Starts the lab. What the service does for it ends with the service.
    pub async fn create(&self, key: Option<&'static str>) -> Result<(), LabError> {
        let service = self.service.clone();
        let runtime = self.runtime.as_ref().expect("it is alive");
        let created =
            runtime.spawn(async move { service.create(&caller(None), specification(), key).await });
        created.await.expect("no panic")
    }

    /// Ends all that it does, without warning.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for DoomedReplica {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Listener {
    /// Listens to the last operation.
    pub async fn start(service: &LabService) -> Listener {
        service.refresh(USER).await;
        let mut coming = service.events(USER, None).expect("events");
        let (sender, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some((_, event)) = coming.next().await {
                let _ = sender.send(event);
            }
        });
        Listener {
            events,
            _task: task,
        }
    }

    /// The messages up to the one that begins so; without one, all.
    pub async fn messages_until(&mut self, beginning: Option<&str>) -> Vec<String> {
        let mut messages = Vec::new();
        let read = async {
            while let Some(event) = self.events.recv().await {
                messages.push(event.message);
                let last = messages.last().map(String::as_str).unwrap_or_default();
                if beginning.is_some_and(|beginning| last.starts_with(beginning)) {
                    break;
                }
            }
        };
        let is_read = tokio::time::timeout(POD_PATIENCE, read).await.is_ok();
        assert!(is_read, "no {beginning:?} after {messages:?}");
        messages
    }
}
