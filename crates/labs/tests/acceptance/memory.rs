//! Labs in memory, made by the same functions as those of the service: for routes without a
//! cluster. The pods do what a test says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use ludgate_labs::{
    config::LabsConfig,
    dialect::Dialect,
    error::LabError,
    events::{EventHistory, EventId, LabEvent, PodProgress},
    images::{ImageCatalog, ImageResolution},
    names::LabNames,
    options::{LabSpecification, SERVICE_PREFIX},
    service::{
        callers::LabCaller,
        operations::{LabOperations, PendingDeletion, PendingEvents},
    },
    state::{LabState, LabStatus},
};
use tokio::sync::watch;

/// What labs are made from.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) config: Arc<LabsConfig>,
    pub(crate) catalog: Arc<ImageCatalog>,
    pub(crate) dialect: Dialect,
}

/// Labs in memory.
pub(crate) struct MemoryLabs {
    site: Site,
    /// Whether a pod runs as soon as it is made.
    runs_at_once: bool,
    operations: AtomicU64,
    labs: Mutex<BTreeMap<String, MemoryLab>>,
}

struct MemoryLab {
    /// `None` after the lab was deleted.
    state: Option<LabState>,
    events: watch::Sender<EventHistory>,
    progress: PodProgress,
}

impl MemoryLab {
    fn push(&self, event: LabEvent) {
        self.events.send_modify(|history| {
            history.push(event);
        });
    }
}

fn unknown(username: &str) -> LabError {
    LabError::UnknownUser {
        username: username.to_owned(),
        is_in_path: false,
    }
}

impl MemoryLabs {
    pub(crate) fn new(site: Site, runs_at_once: bool) -> MemoryLabs {
        MemoryLabs {
            site,
            runs_at_once,
            operations: AtomicU64::new(1),
            labs: Mutex::default(),
        }
    }

    fn labs(&self) -> MutexGuard<'_, BTreeMap<String, MemoryLab>> {
        self.labs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_history(&self) -> EventHistory {
        EventHistory::new(self.operations.fetch_add(1, Ordering::Relaxed))
    }

    fn start(&self, caller: &LabCaller, specification: LabSpecification) -> Result<(), LabError> {
        let username = &caller.username;
        let no_identity = || LabError::NoPosixIdentity(username.clone());
        let user = caller.user.clone().ok_or_else(no_identity)?;
        if user.quota.is_some_and(|quota| !quota.may_spawn) {
            return Err(LabError::SpawnNotAllowed);
        }
        let Site {
            config,
            catalog,
            dialect,
        } = &self.site;
        let options = specification.options;
        let image = match catalog.resolve(&options.image, *dialect)? {
            ImageResolution::Image(image) => *image,
            ImageResolution::NeedsDigest(image) => image.with_digest("sha256:0a".to_owned()),
        };
        let size = *config.lab.checked_size(&options, user.quota.as_ref())?;
        let before = self.status(username);
        if before == Some(LabStatus::Pending) {
            return Err(LabError::OperationInProgress(username.clone()));
        }
        if before.is_some_and(|before| !before.is_dead()) {
            return Err(LabError::LabExists(username.clone()));
        }
        let mut history = self.new_history();
        history.push(LabEvent::spawn_started(username, *dialect));
        if before.is_some() {
            for step in LabEvent::replacement_steps(username) {
                history.push(step);
            }
        }
        let state = LabState {
            options,
            image: image.pinned_reference(),
            env: specification.env,
            status: LabStatus::Pending,
            has_pod: false,
            internal_url: None,
            resources: size.resources,
            quota: user.quota.map(|quota| quota.amounts()),
            user,
        };
        let lab = MemoryLab {
            state: Some(state),
            events: watch::Sender::new(history),
            progress: PodProgress::default(),
        };
        self.labs().insert(username.clone(), lab);
        if self.runs_at_once {
            self.pod_is_made(username);
            self.pod_runs(username);
        }
        Ok(())
    }

    fn change(&self, username: &str, change: impl FnOnce(&mut MemoryLab, &mut LabState)) {
        let mut labs = self.labs();
        let lab = labs.get_mut(username).expect("a lab");
        let mut state = lab.state.take().expect("a lab that is not deleted");
        change(lab, &mut state);
        lab.state = Some(state);
    }

    /// All objects were made.
    pub(crate) fn pod_is_made(&self, username: &str) {
        self.change(username, |lab, state| {
            state.has_pod = true;
            lab.push(LabEvent::objects_created());
        });
    }

    /// Kubernetes says something about the pod.
    pub(crate) fn pod_event(&self, username: &str, message: &str) {
        self.change(username, |lab, _| {
            let progress = lab.progress.advance();
            lab.push(LabEvent::info(message, progress));
        });
    }

    /// The pod runs.
    pub(crate) fn pod_runs(&self, username: &str) {
        let Site {
            config, dialect, ..
        } = &self.site;
        let names = LabNames::new(username, &config.lab, *dialect);
        self.change(username, |lab, state| {
            state.status = LabStatus::Running;
            let prefix = state.env.get(SERVICE_PREFIX).map_or("", String::as_str);
            state.internal_url = Some(names.internal_url(prefix));
            lab.push(LabEvent::spawn_complete(username, *dialect));
        });
    }

    /// The pod of a lab that runs is in another phase.
    pub(crate) fn pod_is_in(&self, username: &str, phase: &str) {
        self.change(username, |_, state| {
            state.status = LabStatus::from_phase(Some(phase));
        });
    }

    /// The start fails.
    pub(crate) fn spawn_fails(&self, username: &str, error: LabEvent) {
        self.change(username, |lab, state| {
            state.status = LabStatus::Failed;
            lab.push(error);
            lab.push(LabEvent::spawn_failed());
        });
    }

    fn status(&self, username: &str) -> Option<LabStatus> {
        let labs = self.labs();
        Some(labs.get(username)?.state.as_ref()?.status)
    }

    fn stop(&self, username: &str) -> Result<(), LabError> {
        let mut labs = self.labs();
        let lab = labs
            .get_mut(username)
            .filter(|lab| lab.state.is_some())
            .ok_or_else(|| unknown(username))?;
        lab.state = None;
        let mut history = self.new_history();
        for step in LabEvent::delete_steps(username) {
            history.push(step);
        }
        // Listeners of a spawn that is cancelled.
        lab.push(LabEvent::cancelled());
        lab.events = watch::Sender::new(history);
        Ok(())
    }
}

impl LabOperations for MemoryLabs {
    fn create<'a>(
        &'a self,
        caller: &'a LabCaller,
        specification: LabSpecification,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), LabError>> {
        Box::pin(async move { self.start(caller, specification) })
    }

    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<PendingDeletion, LabError>> {
        Box::pin(async move {
            self.stop(username)?;
            let deleted: PendingDeletion = Box::pin(async { Ok(()) });
            Ok(deleted)
        })
    }

    fn get(&self, username: &str) -> Result<LabState, LabError> {
        let labs = self.labs();
        let state = labs.get(username).and_then(|lab| lab.state.clone());
        state.ok_or_else(|| unknown(username))
    }

    fn running(&self) -> Result<Vec<String>, LabError> {
        let labs = self.labs();
        let runs = |lab: &MemoryLab| {
            let state = lab.state.as_ref();
            state.is_some_and(|state| state.status == LabStatus::Running)
        };
        let running = labs.iter().filter(|(_, lab)| runs(lab));
        Ok(running.map(|(username, _)| username.clone()).collect())
    }

    fn history(&self, username: &str) -> Vec<LabEvent> {
        let labs = self.labs();
        labs.get(username)
            .map_or_else(Vec::new, |lab| lab.events.borrow().events().to_vec())
    }

    fn events(&self, username: &str, after: Option<EventId>) -> Result<PendingEvents, LabError> {
        let labs = self.labs();
        let lab = labs.get(username).ok_or_else(|| unknown(username))?;
        Ok(live(lab.events.subscribe(), after))
    }
}

/// The events so far and those to come, until the operation ends.
fn live(history: watch::Receiver<EventHistory>, after: Option<EventId>) -> PendingEvents {
    let events = stream::unfold((history, after), |(mut history, last)| async move {
        loop {
            let (next, is_over) = {
                let history = history.borrow_and_update();
                let next = history.after(last).next();
                let next = next.map(|(id, event)| (id, event.clone()));
                (next, history.is_over())
            };
            if let Some((id, event)) = next {
                return Some(((id, event), (history, Some(id))));
            }
            if is_over || history.changed().await.is_err() {
                return None;
            }
        }
    });
    events.boxed()
}
