//! Rejects HTTP/1.1 heads that hyper accepts and that a proxy in front may parse differently: two
//! parsers that disagree about where a message ends allow request smuggling. The bytes are checked
//! before hyper sees them.
//!
//! - A line ends with CR LF. hyper also takes a LF alone, behind which a field could hide from a
//!   proxy that keeps it in a value (RFC 9112 section 2.2 lets a recipient choose).
//! - `Content-Length` and `Transfer-Encoding` do not come together (section 6.1 lets a server
//!   refuse that).
//! - A `#` is no part of a request target (section 3.2). hyper would cut it off, and the checked
//!   target would differ from the one the client sent.
//!
//! The framing of bodies is followed too, to find the next head. A request with ambiguous framing
//! is refused, and the connection is closed.

use memchr::{memchr, memchr_iter};

/// Longer lines are kept up to here: no framing field or chunk size is that long.
const MAX_LINE: usize = 256;

/// Follows the bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct StrictHead {
    state: State,
    /// Complete lines of this head.
    lines: usize,
    framing: Framing,
    /// The beginning of the current line, at most [`MAX_LINE`] bytes.
    partial: Vec<u8>,
    /// The last byte of the current line.
    last: u8,
    is_cut: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    /// Bytes left of a body.
    Body(u64),
    ChunkSize,
    /// Bytes left of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// No further bytes are checked.
    Off,
}

/// The framing of a body, as its head declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    None,
    Length(u64),
    Chunked,
    /// hyper or the gateway refuses it.
    Unsure,
}

/// Bytes that hyper must not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Index of the violating byte.
    pub at: usize,
    /// In a head, so the request is refused; otherwise in a body, which is cut off.
    pub in_head: bool,
}

impl StrictHead {
    /// Checks bytes that were just read. `true`: the connection must end with this request.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<bool, Violation> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.state {
                State::Off => return Ok(self.framing == Framing::Unsure),
                State::Body(left) | State::Chunk(left) => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    at += skipped;
                    self.state = self.state.after(left - skipped as u64);
                }
                // Nearly every head comes in one piece.
                State::Head if self.partial.is_empty() => at = self.head_lines(bytes, at)?,
                State::Head | State::ChunkSize | State::ChunkEnd | State::Trailers => {
                    let in_head = matches!(self.state, State::Head);
                    let end = memchr(b'\n', rest);
                    if in_head
                        && self.lines == 0
                        && let Some(hash) = memchr(b'#', &rest[..end.unwrap_or(rest.len())])
                    {
                        return Err(Violation {
                            at: at + hash,
                            in_head,
                        });
                    }
                    let Some(end) = end else {
                        self.keep(rest);
                        return Ok(false);
                    };
                    let wrong = Violation {
                        at: at + end,
                        in_head,
                    };
                    self.line(&rest[..end]).ok_or(wrong)?;
                    at += end + 1;
                }
            }
        }
        Ok(self.framing == Framing::Unsure)
    }

    /// Whether the rest of a request body is still to come.
    pub(super) fn is_in_body(&self) -> bool {
        !matches!(self.state, State::Head | State::Off)
    }

    /// The connection has become a WebSocket: the following bytes are no requests.
    pub(super) fn switch_off(&mut self) {
        *self = StrictHead {
            state: State::Off,
            ..StrictHead::default()
        };
    }

    /// Checks whole lines of heads from an index on. Returns the index behind a head with a body,
    /// or the end.
    fn head_lines(&mut self, bytes: &[u8], from: usize) -> Result<usize, Violation> {
        let rest = bytes.get(from..).unwrap_or_default();
        let wrong = |at: usize| Violation {
            at: from + at,
            in_head: true,
        };
        let mut start = 0;
        for end in memchr_iter(b'\n', rest) {
            let line = &rest[start..end];
            if self.lines == 0
                && let Some(hash) = memchr(b'#', line)
            {
                return Err(wrong(start + hash));
            }
            let line = line.strip_suffix(b"\r").ok_or(wrong(end))?;
            self.head_line(line, line.len() > MAX_LINE)
                .ok_or(wrong(end))?;
            start = end + 1;
            if !matches!(self.state, State::Head) {
                return Ok(from + start);
            }
        }
        let begun = &rest[start..];
        if self.lines == 0
            && let Some(hash) = memchr(b'#', begun)
        {
            return Err(wrong(start + hash));
        }
        if !begun.is_empty() {
            self.keep(begun);
        }
        Ok(bytes.len())
    }

    fn keep(&mut self, part: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.partial.len()).min(part.len());
        self.partial.extend_from_slice(&part[..room]);
        self.is_cut |= room < part.len();
        self.last = part.last().copied().unwrap_or(self.last);
    }

    /// Checks a line at its end; `part` is the rest that was not kept. `None`: a violation.
    fn line(&mut self, part: &[u8]) -> Option<()> {
        if self.partial.is_empty() {
            return self.whole_line(part.strip_suffix(b"\r")?, part.len() > MAX_LINE);
        }
        self.keep(part);
        let (mut line, is_cut) = (
            std::mem::take(&mut self.partial),
            std::mem::take(&mut self.is_cut),
        );
        if self.last != b'\r' {
            return None;
        }
        if !is_cut {
            line.pop();
        }
        let read = self.whole_line(&line, is_cut);
        line.clear();
        self.partial = line;
        read
    }

    fn whole_line(&mut self, line: &[u8], is_long: bool) -> Option<()> {
        match self.state {
            State::Head => self.head_line(line, is_long),
            State::ChunkSize => {
                // The size is at the beginning, so a cut line is enough.
                let size = chunk_size(line)?;
                self.state = if size == 0 {
                    State::Trailers
                } else {
                    State::Chunk(size)
                };
                Some(())
            }
            State::ChunkEnd => {
                self.state = State::ChunkSize;
                line.is_empty().then_some(())
            }
            State::Trailers => {
                if line.is_empty() {
                    self.state = State::Head;
                }
                Some(())
            }
            State::Body(_) | State::Chunk(_) | State::Off => Some(()),
        }
    }

    fn head_line(&mut self, line: &[u8], is_long: bool) -> Option<()> {
        match (self.lines, line) {
            // Empty lines before a request are skipped (RFC 9112 section 2.2).
            (0, []) => return Some(()),
            (0, _) => {
                self.framing = if line.starts_with(b"CONNECT ") {
                    Framing::Unsure
                } else {
                    Framing::None
                };
            }
            (_, []) => {
                self.lines = 0;
                self.state = match self.framing {
                    Framing::None | Framing::Length(0) => State::Head,
                    Framing::Length(length) => State::Body(length),
                    Framing::Chunked => State::ChunkSize,
                    Framing::Unsure => State::Off,
                };
                return Some(());
            }
            // Most fields begin with another letter.
            (_, [b'c' | b'C' | b't' | b'T', ..]) => self.field(line, is_long)?,
            (_, _) => {}
        }
        self.lines += 1;
        Some(())
    }

    fn field(&mut self, line: &[u8], is_long: bool) -> Option<()> {
        let Some(colon) = memchr(b':', line) else {
            return Some(());
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        let declared = if name.eq_ignore_ascii_case(b"content-length") {
            length(value).map_or(Framing::Unsure, Framing::Length)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if value.eq_ignore_ascii_case(b"chunked") {
                Framing::Chunked
            } else {
                Framing::Unsure
            }
        } else {
            return Some(());
        };
        let is_coding = name.len() == b"transfer-encoding".len();
        self.framing = match (self.framing, declared) {
            (Framing::Length(_), _) if is_coding => return None,
            (Framing::Chunked, _) if !is_coding => return None,
            _ if is_long => Framing::Unsure,
            (Framing::None, declared) => declared,
            // Equal lengths count as one; hyper refuses different ones.
            (Framing::Length(one), Framing::Length(other)) if one == other => declared,
            (Framing::Length(_) | Framing::Chunked | Framing::Unsure, _) => Framing::Unsure,
        };
        Some(())
    }
}

impl State {
    fn after(self, left: u64) -> State {
        match (self, left) {
            (State::Body(_), 0) => State::Head,
            (State::Body(_), left) => State::Body(left),
            (State::Chunk(_), 0) => State::ChunkEnd,
            (State::Chunk(_), left) => State::Chunk(left),
            (other, _) => other,
        }
    }
}

fn length(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| plain)?
        .parse()
        .ok()
}

/// Hexadecimal digits, then perhaps an extension (RFC 9112 section 7.1).
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let plain = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(size).ok().filter(|_| plain)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on a connection, whole and in pieces of every size: they must agree.
    fn verdict(bytes: &[u8]) -> Result<bool, Violation> {
        let whole = StrictHead::default().check(bytes);
        for size in 1..bytes.len() {
            let mut check = StrictHead::default();
            let mut pieces = bytes.chunks(size).enumerate();
            let result = pieces.try_fold(false, |unsure, (n, piece)| match check.check(piece) {
                Ok(now) => Ok(unsure | now),
                Err(wrong) => Err(Violation {
                    at: n * size + wrong.at,
                    ..wrong
                }),
            });
            assert_eq!(result, whole, "{size}: {}", String::from_utf8_lossy(bytes));
        }
        whole
    }

    fn wrong(before: &str, in_head: bool) -> Result<bool, Violation> {
        Err(Violation {
            at: before.len(),
            in_head,
        })
    }

    #[test]
    fn well_formed_requests_pass_one_after_another() {
        for good in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nContent-Length: 3\r\n\r\na#\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n2 ;a=b\r\n\n\n\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            &format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x={}\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                "y".repeat(900)
            ),
            "GET / HTTP/1.1\r\nReferer: http://a/#b\r\nCookie: c\r\nTE: trailers\r\n\r\n",
        ] {
            assert_eq!(verdict(good.as_bytes()), Ok(false), "{good:?}");
        }
    }

    #[test]
    fn a_lf_without_a_cr_is_wrong_wherever_it_stands_in_a_head() {
        let good = "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for (at, _) in good.match_indices("\r\n") {
            let bytes = [&good[..at], &good[at + 1..]].concat();
            let in_head = verdict(bytes.as_bytes());
            assert_eq!(in_head, wrong(&good[..at], true), "{bytes:?}");
        }
        let hidden = "GET / HTTP/1.1\r\nX: y";
        assert_eq!(
            verdict(format!("{hidden}\nContent-Length: 54\r\n\r\n").as_bytes()),
            wrong(hidden, true)
        );
    }

    #[test]
    fn a_length_and_a_coding_together_are_wrong() {
        for (one, other) in [
            ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r"),
            ("Transfer-Encoding: chunked\r\n", "content-length: 5\r"),
            ("Content-Length: 5\r\n", "Transfer-Encoding: x\r"),
        ] {
            let before = format!("POST / HTTP/1.1\r\n{one}Host: a\r\n{other}");
            assert_eq!(
                verdict(format!("{before}\n\r\n").as_bytes()),
                wrong(&before, true),
                "{before:?}"
            );
        }
    }

    #[test]
    fn a_fragment_is_wrong() {
        assert_eq!(verdict(b"GET /a#b HTTP/1.1\r\n\r\n"), wrong("GET /a", true));
        assert_eq!(
            verdict(b"GET /a HTTP/1.1\r\n\r\nGET /?# HTTP/1.1\r\n\r\n"),
            wrong("GET /a HTTP/1.1\r\n\r\nGET /?", true)
        );
    }

    #[test]
    fn framing_in_doubt_ends_the_connection() {
        for field in [
            "Content-Length: +5",
            "Content-Length: 5, 6",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let bytes = format!("POST / HTTP/1.1\r\n{field}\r\n\r\nwhatever\ncomes");
            assert_eq!(verdict(bytes.as_bytes()), Ok(true), "{field}");
        }
        let padded = format!(
            "POST / HTTP/1.1\r\nContent-Length: {}5\r\n\r\n",
            " ".repeat(MAX_LINE)
        );
        assert_eq!(verdict(padded.as_bytes()), Ok(true));
        assert_eq!(verdict(b"CONNECT a:1 HTTP/1.1\r\n\r\n"), Ok(true));
    }

    #[test]
    fn broken_chunks_are_wrong() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for before in [
            "1",
            "1\r\nZZ",
            "-1\r",
            "0x1\r",
            "g\r",
            "11111111111111111\r",
            "\r",
            "1\r\na\r\n0\r\nX: y",
        ] {
            let bytes = format!("{head}{before}\n\r\n");
            assert_eq!(
                verdict(bytes.as_bytes()),
                wrong(&format!("{head}{before}"), false),
                "{before:?}"
            );
        }
    }

    #[test]
    fn bytes_of_a_websocket_are_not_checked() {
        let mut check = StrictHead::default();
        check.switch_off();
        assert_eq!(check.check(b"\x81\x01\n# \n"), Ok(false));
    }
}
