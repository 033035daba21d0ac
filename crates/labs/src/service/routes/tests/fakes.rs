//! Labs and callers for the tests of routes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use http::HeaderMap;
use tokio::sync::Notify;

use crate::{
    dialect::Dialect,
    error::LabError,
    events::{EventHistory, EventId, LabEvent},
    options::LabSpecification,
    quantity::{CpuCores, LabAmounts, LabResources, MemoryBytes},
    service::{
        callers::{IdentifyCaller, LabCaller, LabScope},
        operations::{LabOperations, PendingDeletion, PendingEvents},
    },
    size::NotebookQuota,
    state::{LabState, LabStatus},
    user::LabUser,
};

/// Labs in memory. A deletion ends when the test says so.
#[derive(Default)]
pub(super) struct FakeLabs {
    pub(super) labs: Mutex<BTreeMap<String, LabState>>,
    /// Of the last creation, by person.
    pub(super) keys: Mutex<BTreeMap<String, String>>,
    pub(super) deleted: Arc<Notify>,
    /// Whether the operation of each lab goes on after its events so far.
    pub(super) goes_on: bool,
}

fn person(username: &str) -> LabUser {
    LabUser {
        username: username.to_owned(),
        name: None,
        uid: 1,
        gid: 1,
        groups: Vec::new(),
        quota: Some(NotebookQuota {
            cpu: CpuCores::new(2.0).unwrap(),
            memory: MemoryBytes(2 << 30),
            may_spawn: true,
        }),
    }
}

fn unknown(username: &str) -> LabError {
    LabError::UnknownUser {
        username: username.to_owned(),
        is_in_path: false,
    }
}

fn history(goes_on: bool) -> EventHistory {
    let mut history = EventHistory::new(7);
    history.push(LabEvent::objects_created());
    if !goes_on {
        history.push(LabEvent::spawn_complete("rachel", Dialect::Nublado));
    }
    history
}

impl LabOperations for FakeLabs {
    fn create<'a>(
        &'a self,
        caller: &'a LabCaller,
        specification: LabSpecification,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), LabError>> {
        let amounts = LabAmounts {
            cpu: CpuCores::new(1.0).unwrap(),
            memory: MemoryBytes(1 << 30),
        };
        let state = LabState {
            user: person(&caller.username),
            options: specification.options,
            image: "a/b:w_2077_43@sha256:1".to_owned(),
            env: specification.env,
            status: LabStatus::Running,
            has_pod: true,
            internal_url: Some("http://lab.nublado-rachel:8888/".to_owned()),
            resources: LabResources {
                limits: amounts,
                requests: amounts,
            },
            quota: None,
        };
        let mut labs = self.labs.lock().unwrap();
        let mut keys = self.keys.lock().unwrap();
        let is_repeated = key.is_some() && keys.get(&caller.username).map(String::as_str) == key;
        let created = match labs.contains_key(&caller.username) {
            true if !is_repeated => Err(LabError::LabExists(caller.username.clone())),
            _ => Ok(()),
        };
        if let (Some(key), Ok(())) = (key, &created) {
            keys.insert(caller.username.clone(), key.to_owned());
        }
        labs.entry(caller.username.clone()).or_insert(state);
        Box::pin(async move { created })
    }

    fn delete<'a>(&'a self, username: &'a str) -> BoxFuture<'a, Result<PendingDeletion, LabError>> {
        let removed = self.labs.lock().unwrap().remove(username);
        let deleted = self.deleted.clone();
        Box::pin(async move {
            removed.ok_or_else(|| unknown(username))?;
            let pending: PendingDeletion = Box::pin(async move {
                deleted.notified().await;
                Ok(())
            });
            Ok(pending)
        })
    }

    fn get(&self, username: &str) -> Result<LabState, LabError> {
        let labs = self.labs.lock().unwrap();
        labs.get(username).cloned().ok_or_else(|| unknown(username))
    }

    fn running(&self) -> Result<Vec<String>, LabError> {
        Ok(self.labs.lock().unwrap().keys().cloned().collect())
    }

    fn history(&self, _: &str) -> Vec<LabEvent> {
        history(self.goes_on).events().to_vec()
    }

    fn events(&self, username: &str, after: Option<EventId>) -> Result<PendingEvents, LabError> {
        self.get(username)?;
        let history = history(self.goes_on);
        let events: Vec<(EventId, LabEvent)> = history
            .after(after)
            .map(|(id, event)| (id, event.clone()))
            .collect();
        Ok(match self.goes_on {
            true => stream::iter(events).chain(stream::pending()).boxed(),
            false => stream::iter(events).boxed(),
        })
    }
}

/// The caller is named by a header. `hub`, `admin`, `files` and `labs` have their scopes alone,
/// others are persons with labs and files.
pub(super) struct FakeCallers;

impl IdentifyCaller for FakeCallers {
    fn identify<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: std::net::IpAddr,
    ) -> BoxFuture<'a, Result<LabCaller, LabError>> {
        let username = headers.get("x-user").and_then(|name| name.to_str().ok());
        let caller = username.ok_or(LabError::InvalidToken).map(|username| {
            let scopes = match username {
                "hub" => BTreeSet::from([LabScope::Hub]),
                "admin" => BTreeSet::from([LabScope::Admin]),
                "files" => BTreeSet::from([LabScope::Files]),
                "labs" => BTreeSet::from([LabScope::Notebook]),
                _ => BTreeSet::from([LabScope::Notebook, LabScope::Files]),
            };
            LabCaller {
                username: username.to_owned(),
                scopes,
                token: None,
                user: None,
            }
        });
        Box::pin(async move { caller })
    }

    fn complete(&self, caller: LabCaller) -> BoxFuture<'_, Result<LabCaller, LabError>> {
        let user = Some(person(&caller.username));
        Box::pin(async move { Ok(LabCaller { user, ..caller }) })
    }
}
