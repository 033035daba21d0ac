//! Logs of pods, as the API streams them, and the label that names the app of a pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Response, StatusCode};
use kube::{
    Api,
    api::{ApiResource, LogParams, Request},
    client::Body,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    pub body: Body,
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
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        for namespace in &self.cluster.settings().namespaces {
            let api: Api<Object> =
                Api::namespaced_with(self.cluster.streaming_client().clone(), namespace, &pods);
            let Some(found) = within(api.get_opt(pod)).await? else {
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
    /// # Errors
    /// See [`PodLogError`].
    pub async fn read(
        &self,
        pod: &PodOfApp,
        query: &LogQuery,
        permit: LogPermit,
    ) -> Result<PodLog, PodLogError> {
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
            StatusCode::OK => Ok(PodLog {
                body: response.into_body(),
                permit,
            }),
            StatusCode::NOT_FOUND => Err(PodLogError::NotFound),
            StatusCode::BAD_REQUEST => Err(PodLogError::Refused(message(response).await)),
            status => Err(PodLogError::Unavailable(format!(
                "{status}: {}",
                message(response).await
            ))),
        }
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
    use http_body_util::{BodyExt, Limited};
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
