//! The log of a pod, as the API streams it, and the label that says whose pod it is.

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

/// The API has this long for a pod, or the head of a log.
const DEADLINE: Duration = Duration::from_secs(10);
/// Logs that are asked for and read at once, by all and by one person: each is a connection to the
/// API server.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 4;

/// Reads logs. Cloning gives the same, with the same bound.
#[derive(Clone, Debug)]
pub struct PodLogs {
    cluster: Cluster,
    seats: Arc<Semaphore>,
    /// How many of them each person has.
    people: Arc<Mutex<HashMap<Box<str>, usize>>>,
}

/// The right to ask for one log. Dropped, it makes room for another.
#[derive(Debug)]
pub struct LogSeat {
    people: Arc<Mutex<HashMap<Box<str>, usize>>>,
    subject: Box<str>,
    _seat: OwnedSemaphorePermit,
}

/// Which pod, and which app its label names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOfApp {
    /// Its namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// What its label says.
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

/// What of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Go on with what is yet to be written.
    pub follow: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Of several containers, this one.
    pub container: Option<String>,
}

/// A log on its way. Dropped, its reading ends.
pub struct Log {
    /// Lines as they come.
    pub body: Body,
    /// Kept until it is over.
    pub seat: LogSeat,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum NoLog {
    /// No such pod, or none of an app.
    #[error("there is no such pod")]
    NotFound,
    /// The API wants to know more, such as which container; what it said.
    #[error("{0}")]
    Refused(String),
    /// As many as may be are read already.
    #[error("too many logs are read at once")]
    Busy,
    /// The API gives no answer, or does not let us.
    #[error("the Kubernetes API: {0}")]
    Unavailable(String),
}

impl From<kube::Error> for NoLog {
    fn from(error: kube::Error) -> NoLog {
        let kube::Error::Api(status) = &error else {
            return NoLog::Unavailable(error.to_string());
        };
        match status.code {
            404 => NoLog::NotFound,
            400 => NoLog::Refused(status.message.clone()),
            _ => NoLog::Unavailable(error.to_string()),
        }
    }
}

impl PodLogs {
    /// Of one cluster.
    pub fn new(cluster: Cluster) -> PodLogs {
        PodLogs {
            cluster,
            seats: Arc::new(Semaphore::new(MOST)),
            people: Arc::default(),
        }
    }

    /// Takes a seat for somebody; without one nothing is asked of the API.
    ///
    /// # Errors
    /// [`NoLog::Busy`].
    pub fn seat(&self, subject: &str) -> Result<LogSeat, NoLog> {
        let seat = self
            .seats
            .clone()
            .try_acquire_owned()
            .map_err(|_| NoLog::Busy)?;
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = people.entry(subject.into()).or_default();
        if *theirs >= MOST_OF_ONE {
            return Err(NoLog::Busy);
        }
        *theirs += 1;
        Ok(LogSeat {
            people: self.people.clone(),
            subject: subject.into(),
            _seat: seat,
        })
    }

    /// Finds the pod of an app in the namespaces that are served. Runs on the control runtime.
    ///
    /// # Errors
    /// [`NoLog::NotFound`] for a pod that is none of an app as well.
    pub async fn find(&self, pod: &str) -> Result<PodOfApp, NoLog> {
        let pods = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        for namespace in &self.cluster.settings().namespaces {
            let api: Api<Object> =
                Api::namespaced_with(self.cluster.patient().clone(), namespace, &pods);
            let Some(found) = within(api.get_opt(pod)).await? else {
                continue;
            };
            let Some(label) = kube::ResourceExt::labels(&found).get(APP_LABEL) else {
                continue;
            };
            let (namespace, label) = (namespace.clone(), label.clone());
            return Ok(PodOfApp {
                namespace,
                pod: pod.to_owned(),
                label,
            });
        }
        Err(NoLog::NotFound)
    }

    /// Begins to read a log. Runs on the control runtime; the body may be read anywhere.
    ///
    /// # Errors
    /// See [`NoLog`].
    pub async fn read(&self, pod: &PodOfApp, wanted: &Wanted, seat: LogSeat) -> Result<Log, NoLog> {
        let parameters = LogParams {
            follow: wanted.follow,
            tail_lines: wanted.tail_lines,
            container: wanted.container.clone(),
            ..LogParams::default()
        };
        let url = format!("/api/v1/namespaces/{}/pods", pod.namespace);
        let request = Request::new(url)
            .logs(&pod.pod, &parameters)
            .map_err(|error| NoLog::Unavailable(error.to_string()))?;
        let response = within(self.cluster.patient().send(request.map(Body::from))).await?;
        match response.status() {
            StatusCode::OK => Ok(Log {
                body: response.into_body(),
                seat,
            }),
            StatusCode::NOT_FOUND => Err(NoLog::NotFound),
            StatusCode::BAD_REQUEST => Err(NoLog::Refused(message(response).await)),
            status => Err(NoLog::Unavailable(format!(
                "{status}: {}",
                message(response).await
            ))),
        }
    }
}

impl Drop for LogSeat {
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

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, NoLog> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(NoLog::Unavailable("no answer in time".to_owned())),
    }
}

/// What the API says in an error body, shortened.
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
