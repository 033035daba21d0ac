//! `/api/logs/…/<pod>`: the log of an app's pod, for members of the app's group. Off unless
//! `kubernetes.logs` is set.

use std::rc::Rc;

use super::call::{EndpointCall, person_of};
use crate::{
    authorize::Grounds,
    cluster::pod_logs::{LogQuery, PodLogError},
    decide::{
        Reason,
        labels::{DecisionLabel, LogReason},
    },
    respond::{
        body::ReplyBody,
        endpoint::{Content, EndpointReply},
    },
    route::path::pod_of_log,
    stream_policy::LogStream,
};

/// Maximum number of lines from the end that a request may name.
const MOST_LINES: i64 = 1_000_000;

/// Streams the log for as long as the person may read it.
pub(super) async fn stream(call: EndpointCall<'_, '_>) -> EndpointReply {
    let refused = |reason| EndpointReply::refuse(reason);
    let gateway = call.gateway;
    let path = call.request.arrival.target.path();
    let (Some(logs), Some(pod)) = (&gateway.logs, pod_of_log(path)) else {
        return refused(Reason::NotFound);
    };
    if !call.snapshot.is_complete() {
        return refused(Reason::CatalogUnavailable);
    }
    let Some(query) = parse_query(call) else {
        return refused(Reason::BadQuery);
    };
    let caller = call.identify().await;
    let person = match person_of(&caller.caller) {
        Ok(person) => person,
        Err(reason) => return refused(reason),
    };
    let reply = |reply: EndpointReply| reply.with_person(person.clone());
    // A person who is in no group of any app has no log to read, and costs no API call.
    if !person
        .groups()
        .iter()
        .any(|group| call.snapshot.has_group(group))
    {
        return reply(refused(Reason::NotFound));
    }
    let permit = match logs.acquire(&person.subject) {
        Ok(permit) => permit,
        Err(error) => return reply(no_log(&error)),
    };
    let live = caller.live.clone();
    let (client, name) = (logs.clone(), pod.to_owned());
    let found = gateway
        .control
        .spawn(async move { client.find(&name).await });
    let pod = match found.await {
        Ok(Ok(pod)) => pod,
        Ok(Err(error)) => return reply(no_log(&error)),
        Err(_) => return reply(refused(Reason::Unverifiable)),
    };
    let policy = LogStream::new(gateway.clone(), &pod, person.clone(), caller);
    // Before the first byte, and again for as long as the log goes on.
    match policy.authorize() {
        Ok(()) => {}
        Err(None) => return reply(refused(Reason::NotFound)),
        Err(Some(denied)) => return reply(refused(Reason::Denied(denied))),
    }
    if let Some(live) = &live {
        gateway.sessions.store.touch(live, gateway.clock.now());
    }
    let client = logs.clone();
    let begun = gateway
        .control
        .spawn(async move { client.read(&pod, &query, permit).await });
    match begun.await {
        Ok(Ok(log)) => {
            let revocation = call.revocation.clone();
            let registered = call.streams.register(revocation, Rc::new(policy));
            let content = Content::PodLog(ReplyBody::log(log, registered));
            reply(EndpointReply {
                decision: Some(DecisionLabel::Allow),
                reason: Some(LogReason::Grounds(Grounds::Group)),
                ..EndpointReply::new(content)
            })
        }
        Ok(Err(error)) => reply(no_log(&error)),
        Err(_) => reply(refused(Reason::Unverifiable)),
    }
}

/// The requested part of the log; `None` if the query is not valid.
fn parse_query(call: EndpointCall<'_, '_>) -> Option<LogQuery> {
    let value = |name: &str| call.query(name).ok();
    let follow = match value("follow")?.as_deref() {
        None | Some("false" | "0") => false,
        Some("" | "true" | "1") => true,
        Some(_) => return None,
    };
    let is_allowed = |lines: &i64| (0..=MOST_LINES).contains(lines);
    let tail_lines = match value("tailLines")? {
        None => None,
        Some(lines) => Some(lines.parse().ok().filter(is_allowed)?),
    };
    let container = value("container")?;
    let is_name = |name: &String| {
        let mut bytes = name.bytes();
        let fits = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        name.len() <= 63 && fits
    };
    if container.as_ref().is_some_and(|name| !is_name(name)) {
        return None;
    }
    Some(LogQuery {
        follow,
        tail_lines,
        container,
    })
}

fn no_log(error: &PodLogError) -> EndpointReply {
    let reason = match error {
        PodLogError::NotFound => Reason::NotFound,
        PodLogError::Refused(_) => Reason::BadQuery,
        PodLogError::Busy => Reason::Busy,
        PodLogError::Unavailable(cause) => {
            tracing::warn!(error = %cause, "cannot read a pod log");
            Reason::Unverifiable
        }
    };
    tracing::debug!(%error, "no log");
    EndpointReply::refuse(reason)
}
