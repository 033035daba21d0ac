//! What the console answers, byte by byte.

use aws_lc_rs::digest;

use super::websocket::frame;
use crate::support::{backend::accept_of, message::Message};

/// Its secrets, as `site.console_cookies` names them; each has a `.sig` twin.
pub const SECRETS: [&str; 3] = ["accessToken", "refreshToken", "apiToken"];
/// How large its file is, and its stream.
pub const FILE: usize = 3 << 20;
const ETAG: &str = "\"3-mib\"";

/// How it goes on after a request.
pub enum Answer {
    Whole(Vec<u8>),
    /// Lets one held answer go on.
    Go(Vec<u8>),
    /// The beginning; the rest follows after `POST /go`.
    Held(Vec<u8>, Vec<u8>),
    WebSocket(Vec<u8>),
}

/// Answers that stand as they are.
const FIXED: [(&str, &str); 13] = [
    (
        "/odd/reason",
        "HTTP/1.1 299 Quite All Right (for now)\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/no-reason",
        "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "/odd/teapot",
        "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 5\r\n\r\nshort",
    ),
    (
        "/odd/599",
        "HTTP/1.1 599 Beyond\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/gateway",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nown",
    ),
    (
        "/odd/created",
        "HTTP/1.1 201 Created\r\nLocation: ../made/7?x=%2F#top\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/away",
        "HTTP/1.1 301 Moved Permanently\r\nLocation: https://other.example:8443//a?b#c\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/plain-http",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/console/apps/x/\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/nothing",
        "HTTP/1.1 204 No Content\r\nX-Empty:\r\n\r\n",
    ),
    (
        "/odd/reset",
        "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/odd/until-the-end",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nits end is the end of the connection",
    ),
    (
        "/odd/trailers",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Twice\r\n\r\n3;name=\"value\"\r\nabc\r\n0\r\n\
         X-Sum: 6\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n",
    ),
    (
        "/odd/headers",
        "HTTP/1.1 200 OK\r\nServer: Console/0.9 (odd; \"quoted\")\r\nDate: Sunday, 06-Nov-94 08:49:37 GMT\r\n\
         Via: 1.0 cache.example (squid)\r\nX-Double: first\r\nAge: 0\r\nX-Double: \r\nX-DOUBLE: third,with,commas\r\n\
         Cache-Control: no-store\r\nCache-Control: private=\"set-cookie\"\r\nVary: *\r\n\
         Strict-Transport-Security: max-age=31536000; includeSubDomains; preload\r\n\
         Clear-Site-Data: \"cache\", \"cookies\", \"*\"\r\nAlt-Svc: h3=\":443\"; ma=60\r\nNEL: {\"report_to\":\"a\"}\r\n\
         Report-To: {\"group\":\"a\"}\r\nReporting-Endpoints: a=\"/r\"\r\nOrigin-Agent-Cluster: ?1\r\nSet-Login: logged-in\r\n\
         Service-Worker-Allowed: /\r\nContent-Security-Policy: default-src 'self'\r\nX-Frame-Options: DENY\r\n\
         WWW-Authenticate: Basic realm=\"console\"\r\nWWW-Authenticate: Bearer\r\nContent-Encoding: x-odd\r\n\
         Content-Disposition: attachment; filename=\"r\u{e9}sum\u{e9}.pdf\"\r\nX-Request-Id: of-the-console\r\n\
         X-Forwarded-User: echoed\r\nX-Tab: a\tb\r\nLink: </a>; rel=preload\r\nLink: </b>; rel=preload\r\n\
         Set-Cookie: theme=dark; Domain=.example.com; Path=/console; Expires=Wed, 21 Oct 2037 07:28:00 GMT; SameSite=None; Secure\r\n\
         Set-Cookie: ludgate=stolen; Path=/\r\nSet-Cookie: odd=\"a b\";Priority=High ;; partitioned;max-age = 7; Path=\r\n\
         Set-Cookie: phapplication-session-id=stolen\r\nSet-Cookie: __Host-ludgate-bind=stolen; Path=/; Secure\r\n\
         Set-Cookie: accessToken=renewed; HttpOnly\r\nSet-Cookie: a=b=c\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
    ),
];

pub fn answer(request: &Message) -> Answer {
    let method = request.start.split(' ').next().unwrap_or_default();
    let path = request.target().split('?').next().unwrap_or_default();
    let fixed = FIXED.iter().find(|(at, _)| *at == path);
    let whole = match (method, path) {
        ("POST", "/go") => return Answer::Go(message("204 No Content", "", None)),
        ("POST", "/login") => signed_in_now(request),
        (_, "/login") => message(
            "200 OK",
            "Content-Type: text/html\r\n",
            Some(b"<form method=post>"),
        ),
        (_, "/" | "/home") if !is_signed_in(request) => {
            let to = format!("Location: /login?next={path}\r\nCache-Control: no-store\r\n");
            message("302 Found", &to, Some(b""))
        }
        (_, "/home") => message(
            "200 OK",
            "Content-Type: text/html\r\n",
            Some(b"<h1>Welcome</h1>"),
        ),
        (_, "/ws") if is_signed_in(request) => return websocket(request),
        (_, "/ws") => message(
            "401 Unauthorized",
            "X-Why: no session\r\n",
            Some(b"who are you?"),
        ),
        (_, "/upload") => uploaded(request),
        (_, "/files/data") => file(request),
        (_, "/files/stream") => stream(),
        (_, "/files/held") => return held(),
        (_, "/events") => return events(),
        (_, "/many-cookies") => many_cookies(),
        (_, path) if path.starts_with("/api/") => api(request, method),
        _ => match fixed {
            Some((_, answer)) => answer.as_bytes().to_vec(),
            None => message(
                "200 OK",
                "Content-Type: text/plain\r\n",
                Some(request.start.as_bytes()),
            ),
        },
    };
    Answer::Whole(if method == "HEAD" {
        head_of(whole)
    } else {
        whole
    })
}

fn message(status: &str, headers: &str, body: Option<&[u8]>) -> Vec<u8> {
    let length = body
        .map(|body| format!("Content-Length: {}\r\n", body.len()))
        .unwrap_or_default();
    let head = format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n");
    [head.as_bytes(), body.unwrap_or_default()].concat()
}

fn head_of(mut answer: Vec<u8>) -> Vec<u8> {
    if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
        answer.truncate(end + 4);
    }
    answer
}

/// A byte of a pattern that has no short period in sizes that buffers have.
pub fn pattern(range: std::ops::Range<usize>) -> Vec<u8> {
    range
        .map(|at| (at % 251) as u8 ^ (at >> 16) as u8)
        .collect()
}

fn signed_in_now(request: &Message) -> Vec<u8> {
    let next = url::form_urlencoded::parse(&request.body).find(|(name, _)| name == "next");
    let next = next.map_or_else(|| "/".to_owned(), |(_, next)| next.into_owned());
    let mut headers = format!("Location: {next}\r\n");
    for name in SECRETS {
        headers +=
            &format!("Set-Cookie: {name}=eyJ.{name}-CANARY; path=/; httponly; SameSite=Lax\r\n");
        headers += &format!(
            "Set-Cookie: {name}.sig=Z2k-{name}-CANARY; path=/; httponly; SameSite=Lax\r\n"
        );
    }
    message("302 Found", &headers, Some(b"Redirecting"))
}

/// Whether a cookie and its signature came, in whichever line.
fn is_signed_in(request: &Message) -> bool {
    let cookies = request.all("cookie").join("; ");
    let has = |wanted: &str| cookies.split("; ").any(|pair| pair == wanted);
    has("accessToken=eyJ.accessToken-CANARY") && has("accessToken.sig=Z2k-accessToken-CANARY")
}

fn websocket(request: &Message) -> Answer {
    let accept = accept_of(&request.header("sec-websocket-key").unwrap_or_default());
    let head = format!(
        "HTTP/1.1 101 Here We Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: graphql-ws\r\nX-Session: 7\r\nSet-Cookie: seen=1; Path=/ws\r\n\r\n"
    );
    // The greeting comes in one piece with the head.
    Answer::WebSocket([head.as_bytes(), &frame(0x81, None, b"welcome")].concat())
}

fn sum(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn uploaded(request: &Message) -> Vec<u8> {
    let text = format!("{} {}", request.body.len(), sum(&request.body));
    message(
        "200 OK",
        "Content-Type: text/plain\r\n",
        Some(text.as_bytes()),
    )
}

/// It has credentials of its own, which it tells apart by itself.
fn api(request: &Message, method: &str) -> Vec<u8> {
    let given = request.header("authorization");
    let (status, who) = match &given {
        Some(given) => ("200 OK", given.as_str()),
        None if is_signed_in(request) => ("200 OK", "the session"),
        None => ("401 Unauthorized", "anonymous"),
    };
    let body =
        serde_json::json!({ "method": method, "who": who, "sum": sum(&request.body) }).to_string();
    let more = "Content-Type: application/json\r\nWWW-Authenticate: Bearer realm=\"console\"\r\n";
    message(status, more, Some(body.as_bytes()))
}

fn file(request: &Message) -> Vec<u8> {
    let headers = format!(
        "ETag: {ETAG}\r\nAccept-Ranges: bytes\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n"
    );
    if request.header("if-none-match").as_deref() == Some(ETAG) {
        return message("304 Not Modified", &headers, None);
    }
    let range = request.header("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()?))
    });
    match range {
        Some((from, to)) if from <= to && to < FILE => {
            let more = format!("{headers}Content-Range: bytes {from}-{to}/{FILE}\r\n");
            message("206 Partial Content", &more, Some(&pattern(from..to + 1)))
        }
        Some(_) => {
            let more = format!("{headers}Content-Range: bytes */{FILE}\r\n");
            message("416 Range Not Satisfiable", &more, Some(b""))
        }
        None => message("200 OK", &headers, Some(&pattern(0..FILE))),
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// In chunks of one byte, and of more than any buffer holds.
fn stream() -> Vec<u8> {
    let mut out = message(
        "200 OK",
        "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n",
        None,
    );
    let mut at = 0;
    for size in [1, 2, 4095, 4096, 16_385, 100_003, 1_000_003]
        .into_iter()
        .cycle()
    {
        let end = FILE.min(at + size);
        out.extend(chunk(&pattern(at..end)));
        at = end;
        if at == FILE {
            break;
        }
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

fn held() -> Answer {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FILE}\r\n\r\n");
    Answer::Held(
        [head.as_bytes(), &pattern(0..FILE / 2)].concat(),
        pattern(FILE / 2..FILE),
    )
}

fn events() -> Answer {
    let more = "Content-Type: text/event-stream\r\nCache-Control: no-transform\r\nTransfer-Encoding: chunked\r\n";
    let first = [
        message("200 OK", more, None),
        chunk(b"retry: 10\nid: 1\ndata: one\n\n"),
    ]
    .concat();
    Answer::Held(
        first,
        [
            chunk(b": a comment\n\nevent: x\ndata: two\n\n"),
            b"0\r\n\r\n".to_vec(),
        ]
        .concat(),
    )
}

/// More than an app may set, and some that have no name.
fn many_cookies() -> Vec<u8> {
    let mut headers: String = (0..80)
        .map(|n| format!("Set-Cookie: c{n}=1; Path=/\r\n"))
        .collect();
    headers += "Set-Cookie: nameless; Path=/\r\nSet-Cookie: =nameless too\r\nSet-Cookie: =ludgate=stolen\r\n";
    headers += "Set-Cookie: __Host-ludgate\r\n";
    message("200 OK", &headers, Some(b"ok"))
}
