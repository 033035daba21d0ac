//! The room: the last messages and all receivers. `socket`, `events` and `POST /say` are its ways
//! in and out.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use tokio::sync::broadcast;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Longest message, in bytes.
pub const MESSAGE_LIMIT: usize = 2 * 1024;
/// Messages that a new receiver gets.
const KEPT: usize = 50;
/// Messages that a receiver may lag behind. Slower ones are disconnected and may reconnect.
const BEHIND: usize = 64;

/// The messages and their receivers.
#[derive(Debug)]
pub struct Room {
    /// The lines as they are sent: JSON with `who` and `text`.
    past: Mutex<VecDeque<Utf8Bytes>>,
    news: broadcast::Sender<Utf8Bytes>,
}

impl Room {
    /// A room without messages.
    pub fn new() -> Room {
        Room {
            past: Mutex::new(VecDeque::with_capacity(KEPT)),
            news: broadcast::Sender::new(BEHIND),
        }
    }

    /// Posts a message to all receivers. `false`: it is empty or too long, and was not posted.
    pub fn post(&self, who: &str, text: &str) -> bool {
        let text = text.trim();
        if text.is_empty() || text.len() > MESSAGE_LIMIT {
            return false;
        }
        let who = Value::from(who);
        let text = Value::from(text);
        let line = Utf8Bytes::from(format!(r#"{{"who":{who},"text":{text}}}"#));
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.len() >= KEPT {
            past.pop_front();
        }
        past.push_back(line.clone());
        // Sent under the lock, so that a new receiver gets each line once. A room without receivers
        // is no error.
        let _ = self.news.send(line);
        true
    }

    /// The last messages, and a receiver of all further ones.
    pub fn join(&self) -> (VecDeque<Utf8Bytes>, broadcast::Receiver<Utf8Bytes>) {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        (past.clone(), self.news.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_gets_the_last_fifty_and_then_the_news() {
        let room = Room::new();
        for number in 0..60 {
            assert!(room.post("ada", &number.to_string()));
        }
        let (past, mut news) = room.join();
        assert_eq!(past.len(), 50);
        assert_eq!(
            past.front().unwrap().as_str(),
            r#"{"who":"ada","text":"10"}"#
        );
        assert!(news.try_recv().is_err());
        room.post("bob", "new");
        assert_eq!(
            news.try_recv().unwrap().as_str(),
            r#"{"who":"bob","text":"new"}"#
        );
    }

    #[test]
    fn a_line_is_one_line_whatever_was_said() {
        let room = Room::new();
        room.post("a\"b", " first\r\nsecond\n\ndata: forged ");
        let (past, _) = room.join();
        assert_eq!(
            past.front().unwrap().as_str(),
            r#"{"who":"a\"b","text":"first\r\nsecond\n\ndata: forged"}"#
        );
    }

    #[test]
    fn nothing_and_too_much_are_not_said() {
        let room = Room::new();
        assert!(!room.post("ada", " \t\n"));
        assert!(!room.post("ada", &"x".repeat(MESSAGE_LIMIT + 1)));
        assert!(room.join().0.is_empty());
    }
}
