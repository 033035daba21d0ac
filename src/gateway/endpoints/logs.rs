//! `/api/logs/…/<pod>`: the log of an app's pod, for members of the app's group. Off unless
//! `kubernetes.logs` says so.

use std::rc::Rc;

use http::{HeaderValue, Response, StatusCode, header};

use super::{Call, person_of};
use crate::{
    cluster::pod_logs::{NoLog, PodOfApp, Wanted},
    gateway::{
        access_log::Record,
        answer::{Answer, Watch},
        decision::Reason,
        respond,
        still_allowed::{MayRead, Question},
    },
    route::path::pod_of_log,
};

/// Most lines from the end that may be asked for by number.
const MOST_LINES: i64 = 1_000_000;

impl Call<'_> {
    /// Streams it as long as the person may read it.
    pub async fn logs(&self, record: &mut Record) -> Response<Answer> {
        let (Some(logs), Some(pod)) = (&self.gateway.logs, pod_of_log(self.arrival.target.path()))
        else {
            return self.refuse(Reason::NotFound, record);
        };
        if !self.snapshot.is_complete() {
            return self.refuse(Reason::CatalogUnavailable, record);
        }
        let Some(wanted) = self.wanted() else {
            return self.refuse(Reason::BadQuery, record);
        };
        let asked = self.asked_by().await;
        let person = match person_of(&asked.caller) {
            Ok(person) => person,
            Err(reason) => return self.refuse(reason, record),
        };
        record.person = Some(person.clone());
        // Whoever is a member of nothing here has no log to ask for, and the API is not asked for
        // them.
        if !person
            .groups()
            .iter()
            .any(|group| self.snapshot.has_group(group))
        {
            return self.refuse(Reason::NotFound, record);
        }
        let seat = match logs.seat(&person.subject) {
            Ok(seat) => seat,
            Err(no) => return self.no_log(no, record),
        };
        let live = asked.live.clone();
        let (finding, name) = (logs.clone(), pod.to_owned());
        let found = self
            .gateway
            .control
            .spawn(async move { finding.find(&name).await });
        let pod = match found.await {
            Ok(Ok(pod)) => pod,
            Ok(Err(no)) => return self.no_log(no, record),
            Err(_) => return self.refuse(Reason::Unverifiable, record),
        };
        let question = MayRead::new(self.gateway.clone(), &pod, person, asked);
        // Before the first byte, and again as long as the log goes on.
        match question.judge() {
            Ok(()) => {}
            Err(None) => return self.refuse(Reason::NotFound, record),
            Err(Some(denied)) => return self.refuse(Reason::Denied(denied), record),
        }
        if let Some(live) = &live {
            self.gateway
                .sessions
                .store
                .touch(live, self.gateway.clock.now());
        }
        let (reading, of): (_, PodOfApp) = (logs.clone(), pod);
        let begun = self
            .gateway
            .control
            .spawn(async move { reading.read(&of, &wanted, seat).await });
        match begun.await {
            Ok(Ok(log)) => {
                record.decision = "allow";
                record.reason = "group";
                let watch = Watch::of(self, Question::Log(Rc::new(question)));
                let mut response = respond::ours(StatusCode::OK, Answer::log(log, watch));
                let kind = HeaderValue::from_static("text/plain; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            Ok(Err(no)) => self.no_log(no, record),
            Err(_) => self.refuse(Reason::Unverifiable, record),
        }
    }

    /// `None`: asked in a way that has no meaning.
    fn wanted(&self) -> Option<Wanted> {
        let value = |name: &str| self.query(name).ok();
        let follow = match value("follow")?.as_deref() {
            None | Some("false" | "0") => false,
            Some("" | "true" | "1") => true,
            Some(_) => return None,
        };
        let tail_lines = match value("tailLines")? {
            None => None,
            Some(lines) => Some(
                lines
                    .parse()
                    .ok()
                    .filter(|lines| (0..=MOST_LINES).contains(lines))?,
            ),
        };
        let container = value("container")?;
        let plain = |name: &String| {
            name.len() <= 63
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if container.as_ref().is_some_and(|name| !plain(name)) {
            return None;
        }
        Some(Wanted {
            follow,
            tail_lines,
            container,
        })
    }

    fn no_log(&self, no: NoLog, record: &mut Record) -> Response<Answer> {
        let reason = match &no {
            NoLog::NotFound => Reason::NotFound,
            NoLog::Refused(_) => Reason::BadQuery,
            NoLog::Busy => Reason::Busy,
            NoLog::Unavailable(why) => {
                tracing::warn!(error = %why, "cannot read a pod log");
                Reason::Unverifiable
            }
        };
        tracing::debug!(error = %no, "no log");
        self.refuse(reason, record)
    }
}
