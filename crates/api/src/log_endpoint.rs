//! `/api/logs/…/<pod>`: the log of an app's pod, for those who may manage the app.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use ludgate_cluster::pod_logs::{LogQuery, PodLog, PodLogError, PodOfApp};
use ludgate_model::principal::Principal;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use url::form_urlencoded;

use crate::{
    authentication::AuthenticationError,
    error::OperationError,
    platform::PlatformSettings,
    state::{ApiState, CALL_DEADLINE},
};

/// The right to read an open log is checked again after this time.
const RECHECK: Duration = Duration::from_secs(15);
/// Maximum number of lines from the end that a request may name.
const MAX_LINES: i64 = 1_000_000;

/// Why there is no log. Clients print the text where they would print the log, so it is one line.
struct NoLog(StatusCode, String);

/// Streams a log.
pub(crate) async fn stream_log(
    State(server): State<Arc<ApiState>>,
    Path(pod): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let opening = open(&server, &pod, query.as_deref().unwrap_or_default(), headers);
    let opened = timeout(CALL_DEADLINE, opening).await;
    let opened = opened.unwrap_or_else(|_| Err(unavailable(StatusCode::GATEWAY_TIMEOUT)));
    let (status, body) = match opened {
        Ok(log) => (StatusCode::OK, Body::from_stream(lines(log))),
        Err(NoLog(status, line)) => (status, Body::from(format!("{line}\n"))),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, text);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// An open log, and what is needed to check again whether its reader may see it.
struct OpenLog {
    log: PodLog,
    reader: LogReader,
    recheck: Interval,
}

/// A person who reads the log of a pod.
struct LogReader {
    server: Arc<ApiState>,
    headers: HeaderMap,
    pod: PodOfApp,
}

async fn open(
    server: &Arc<ApiState>,
    pod: &str,
    query: &str,
    headers: HeaderMap,
) -> Result<OpenLog, NoLog> {
    let person = server.authentication.identify(&headers).await?;
    let query = parse_query(query)?;
    let permit = server.logs.acquire(&person.subject)?;
    let pod = server.logs.find(pod).await?;
    let reader = LogReader {
        server: server.clone(),
        headers,
        pod,
    };
    reader.authorize(&person).await?;
    let log = server.logs.read(&reader.pod, &query, permit).await?;
    let mut recheck = interval(RECHECK);
    recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
    recheck.reset();
    Ok(OpenLog {
        log,
        reader,
        recheck,
    })
}

impl LogReader {
    /// Whether the person may manage the app of the pod: every app that its label may mean, so that
    /// an app with a fitting name gives access to nothing. A pod of others is like one that does
    /// not exist.
    async fn authorize(&self, person: &Principal) -> Result<(), NoLog> {
        let objects = &self.server.operations.objects;
        let mut has_app = false;
        for id in self.pod.apps() {
            let found = objects.app_in(&self.pod.namespace, id).await;
            if let Some(app) = found.map_err(no_log)? {
                has_app = true;
                if !PlatformSettings::may_manage(person, app.group()) {
                    return Err(PodLogError::NotFound.into());
                }
            }
        }
        match has_app {
            true => Ok(()),
            false => Err(PodLogError::NotFound.into()),
        }
    }

    /// Whether the log may go on. While the provider or the cluster is away it does.
    async fn may_continue(&self) -> bool {
        let person = match self.server.authentication.identify(&self.headers).await {
            Ok(person) => person,
            Err(AuthenticationError::Unavailable) => return true,
            Err(AuthenticationError::Refused) => return false,
        };
        match self.authorize(&person).await {
            Ok(()) => true,
            Err(NoLog(status, _)) => status == StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

fn no_log(error: OperationError) -> NoLog {
    match error {
        OperationError::Unavailable(text) => NoLog(StatusCode::SERVICE_UNAVAILABLE, text),
        OperationError::NotAuthorised
        | OperationError::NotFound { .. }
        | OperationError::Invalid(_)
        | OperationError::Conflict(_) => PodLogError::NotFound.into(),
    }
}

/// The bytes of a log as they come. An error of the cluster ends the log.
fn lines(log: OpenLog) -> impl Stream<Item = Result<Bytes, kube::Error>> {
    stream::try_unfold(log, |mut open| async move {
        loop {
            tokio::select! {
                frame = open.log.body.frame() => {
                    let Some(frame) = frame else { return Ok(None) };
                    if let Ok(bytes) = frame?.into_data() {
                        return Ok(Some((bytes, open)));
                    }
                }
                _ = open.recheck.tick() => {
                    if !open.reader.may_continue().await {
                        return Ok(None);
                    }
                }
            }
        }
    })
}

fn parse_query(query: &str) -> Result<LogQuery, NoLog> {
    let mut read = LogQuery::default();
    let wrong = |what: &str| Err(NoLog(StatusCode::BAD_REQUEST, what.to_owned()));
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*name, &*value) {
            ("follow", "true" | "1" | "") => read.follow = true,
            ("follow", "false" | "0") => read.follow = false,
            ("follow", _) => return wrong("follow must be true or false"),
            ("tailLines", lines) => match lines.parse() {
                Ok(lines) if (0..=MAX_LINES).contains(&lines) => read.tail_lines = Some(lines),
                Ok(_) | Err(_) => return wrong("tailLines must be a number of lines"),
            },
            ("container", name) => {
                let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
                if name.len() > 63 || !name.bytes().all(is_allowed) {
                    return wrong("container must be the name of a container");
                }
                read.container = Some(name.to_owned());
            }
            _ => {}
        }
    }
    Ok(read)
}

fn unavailable(status: StatusCode) -> NoLog {
    let line = "the log cannot be read now; please try again";
    NoLog(status, line.to_owned())
}

impl From<AuthenticationError> for NoLog {
    fn from(error: AuthenticationError) -> NoLog {
        let status = match error {
            AuthenticationError::Refused => StatusCode::UNAUTHORIZED,
            AuthenticationError::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        NoLog(status, error.to_string())
    }
}

impl From<PodLogError> for NoLog {
    fn from(error: PodLogError) -> NoLog {
        let status = match &error {
            PodLogError::NotFound => StatusCode::NOT_FOUND,
            PodLogError::Refused(_) => StatusCode::BAD_REQUEST,
            PodLogError::Busy => StatusCode::TOO_MANY_REQUESTS,
            PodLogError::Unavailable(error) => {
                tracing::warn!(error, "cannot read a pod log");
                return unavailable(StatusCode::SERVICE_UNAVAILABLE);
            }
        };
        NoLog(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_what_clients_send_and_nothing_else() {
        let read = parse_query("follow=true&tailLines=10").map_err(|it| it.1);
        let read = read.expect("valid");
        assert!(read.follow && read.tail_lines == Some(10));
        let none = parse_query("follow=false")
            .map_err(|it| it.1)
            .expect("valid");
        assert!(!none.follow && none.tail_lines.is_none());
        for bad in [
            "follow=maybe",
            "tailLines=-1",
            "tailLines=x",
            "container=a/b",
        ] {
            assert!(parse_query(bad).is_err(), "{bad}");
        }
    }
}
