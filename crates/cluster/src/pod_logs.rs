//! Logs of pods, as the API streams them, and the label that names the app of a pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ApiResource, LogParams, Request},
    client::Body,
};
use ludgate_model::dns;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::sleep,
};

use super::{
    Cluster,
    crd::application::{APP_LABEL, SERVICE_PREFIX},
    object::Object,
};

/// Deadline for the look-up of a pod, and for the head of a log.
const DEADLINE: Duration = Duration::from_secs(10);
/// Logs read at once: each holds a connection to the API server.
const MAX_LOGS: usize = 64;
/// Logs that one person reads at once.
const MAX_LOGS_PER_PERSON: usize = 4;
/// Pause before a container that waits to start is asked for its log again.
const START_PAUSE: Duration = Duration::from_secs(1);

/// The lines of a log, as they come.
pub type PodLogBody = UnsyncBoxBody<Bytes, kube::Error>;

type LogFrame = Result<Frame<Bytes>, kube::Error>;

/// Whether a pod can have this name. It becomes a part of a URL of the API.
pub fn is_pod_name(name: &str) -> bool {
    dns::is_subdomain(name)
}

/// Reads logs of pods. Clones share the limits.
#[derive(Clone, Debug)]
pub struct PodLogs {
    cluster: Cluster,
    permits: Arc<Semaphore>,
    /// Permits in use, by subject.
    people: Arc<Mutex<HashMap<Box<str>, usize>>>,
}

/// Permission to read one log. Dropping it returns it to the limit.
#[derive(Debug)]
pub struct LogPermit {
    people: Arc<Mutex<HashMap<Box<str>, usize>>>,
    subject: Box<str>,
    _permit: OwnedSemaphorePermit,
}

/// A pod and the app that its label names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOfApp {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Value of the label [`APP_LABEL`].
    pub label: String,
}

impl PodOfApp {
    /// The PhApplications that the label may name. If both exist, the owner of the pod is
    /// ambiguous.
    pub fn apps(&self) -> impl Iterator<Item = &str> {
        [Some(&*self.label), self.label.strip_prefix(SERVICE_PREFIX)]
            .into_iter()
            .flatten()
    }
}

/// The part of a log to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Continue with lines that are written later.
    pub follow: bool,
    /// Number of lines from the end; `None`: all.
    pub tail_lines: Option<i64>,
    /// The container, where a pod has several.
    pub container: Option<String>,
}

/// An open log. Dropping it ends the read.
pub struct PodLog {
    /// The lines of the log.
    pub body: PodLogBody,
    /// Held while the log is read.
    pub permit: LogPermit,
}

/// The reasons for which a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PodLogError {
    /// The pod does not exist, or belongs to no app.
    #[error("there is no such pod")]
    NotFound,
    /// The API rejected the query, such as one without a container; its message.
    #[error("{0}")]
    Refused(String),
    /// The limit of logs read at once is reached.
    #[error("too many logs are read at once")]
    Busy,
    /// The API does not answer, or denies access.
    #[error("the Kubernetes API: {0}")]
    Unavailable(String),
}

impl From<kube::Error> for PodLogError {
    fn from(error: kube::Error) -> PodLogError {
        let kube::Error::Api(status) = &error else {
            return PodLogError::Unavailable(error.to_string());
        };
        match status.code {
            404 => PodLogError::NotFound,
            400 => PodLogError::Refused(status.message.clone()),
            _ => PodLogError::Unavailable(error.to_string()),
        }
    }
}

impl PodLogs {
    /// A reader for the pods of one cluster.
    pub fn new(cluster: Cluster) -> PodLogs {
        PodLogs {
            cluster,
            permits: Arc::new(Semaphore::new(MAX_LOGS)),
            people: Arc::default(),
        }
    }

    /// Acquires a permit for a person. The API is called only with one.
    ///
    /// # Errors
    /// [`PodLogError::Busy`].
    pub fn acquire(&self, subject: &str) -> Result<LogPermit, PodLogError> {
        let permit = self
            .permits
            .clone()
            .try_acquire_owned()
            .map_err(|_| PodLogError::Busy)?;
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = people.entry(subject.into()).or_default();
        if *theirs >= MAX_LOGS_PER_PERSON {
            return Err(PodLogError::Busy);
        }
        *theirs += 1;
        Ok(LogPermit {
            people: self.people.clone(),
            subject: subject.into(),
            _permit: permit,
        })
    }

    /// Finds the pod of an app in the namespaces that are served. Runs on the control runtime.
    ///
    /// # Errors
    /// [`PodLogError::NotFound`] also for a pod that belongs to no app.
    pub async fn find(&self, pod: &str) -> Result<PodOfApp, PodLogError> {
        if !is_pod_name(pod) {
            return Err(PodLogError::NotFound);
        }
        for namespace in &self.cluster.settings().namespaces {
            let Some(found) = within(self.pods(namespace).get_opt(pod)).await? else {
                continue;
            };
            let Some(label) = kube::ResourceExt::labels(&found).get(APP_LABEL) else {
                continue;
            };
            return Ok(PodOfApp {
                namespace: namespace.clone(),
                pod: pod.to_owned(),
                label: label.clone(),
            });
        }
        Err(PodLogError::NotFound)
    }

    /// Opens a log. Runs on the control runtime; the body may be read on any.
    ///
    /// A container that waits to start has an empty log. If it is followed, its lines come once it
    /// has started.
    ///
    /// # Errors
    /// See [`PodLogError`].
    pub async fn read(
        &self,
        pod: &PodOfApp,
        query: &LogQuery,
        permit: LogPermit,
    ) -> Result<PodLog, PodLogError> {
        let body = match self.open(pod, query).await? {
            Some(body) => body,
            None if query.follow => self.follow_once_started(pod, query),
            None => Body::empty().boxed_unsync(),
        };
        Ok(PodLog { body, permit })
    }

    /// Opens a log; `None`: the container waits to start.
    async fn open(
        &self,
        pod: &PodOfApp,
        query: &LogQuery,
    ) -> Result<Option<PodLogBody>, PodLogError> {
        let parameters = LogParams {
            follow: query.follow,
            tail_lines: query.tail_lines,
            container: query.container.clone(),
            ..LogParams::default()
        };
        let url = format!("/api/v1/namespaces/{}/pods", pod.namespace);
        let request = Request::new(url)
            .logs(&pod.pod, &parameters)
            .map_err(|error| PodLogError::Unavailable(error.to_string()))?;
        let response = within(
            self.cluster
                .streaming_client()
                .send(request.map(Body::from)),
        )
        .await?;
        match response.status() {
            StatusCode::OK => Ok(Some(response.into_body().boxed_unsync())),
            StatusCode::NOT_FOUND => Err(PodLogError::NotFound),
            // Also for a container that waits to start; only the text of the answer differs.
            StatusCode::BAD_REQUEST => {
                let reason = message(response).await;
                let found = within(self.pods(&pod.namespace).get_opt(&pod.pod)).await?;
                let found = found.ok_or(PodLogError::NotFound)?;
                match waited_to_start(&found, query.container.as_deref()) {
                    true => Ok(None),
                    false => Err(PodLogError::Refused(reason)),
                }
            }
            status => Err(PodLogError::Unavailable(format!(
                "{status}: {}",
                message(response).await
            ))),
        }
    }

    /// The log of a container that waits to start. Its task ends with the body.
    fn follow_once_started(&self, pod: &PodOfApp, query: &LogQuery) -> PodLogBody {
        let (sender, mut frames) = mpsc::channel(1);
        let (logs, pod, query) = (self.clone(), pod.clone(), query.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = logs.relay_once_started(&pod, &query, &sender) => {}
            }
        });
        let frames = stream::poll_fn(move |context| frames.poll_recv(context));
        StreamBody::new(frames).boxed_unsync()
    }

    async fn relay_once_started(
        &self,
        pod: &PodOfApp,
        query: &LogQuery,
        frames: &mpsc::Sender<LogFrame>,
    ) {
        let mut body = loop {
            sleep(START_PAUSE).await;
            match self.open(pod, query).await {
                Ok(Some(body)) => break body,
                Ok(None) => {}
                // The pod is gone, or the API is away: the log ends.
                Err(error) => {
                    tracing::debug!(%error, "cannot read the log of a container that waited to start");
                    return;
                }
            }
        };
        while let Some(frame) = body.frame().await {
            if frames.send(frame).await.is_err() {
                return;
            }
        }
    }

    fn pods(&self, namespace: &str) -> Api<Object> {
        let kind = ApiResource::erase::<Pod>(&());
        Api::namespaced_with(self.cluster.streaming_client().clone(), namespace, &kind)
    }
}

/// Whether a log was refused because its container had not started. It may have started since then.
/// Without a name it is the pod's only one.
fn waited_to_start(pod: &Object, container: Option<&str>) -> bool {
    let containers = pod.spec["containers"].as_array().map(Vec::as_slice);
    let name = match (container, containers.unwrap_or_default()) {
        (Some(name), all) if all.iter().any(|it| it["name"] == name) => name,
        (None, [only]) => only["name"].as_str().unwrap_or_default(),
        (_, _) => return false,
    };
    let mut statuses = pod.status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    match statuses.find(|status| status["name"] == name) {
        Some(status) => status["state"]["terminated"].is_null(),
        // The node has not reported it yet.
        None => pod.status["phase"] == "Pending",
    }
}

impl Drop for LogPermit {
    fn drop(&mut self) {
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(theirs) = people.get_mut(&self.subject) {
            *theirs -= 1;
            if *theirs == 0 {
                people.remove(&self.subject);
            }
        }
    }
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, PodLogError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(PodLogError::Unavailable("no answer in time".to_owned())),
    }
}

/// The message in an error body of the API, cut to 300 characters.
async fn message(response: Response<Body>) -> String {
    let reading = tokio::time::timeout(
        DEADLINE,
        Limited::new(response.into_body(), 64 * 1024).collect(),
    );
    let Ok(Ok(body)) = reading.await else {
        return "no reason given".to_owned();
    };
    let status: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let text = status
        .get("message")
        .and_then(serde_json::Value::as_str)
        .unwrap_or("no reason given");
    text.chars()
        .filter(|character| !character.is_control())
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_that_is_refused_may_come_later_unless_its_container_is_unknown_or_has_ended() {
        let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
        let (running, ended) = (json!({ "running": {} }), json!({ "terminated": {} }));
        let status = |name: &str, state: &serde_json::Value| json!({ "phase": "Pending", "containerStatuses": [{ "name": name, "state": state }] });
        let (none, one, two): (&[&str], &[&str], &[&str]) = (&[], &["app"], &["app", "other"]);
        for (containers, status, container, wanted) in [
            (one, json!({ "phase": "Pending" }), None, true),
            (one, json!({ "phase": "Pending" }), Some("app"), true),
            (one, json!({ "phase": "Pending" }), Some("none"), false),
            (one, json!({ "phase": "Failed" }), None, false),
            (one, status("app", &waiting), None, true),
            (one, status("app", &running), None, true),
            (one, status("app", &json!({})), None, true),
            (one, status("app", &ended), None, false),
            (two, status("app", &waiting), None, false),
            (two, status("app", &waiting), Some("app"), true),
            (two, status("app", &running), Some("other"), true),
            (none, json!({ "phase": "Pending" }), None, false),
        ] {
            let all: Vec<_> = containers.iter().map(|it| json!({ "name": it })).collect();
            let pod = json!({ "spec": { "containers": all }, "status": status });
            let read: Object = serde_json::from_value(pod.clone()).expect("a pod");
            assert_eq!(
                waited_to_start(&read, container),
                wanted,
                "{container:?} of {pod}"
            );
        }
    }

    #[test]
    fn the_name_of_a_pod_is_no_more_than_a_part_of_a_path() {
        for name in ["app-lab-1", "a.b", "7"] {
            assert!(is_pod_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", ".", "..", "../x", "a/b", "a?b", "a%2Fb", "A", "a b", &long,
        ] {
            assert!(!is_pod_name(name), "{name}");
        }
    }
}
