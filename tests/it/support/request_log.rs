//! The request log of a gateway, readable.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use super::message::PATIENCE;

/// The request log, readable.
#[derive(Clone)]
pub struct Log {
    text: Arc<Mutex<String>>,
    grown: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            text: Arc::default(),
            grown: watch::Sender::new(0),
        }
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text
            .lock()
            .expect("no panic")
            .push_str(&String::from_utf8_lossy(bytes));
        self.grown.send_modify(|length| *length += bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub fn text(&self) -> String {
        self.text.lock().expect("no panic").clone()
    }

    /// Waits for a line with this text in it, and gives it back parsed.
    pub async fn line_with(&self, wanted: &str) -> serde_json::Value {
        let mut grown = self.grown.subscribe();
        let found = async {
            loop {
                let text = self.text();
                if let Some(line) = text.lines().find(|line| line.contains(wanted)) {
                    return serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                }
                grown.changed().await.expect("the log lives");
            }
        };
        let waited = tokio::time::timeout(PATIENCE, found).await;
        waited.unwrap_or_else(|_| panic!("no line with {wanted:?} in:\n{}", self.text()))
    }
}
