//! Bounds the interim responses (1xx) of an app. hyper drops any number of them, and they are cheap
//! to send: without a bound an app could keep us reading until its deadline.

use crate::model::error_cause::find_cause;

/// Maximum number of interim responses to one request. One `100 Continue` and a few `103 Early
/// Hints` are usual.
pub const MAX_INTERIM: u32 = 100;

/// The app sent more than [`MAX_INTERIM`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the app sent more than {MAX_INTERIM} interim answers")]
pub struct TooManyInterim;

impl TooManyInterim {
    /// Whether it is the cause of another error.
    pub fn is_cause_of(error: &(dyn std::error::Error + 'static)) -> bool {
        find_cause::<TooManyInterim>(error).is_some()
    }
}

/// Scans the bytes of an app on HTTP/1.1, from a request to the final response head.
#[derive(Debug, Default)]
pub struct InterimCount {
    state: State,
    count: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// In `HTTP/1.1 103`, at this byte, with the digits so far.
    Status(usize, [u8; 3]),
    /// In the rest of an interim head; `true`: the current line is empty so far.
    Rest(bool),
    /// In the final response.
    #[default]
    Answer,
}

/// Where the status code begins in a status line (RFC 9112 section 4).
const CODE: usize = b"HTTP/1.1 ".len();

impl InterimCount {
    /// Starts with the next request.
    pub fn restart(&mut self) {
        *self = InterimCount {
            state: State::Status(0, [0; 3]),
            count: 0,
        };
    }

    /// Scans bytes that were just read.
    ///
    /// # Errors
    /// When an app exceeds [`MAX_INTERIM`].
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), TooManyInterim> {
        // Nearly every response is final and begins in one piece.
        if let (State::Status(0, _), Some(first)) = (self.state, bytes.get(CODE))
            && bytes.starts_with(b"HTTP/1.")
            && *first != b'1'
        {
            self.state = State::Answer;
        }
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (State::Answer, _) => return Ok(()),
                // Empty lines before a status line are skipped.
                (State::Status(0, code), b'\r' | b'\n') => State::Status(0, code),
                (State::Status(at, mut code), byte) => {
                    if let Some(digit) = at.checked_sub(CODE).and_then(|at| code.get_mut(at)) {
                        *digit = byte;
                    }
                    match (at + 1 == CODE + code.len(), code) {
                        (false, _) => State::Status(at + 1, code),
                        // 101 is final, and the bytes after it are not HTTP.
                        (true, [b'1', a, b]) if [a, b] != *b"01" => State::Rest(false),
                        (true, _) => State::Answer,
                    }
                }
                (State::Rest(true), b'\n') => {
                    self.count += 1;
                    if self.count > MAX_INTERIM {
                        return Err(TooManyInterim);
                    }
                    State::Status(0, [0; 3])
                }
                (State::Rest(_), b'\n') => State::Rest(true),
                (State::Rest(empty), b'\r') => State::Rest(empty),
                (State::Rest(_), _) => State::Rest(false),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many interim answers are counted, in pieces of every size.
    fn counted(bytes: &[u8]) -> Result<u32, ()> {
        let mut all = (1..=bytes.len()).map(|size| {
            let mut interim = InterimCount::default();
            interim.restart();
            let read = bytes.chunks(size).try_for_each(|piece| interim.read(piece));
            read.map(|()| interim.count).map_err(|_| ())
        });
        let first = all.next().expect("bytes");
        assert!(
            all.all(|other| other == first),
            "{}",
            String::from_utf8_lossy(bytes)
        );
        first
    }

    #[test]
    fn interim_answers_are_counted_and_nothing_behind_them() {
        for (bytes, count) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n\n\n\nHTTP/1.1 100 Continue\r\n\r\n"[..], 0),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 1),
            (b"\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 199 x\n\nHTTP/1.1 404 x\r\n\r\n", 2),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", 0),
        ] {
            assert_eq!(counted(bytes), Ok(count), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn more_than_100_interim_answers_are_refused() {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!(counted(&interim.repeat(100)), Ok(100));
        assert_eq!(counted(&interim.repeat(101)), Err(()));
    }
}
