//! One client of the console, that says the same bytes every time and keeps what it is told.

use std::net::SocketAddr;

use crate::support::{
    console::{
        answers::pattern,
        websocket::{HANG_UP, frame},
    },
    message::{Message, Reader},
    raw::Raw,
};

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// What is uploaded, in bytes.
const UPLOAD: usize = 2 << 20;

/// Targets that another router might read differently, tidy up, or take for itself.
const TARGETS: [&str; 32] = [
    "/?",
    "//",
    "//console//x",
    "/a%2Fb%2fc",
    "/a;x=1/b;y",
    "/a/./b/../c",
    "/../a",
    "/%2e%2e/x",
    "/..%5c/",
    "/%252e%252e/",
    "/%E4%B8%AD%e4",
    "/:@!$&'()*+,=-._~",
    "/a?",
    "/a??b",
    "/a?b=%00&c=%zz&&=;[]|^`",
    "/oauth2x",
    "/oauth2.x/start",
    "//oauth2/start",
    "/.ludgatex",
    "/console",
    "/console/",
    "/console/appsx",
    "/console/apps;x/grp/",
    "/console//apps/grp/",
    "/console/./apps/grp/",
    "/Console/apps/grp/",
    "/console%2Fapps/grp/",
    "//console/apps/grp/",
    "/apps/grp/",
    "/sessions",
    "/metrics",
    "/livez",
];

/// Requests with whatever follows the Host header; `TOKEN` is one of Ludgate's own issuer.
const ASKED: [(&str, &str); 43] = [
    ("GET /home HTTP/1.1", "Accept: text/html\r\n\r\n"),
    ("HEAD /home HTTP/1.1", "\r\n"),
    ("GET /odd/reason HTTP/1.1", "\r\n"),
    ("GET /odd/no-reason HTTP/1.1", "\r\n"),
    ("GET /odd/teapot HTTP/1.1", "\r\n"),
    ("GET /odd/599 HTTP/1.1", "\r\n"),
    ("GET /odd/gateway HTTP/1.1", "\r\n"),
    ("POST /odd/created HTTP/1.1", "Content-Length: 0\r\n\r\n"),
    ("POST /odd/created HTTP/1.1", "\r\n"),
    ("GET /odd/away HTTP/1.1", "\r\n"),
    ("GET /odd/plain-http HTTP/1.1", "\r\n"),
    ("GET /odd/nothing HTTP/1.1", "\r\n"),
    ("GET /odd/reset HTTP/1.1", "\r\n"),
    ("GET /odd/until-the-end HTTP/1.1", "\r\n"),
    ("HEAD /odd/until-the-end HTTP/1.1", "\r\n"),
    (
        "GET /odd/trailers HTTP/1.1",
        "TE: trailers\r\nConnection: TE\r\n\r\n",
    ),
    ("HEAD /odd/trailers HTTP/1.1", "\r\n"),
    ("GET /odd/headers HTTP/1.1", "\r\n"),
    ("HEAD /odd/headers HTTP/1.1", "\r\n"),
    ("GET /many-cookies HTTP/1.1", "\r\n"),
    (
        "GET /files/data HTTP/1.1",
        "Accept-Encoding: gzip;q=0, identity\r\n\r\n",
    ),
    ("HEAD /files/data HTTP/1.1", "\r\n"),
    (
        "GET /files/data HTTP/1.1",
        "Range: bytes=1048575-2097153\r\n\r\n",
    ),
    (
        "GET /files/data HTTP/1.1",
        "Range: bytes=9-99999999\r\n\r\n",
    ),
    (
        "GET /files/data HTTP/1.1",
        "If-None-Match: \"3-mib\"\r\n\r\n",
    ),
    ("GET /files/stream HTTP/1.1", "\r\n"),
    ("HEAD /files/stream HTTP/1.1", "\r\n"),
    (
        "GET /api/session HTTP/1.1",
        "Cookie: second=line; and=more\r\n\r\n",
    ),
    ("GET /api/x HTTP/1.1", "Authorization: Basic eDp5\r\n\r\n"),
    (
        "GET /api/x HTTP/1.1",
        "Authorization: Bearer opaque-0123456789\r\n\r\n",
    ),
    (
        "GET /api/x HTTP/1.1",
        "Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2Vsc2V3aGVyZSJ9.c2ln\r\n\r\n",
    ),
    ("GET /api/x HTTP/1.1", "authorization: bearer TOKEN\r\n\r\n"),
    (
        "GET /api/x HTTP/1.1",
        "Authorization: Bearer TOKENbroken\r\n\r\n",
    ),
    (
        "PUT /api/a HTTP/1.1",
        "Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\": 1}",
    ),
    (
        "PATCH /api/a HTTP/1.1",
        "Content-Type: application/merge-patch+json\r\nContent-Length: 2\r\n\r\n{}",
    ),
    ("DELETE /api/a HTTP/1.1", "Content-Length: 3\r\n\r\nall"),
    ("GET /api/search HTTP/1.1", "Content-Length: 5\r\n\r\nquery"),
    (
        "PROPFIND /api/dav HTTP/1.1",
        "Depth: 1\r\nContent-Length: 4\r\n\r\n<a/>",
    ),
    ("frob /api/a HTTP/1.1", "\r\n"),
    (
        "OPTIONS /api/a HTTP/1.1",
        "Origin: https://evil.example\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a\r\n\r\n",
    ),
    (
        "GET /api/headers HTTP/1.1",
        "Accept: a/b\r\nX-Double: 1\r\nX-Other: o\r\nX-Double: \r\nx-double: 3,\"4\r\nX-Empty:\r\nX-Bytes: \u{e9}\u{4e2d}\r\n\
         X-Tab: a\tb\r\nAccept: c/d;q=0.1\r\nOrigin: null\r\nReferer: https://elsewhere.example/?api_token=x\r\nX_Under: 1\r\n\
         Cache-Control: max-age=0\r\nPragma: no-cache\r\nIf-Modified-Since: then\r\nMax-Forwards: 3\r\nDate: now\r\n\
         traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nSec-Fetch-Site: cross-site\r\n\
         Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\nX-CSRF-Token: t\r\nServer: me\r\nSet-Cookie: a=b\r\n\r\n",
    ),
    (
        "GET /api/forged HTTP/1.1",
        "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Port: 1\r\n\
         X-Forwarded-Prefix: /x\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Request-Id: mine\r\nVia: 1.0 proxy.example\r\n\
         X-Forwarded-User: root\r\nX-Forwarded-Email: root@x\r\nX-Forwarded-Groups: root\r\nX-Forwarded-Preferred-Username: root\r\n\r\n",
    ),
    (
        "POST /upload HTTP/1.1",
        "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authorization: Basic x\r\n\
         Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 5\r\n\r\n",
    ),
];

/// What the client was told, each with what it had asked.
pub type Told = Vec<(String, Message)>;

/// A client: where it connects, and its credentials.
pub struct Client {
    pub address: SocketAddr,
    /// The public authority, also where nothing stands in front of the console.
    pub host: String,
    /// A bearer token of Ludgate's own issuer: to the console a token like any other.
    pub token: String,
    /// Cookies of Ludgate's, that a browser would send to the whole origin.
    pub ours: String,
}

/// A client at work.
struct Visit<'c> {
    client: &'c Client,
    /// The console's, once it has signed in.
    cookies: String,
    kept: Option<Raw>,
    told: Told,
}

impl Client {
    /// Says everything, and gives back what it was told.
    pub async fn visit(&self) -> Told {
        let mut visit = Visit {
            client: self,
            cookies: "theme=\"a b\"".to_owned(),
            kept: None,
            told: Told::new(),
        };
        visit.whole().await;
        visit.told
    }
}

impl Visit<'_> {
    async fn whole(&mut self) {
        for (start, rest) in [
            (
                "GET /home HTTP/1.1",
                "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n",
            ),
            ("GET / HTTP/1.1", "\r\n"),
            ("GET /api/session HTTP/1.1", "\r\n"),
            ("GET /login?next=/home HTTP/1.1", "\r\n"),
        ] {
            self.exchange(start, rest.as_bytes()).await;
        }
        self.websocket(&[]).await;
        let form =
            b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\r\nnext=%2Fhome";
        self.exchange("POST /login HTTP/1.1", form).await;
        let set = self.told.last().expect("an answer").1.all("set-cookie");
        for line in &set {
            self.cookies += &format!("; {}", line.split(';').next().unwrap_or_default());
        }
        for target in TARGETS {
            self.exchange(&format!("GET {target} HTTP/1.1"), b"\r\n")
                .await;
        }
        for (start, rest) in ASKED {
            self.exchange(start, rest.replace("TOKEN", &self.client.token).as_bytes())
                .await;
        }
        self.uploads().await;
        self.events().await;
        self.websockets().await;
    }

    /// The lines that every request begins with. Ours stand before, between and after the console's
    /// cookies, which must come out as if they had never been there.
    fn head(&self, start: &str) -> String {
        let (ours, own) = (&self.client.ours, &self.cookies);
        let cookies = match (ours.is_empty(), self.told.len() % 3, own.split_once("; ")) {
            (true, _, _) => own.clone(),
            (false, 0, _) => format!("{ours}; {own}"),
            (false, 1, Some((first, rest))) => format!("{first}; {ours}; {rest}"),
            (false, _, _) => format!("{own}; {ours}"),
        };
        format!(
            "{start}\r\nHost: {}\r\nCookie: {cookies}\r\n",
            self.client.host
        )
    }

    /// Asks on the connection that is there, while it may be used.
    async fn exchange(&mut self, start: &str, rest: &[u8]) {
        let mut raw = match self.kept.take() {
            Some(raw) => raw,
            None => Raw::connect(self.client.address).await,
        };
        raw.send([self.head(start).as_bytes(), rest].concat()).await;
        let read = raw.reader.message(start.starts_with("HEAD ")).await;
        let answer = read
            .ok()
            .flatten()
            .unwrap_or_else(|| panic!("no answer to {start}"));
        // An answer that says neither how long it is nor that it is chunked ends with the
        // connection.
        let bounded = matches!(answer.status(), 204 | 304)
            || ["content-length", "transfer-encoding"]
                .iter()
                .any(|name| answer.header(name).is_some());
        if bounded
            && !answer
                .all("connection")
                .iter()
                .any(|value| value == "close")
        {
            self.kept = Some(raw);
        }
        self.told.push((start.to_owned(), answer));
    }

    async fn uploads(&mut self) {
        let bytes = pattern(0..UPLOAD);
        let sized = format!("Content-Length: {UPLOAD}\r\n\r\n");
        self.exchange(
            "POST /upload HTTP/1.1",
            &[sized.as_bytes(), &bytes].concat(),
        )
        .await;
        let mut chunked = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in bytes.chunks(65_537) {
            chunked.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        self.exchange("PUT /upload HTTP/1.1", &chunked).await;
    }

    /// The second event is sent only after the first has arrived: a proxy that buffers them waits
    /// for ever.
    async fn events(&mut self) {
        let mut raw = Raw::connect(self.client.address).await;
        let start = "GET /events HTTP/1.1";
        raw.send(self.head(start) + "Accept: text/event-stream\r\nLast-Event-ID: 0\r\n\r\n")
            .await;
        let head = raw.reader.head().await.expect("readable").expect("a head");
        let mut all = head.raw;
        while !all.ends_with(b"data: one\n\n\r\n") {
            let more = raw.reader.some().await.expect("the first event");
            assert!(!more.is_empty(), "it ended before the first event");
            all.extend(more);
        }
        self.exchange("POST /go HTTP/1.1", b"Content-Length: 0\r\n\r\n")
            .await;
        while !all.ends_with(b"0\r\n\r\n") {
            let more = raw.reader.some().await.expect("the second event");
            assert!(!more.is_empty(), "it ended before the second event");
            all.extend(more);
        }
        let answer = Reader::new(&all[..])
            .message(false)
            .await
            .expect("readable")
            .expect("an answer");
        self.told.push((start.to_owned(), answer));
    }

    async fn websockets(&mut self) {
        let close = |code: u16, reason: &str| {
            frame(
                0x88,
                Some(MASK),
                &[&code.to_be_bytes()[..], reason.as_bytes()].concat(),
            )
        };
        let all_kinds = [
            frame(0x81, Some(MASK), "caf\u{e9}".as_bytes()),
            frame(0x02, Some(MASK), b"in three"),
            frame(0x00, Some(MASK), b" pieces, "),
            frame(0x89, Some(MASK), b"a ping between"),
            frame(0x80, Some(MASK), b"and no more"),
            frame(0x82, Some(MASK), &[]),
            frame(0x82, Some(MASK), &pattern(0..126)),
            frame(0x82, Some(MASK), &pattern(0..70_000)),
            frame(0x8a, Some(MASK), b"an unsolicited pong"),
            // A reserved bit is for extensions; a proxy must not interpret it.
            frame(0xc1, Some(MASK), b"deflated, says the bit"),
            close(4001, "bye"),
        ];
        self.websocket(&all_kinds.concat()).await;
        self.websocket(&[frame(0x81, Some(MASK), HANG_UP), close(1012, "")].concat())
            .await;
    }

    /// Opens one and says this; what comes until its end is told as a message of its own.
    async fn websocket(&mut self, frames: &[u8]) {
        let mut raw = Raw::connect(self.client.address).await;
        let start = "GET /ws?a=b HTTP/1.1";
        let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://elsewhere.example\r\n\
                      Sec-WebSocket-Protocol: chat, graphql-ws\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
        raw.send(self.head(start) + fields).await;
        let answer = raw
            .reader
            .message(false)
            .await
            .expect("readable")
            .expect("an answer");
        let switched = answer.status() == 101;
        self.told.push((start.to_owned(), answer));
        if switched {
            raw.send(frames).await;
            let body = raw.reader.rest().await.expect("an end");
            let told = Message {
                start: "frames".to_owned(),
                body,
                ..Message::default()
            };
            self.told.push(("frames".to_owned(), told));
        }
    }
}
