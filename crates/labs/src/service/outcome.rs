//! Why an operation does not succeed, and the events that its listeners get.

use std::time::Duration;

use kube::core::Status;
use ludgate_cluster::deadline::ApiCallError;

use crate::events::LabEvent;

/// Why an operation does not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// A deletion came.
    Cancelled,
    /// It took longer than it may. What it waited for.
    TimedOut(Duration, &'static str),
    /// The API server refused a call, or did not answer in time.
    Refused(RefusedCall),
    /// The lab cannot be made as it was asked for, or its pod ended.
    Impossible(String),
}

/// A call that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedCall {
    /// Such as `creating object`.
    pub(super) action: &'static str,
    /// Kind and name.
    pub(super) object: String,
    /// Without one, there was no answer.
    pub(super) status: Option<u16>,
    /// The message of the API server.
    pub(super) reason: String,
}

impl RefusedCall {
    /// Messages about Secrets may quote their values, so only the kind of error is kept of them.
    pub(super) fn new(action: &'static str, object: &str, error: &ApiCallError) -> RefusedCall {
        let (status, reason) = match error {
            ApiCallError::Api(kube::Error::Api(status)) => {
                (Some(status.code), api_message(object, status))
            }
            ApiCallError::Api(_) => (None, "no answer from the Kubernetes API".to_owned()),
            ApiCallError::Timeout(_) => (None, error.to_string()),
        };
        RefusedCall {
            action,
            object: object.to_owned(),
            status,
            reason,
        }
    }
}

fn api_message(object: &str, status: &Status) -> String {
    let is_secret = object.starts_with("Secret ");
    match is_secret || status.message.is_empty() {
        true => status.reason.clone(),
        false => status.message.clone(),
    }
}

impl Stopped {
    /// The event that listeners get before the last one. A cancelled operation has none.
    pub(super) fn event(&self) -> Option<LabEvent> {
        match self {
            Stopped::Cancelled => None,
            Stopped::TimedOut(..) | Stopped::Impossible(_) => Some(LabEvent::error(self.text())),
            Stopped::Refused(call) => Some(match call.status {
                Some(status) => {
                    LabEvent::cluster_error(call.action, &call.object, status, &call.reason)
                }
                None => LabEvent::error(self.text()),
            }),
        }
    }

    /// The same for logs, and for the answer to a deletion.
    pub(super) fn text(&self) -> String {
        match self {
            Stopped::Cancelled => "Operation cancelled".to_owned(),
            Stopped::TimedOut(limit, what) => {
                format!("Timed out after {} seconds: {what}", limit.as_secs())
            }
            Stopped::Impossible(reason) => reason.clone(),
            Stopped::Refused(RefusedCall {
                action,
                object,
                status,
                reason,
            }) => match status {
                Some(status) => format!("Error {action} ({object}, status {status}): {reason}"),
                None => format!("Error {action} ({object}): {reason}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(object: &str) -> RefusedCall {
        let status = Status::failure("Something bad happened", "Invalid").with_code(400);
        let error = ApiCallError::Api(kube::Error::Api(Box::new(status)));
        RefusedCall::new("creating object", object, &error)
    }

    #[test]
    fn a_refused_call_names_kind_object_and_status() {
        let stopped = Stopped::Refused(refused("Pod userlabs-rachel/rachel-nb"));
        let text = "Error creating object (Pod userlabs-rachel/rachel-nb, status 400): Something \
                    bad happened";
        assert_eq!(stopped.event(), Some(LabEvent::error(text)));
        assert_eq!(stopped.text(), text);
    }

    #[test]
    fn what_the_server_says_about_a_secret_is_not_repeated() {
        let call = refused("Secret userlabs-rachel/rachel-nb");
        assert_eq!((call.status, call.reason.as_str()), (Some(400), "Invalid"));
    }

    #[test]
    fn a_call_without_an_answer_has_no_status() {
        let error = ApiCallError::Timeout(Duration::from_secs(20));
        let call = RefusedCall::new("creating object", "Pod a/b", &error);
        assert_eq!(
            Stopped::Refused(call).text(),
            "Error creating object (Pod a/b): no answer from the Kubernetes API in 20 seconds"
        );
    }
}
