//! HTTP/1 messages as tests see them: read byte by byte from a socket, nothing interpreted that
//! need not be.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

/// Everything a test waits for comes within this time or not at all.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A head and its body; for a request `start` is the request line, for an answer the status line.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub start: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// What followed the last chunk.
    pub trailers: Vec<(String, Vec<u8>)>,
    /// Head and body as they came.
    pub raw: Vec<u8>,
    /// The body ended before its framing said so.
    pub truncated: bool,
}

impl Message {
    pub fn status(&self) -> u16 {
        self.start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0)
    }

    /// The target of a request line.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    pub fn all(&self, name: &str) -> Vec<String> {
        let same = |(n, _): &&(String, Vec<u8>)| n.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .filter(same)
            .map(|(_, v)| String::from_utf8_lossy(v).into_owned())
            .collect()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.text()))
    }

    /// The code that a person copies from the page at the end of a token's grant.
    pub fn copied_code(&self) -> String {
        let text = self.text();
        let code = text.split("<code>").nth(1);
        let code = code.and_then(|rest| rest.split('<').next());
        code.unwrap_or_else(|| panic!("no code in {text}"))
            .to_owned()
    }
}

/// Reads messages from a stream, keeping what came too early.
pub struct Reader<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Reader<S> {
    pub fn new(stream: S) -> Reader<S> {
        Reader {
            stream,
            buffer: Vec::new(),
        }
    }

    /// The head only; `None` at the end of the stream.
    pub async fn head(&mut self) -> io::Result<Option<Message>> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more().await? {
                return Ok(None);
            }
        };
        let raw: Vec<u8> = self.buffer.drain(..end).collect();
        let mut lines = raw[..end - 4]
            .split(|b| *b == b'\n')
            .map(|l| l.strip_suffix(b"\r").unwrap_or(l));
        let start = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let headers = lines.filter_map(field).collect();
        Ok(Some(Message {
            start,
            headers,
            raw,
            ..Message::default()
        }))
    }

    /// Head and body. `bodyless` for answers to HEAD.
    pub async fn message(&mut self, bodyless: bool) -> io::Result<Option<Message>> {
        let Some(mut message) = self.head().await? else {
            return Ok(None);
        };
        let is_answer = message.start.starts_with("HTTP/");
        let status = message.status();
        if bodyless || (is_answer && (status < 200 || status == 204 || status == 304)) {
            return Ok(Some(message));
        }
        if message.header("transfer-encoding").is_some() {
            self.chunked(&mut message).await?;
        } else if let Some(length) = message.header("content-length") {
            let length: usize = length.parse().unwrap_or(0);
            while self.buffer.len() < length && self.more().await? {}
            message.truncated = self.buffer.len() < length;
            let take = length.min(self.buffer.len());
            message.body = self.buffer.drain(..take).collect();
            message.raw.extend_from_slice(&message.body);
        } else if is_answer {
            while self.more().await? {}
            message.body = std::mem::take(&mut self.buffer);
        }
        Ok(Some(message))
    }

    async fn chunked(&mut self, message: &mut Message) -> io::Result<()> {
        loop {
            let Some(line) = self.line().await? else {
                message.truncated = true;
                return Ok(());
            };
            message.raw.extend_from_slice(&line);
            let size = String::from_utf8_lossy(&line);
            let size = usize::from_str_radix(size.trim().split(';').next().unwrap_or_default(), 16)
                .unwrap_or(0);
            while self.buffer.len() < size + 2 {
                if !self.more().await? {
                    message.truncated = true;
                    return Ok(());
                }
                if size == 0 {
                    break;
                }
            }
            if size == 0 {
                // Trailers, if any, then the empty line.
                while let Some(line) = self.line().await? {
                    message.raw.extend_from_slice(&line);
                    if line == b"\r\n" {
                        break;
                    }
                    message.trailers.extend(field(&line));
                }
                return Ok(());
            }
            let chunk: Vec<u8> = self.buffer.drain(..size + 2).collect();
            message.raw.extend_from_slice(&chunk);
            message.body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                return Ok(Some(self.buffer.drain(..=at).collect()));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// At least one more byte; what is there already comes first.
    pub async fn some(&mut self) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.more().await?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Exactly so many bytes; an error when the stream ends before.
    pub async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Everything until the end of the stream.
    pub async fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.more().await? {}
        Ok(std::mem::take(&mut self.buffer))
    }

    async fn more(&mut self) -> io::Result<bool> {
        let mut part = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut part))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "nothing came"))??;
        self.buffer.extend_from_slice(&part[..read]);
        Ok(read > 0)
    }
}

/// One line of a head or of trailers.
fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|b| *b == b':')?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Some((name, line[colon + 1..].trim_ascii().to_vec()))
}
