//! The room as Server-Sent Events, for networks that block WebSockets. Messages are sent by
//! `POST /say`.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::{
    sync::broadcast::Receiver,
    time::{Instant, Interval, interval_at},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::room::Room;
use crate::demo::apps::page::AppResponse;

/// Interval of comments on a silent stream, so that proxies do not close it.
const KEEP: Duration = Duration::from_secs(15);

/// A stream that lasts until the client disconnects or lags too far behind.
pub fn answer(room: &Room) -> AppResponse {
    let (past, news) = room.join();
    let feed = Feed {
        greeted: false,
        past,
        news,
        keep: interval_at(Instant::now() + KEEP, KEEP),
    };
    let chunks = stream::unfold(feed, |mut feed| async move {
        let chunk = feed.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(chunk)), feed))
    });
    let mut answer = Response::new(StreamBody::new(chunks).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

struct Feed {
    greeted: bool,
    past: VecDeque<Utf8Bytes>,
    news: Receiver<Utf8Bytes>,
    keep: Interval,
}

impl Feed {
    /// The next piece of the stream; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.greeted {
            self.greeted = true;
            // Sent at once: some clients wait for the first byte.
            return Some(Bytes::from_static(b": welcome\n\n"));
        }
        if let Some(line) = self.past.pop_front() {
            return Some(event(&line));
        }
        tokio::select! {
            // A receiver that lags has lost messages: it reconnects and gets the last ones.
            line = self.news.recv() => line.ok().map(|line| event(&line)),
            _ = self.keep.tick() => Some(Bytes::from_static(b": keep\n\n")),
        }
    }
}

/// A line has no line breaks in it, because JSON escapes them.
fn event(line: &Utf8Bytes) -> Bytes {
    Bytes::from(format!("data: {line}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_stream_opens_at_once_and_ends_for_those_who_fall_behind() {
        let room = Room::new();
        room.post("ada", "hello");
        let mut body = answer(&room).into_body();
        let mut chunk = async || {
            body.frame()
                .await
                .map(|frame| frame.unwrap().into_data().unwrap())
        };
        assert_eq!(chunk().await.unwrap(), ": welcome\n\n");
        assert_eq!(
            chunk().await.unwrap(),
            "data: {\"who\":\"ada\",\"text\":\"hello\"}\n\n"
        );
        for _ in 0..100 {
            room.post("ada", "too fast");
        }
        assert_eq!(chunk().await, None);
    }
}
