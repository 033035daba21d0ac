//! Fidelity ("unchanged" in docs/behaviour.md): generated requests and answers, once straight to
//! the app and once through the gateway. The app must see the same, and the client must get the
//! same, but for what docs/behaviour.md#headers lists.
//!
//! `make test-long` runs more of them; a failure names the number of its case, which is all that
//! made it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http::{HeaderName, HeaderValue, Request};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

use crate::support::{
    http2::{Http2, whole},
    message::{Message, Reader},
    raw::Raw,
    world::World,
};

/// How many cases, unless `LUDGATE_DIFFERENTIAL` says another number.
const CASES: u64 = 2_000;
const CLIENTS: u64 = 8;

/// SplitMix64: as good as anything here, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).expect("small")]
    }

    fn bytes(&mut self, most: u64, alphabet: &[u8]) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length)
            .map(|_| alphabet[usize::try_from(self.below(alphabet.len() as u64)).expect("small")])
            .collect()
    }
}

/// Headers, a body and how it is framed.
struct Part {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    /// `None`: by length.
    chunks: Option<Vec<usize>>,
    trailers: Vec<(String, Vec<u8>)>,
}

struct Case {
    method: String,
    target: String,
    request: Part,
    has_body: bool,
    status: u16,
    reason: String,
    answer: Part,
}

const UNRESERVED: &[u8] = b"abcXYZ019-._~!$&'()*+,;=:@";
const NAMES: [&str; 14] = [
    "accept",
    "content-type",
    "x-a",
    "x-b",
    "x-c-d",
    "etag",
    "if-none-match",
    "range",
    "content-language",
    "x-empty",
    "cache-control",
    "last-modified",
    "link",
    "x-with-1-digit",
];

fn value(dice: &mut Dice) -> Vec<u8> {
    let text = dice.bytes(40, b"abc ,;=\"'()<>@[]{}?/\\0189%\t\xc3\xa9\xff\x80");
    text.trim_ascii().to_vec()
}

fn headers(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    (0..dice.below(12))
        .map(|_| (dice.pick(&NAMES).to_owned(), value(dice)))
        .collect()
}

fn part(dice: &mut Dice, has_body: bool, may_have_trailers: bool) -> Part {
    let most = match dice.below(20) {
        0 => 200_000,
        1..=4 => 20_000,
        _ => 300,
    };
    let length = usize::try_from(if has_body { dice.below(most) } else { 0 }).expect("small");
    let mut body = Vec::with_capacity(length + 8);
    while body.len() < length {
        body.extend(dice.roll().to_le_bytes());
    }
    body.truncate(length);
    let chunks = (has_body && dice.chance(2)).then(|| {
        let (mut left, mut chunks) = (length, Vec::new());
        while left > 0 {
            let size = usize::try_from(1 + dice.below(left as u64))
                .expect("small")
                .min(left);
            chunks.push(size);
            left -= size;
        }
        chunks
    });
    let count = if chunks.is_some() && may_have_trailers {
        dice.below(3)
    } else {
        0
    };
    let trailers: Vec<_> = (0..count)
        .map(|at| (format!("x-end-{at}"), value(dice)))
        .collect();
    let mut headers = headers(dice);
    if !trailers.is_empty() {
        let names: Vec<&str> = trailers.iter().map(|(name, _)| name.as_str()).collect();
        headers.push(("trailer".into(), names.join(", ").into_bytes()));
    }
    Part {
        headers,
        body,
        chunks,
        trailers,
    }
}

impl Case {
    fn new(number: u64) -> Case {
        let mut dice = Dice(number);
        let method = dice.pick(&[
            "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT",
            "x-own",
        ]);
        let mut target = "/apps/same".to_owned();
        for _ in 0..dice.below(5) {
            target.push('/');
            let mut segment = String::from_utf8(dice.bytes(12, UNRESERVED)).expect("ASCII");
            if dice.chance(3) {
                segment.push_str(dice.pick(&["%2F", "%2f", "%20", "%C3%A9", "%ff", "%25", "%3f"]));
            }
            // What could climb is refused, and another test's.
            if segment.contains("..")
                || segment
                    .split(';')
                    .next()
                    .is_some_and(|plain| matches!(plain, "." | ""))
            {
                segment = "x".into();
            }
            target += &segment;
        }
        if target == "/apps/same" {
            target.push('/');
        }
        if dice.chance(2) {
            target.push('?');
            let query = dice.bytes(40, b"abc019-._~!$&'()*+,;=:@/?%[]{}|\\^`");
            target += std::str::from_utf8(&query).expect("ASCII");
        }
        let has_body = dice.chance(2);
        // Trailers of a request are dropped (docs/behaviour.md#headers), so none is sent.
        let request = part(&mut dice, has_body, false);
        let status = [
            200, 200, 200, 201, 206, 301, 302, 400, 401, 403, 404, 418, 500, 503, 204, 304,
        ][usize::try_from(dice.below(16)).expect("small")];
        let reason = dice.pick(&["OK", "", "Quite All Right", "No"]).to_owned();
        let answer = part(&mut dice, status != 204 && status != 304, true);
        Case {
            method: method.into(),
            target,
            request,
            has_body,
            status,
            reason,
            answer,
        }
    }

    fn request(&self, host: &str, number: u64) -> Vec<u8> {
        let mut out = format!(
            "{} {} HTTP/1.1\r\nHost: {host}\r\nX-Case: {number}\r\nTE: trailers\r\n",
            self.method, self.target
        )
        .into_bytes();
        write(&mut out, &self.request, self.has_body);
        out
    }

    fn answer(&self) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason).into_bytes();
        write(
            &mut out,
            &self.answer,
            self.status != 204 && self.status != 304,
        );
        out
    }
}

fn write(out: &mut Vec<u8>, part: &Part, framed: bool) {
    for (name, value) in &part.headers {
        out.extend(name.bytes());
        out.extend(b": ");
        out.extend(value);
        out.extend(b"\r\n");
    }
    match &part.chunks {
        None if framed => {
            out.extend(format!("Content-Length: {}\r\n\r\n", part.body.len()).bytes());
            out.extend(&part.body);
        }
        None => out.extend(b"\r\n"),
        Some(chunks) => {
            out.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            let mut at = 0;
            for size in chunks {
                out.extend(format!("{size:x}\r\n").bytes());
                out.extend(&part.body[at..at + size]);
                out.extend(b"\r\n");
                at += size;
            }
            out.extend(b"0\r\n");
            for (name, value) in &part.trailers {
                out.extend(name.bytes());
                out.extend(b": ");
                out.extend(value);
                out.extend(b"\r\n");
            }
            out.extend(b"\r\n");
        }
    }
}

/// Answers each request as its case says, and keeps what came.
#[derive(Clone)]
struct App {
    address: SocketAddr,
    seen: Arc<Mutex<BTreeMap<u64, Vec<Message>>>>,
}

impl App {
    async fn start() -> App {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let app = App {
            address: listener.local_addr().expect("an address"),
            seen: Arc::default(),
        };
        let serving = app.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        app
    }

    async fn serve(self, stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket");
        let (read, mut write) = stream.into_split();
        let mut reader = Reader::new(read);
        while let Ok(Some(message)) = reader.message(false).await {
            let number = message
                .header("x-case")
                .and_then(|number| number.parse().ok())
                .expect("a case");
            self.seen
                .lock()
                .expect("no panic")
                .entry(number)
                .or_default()
                .push(message);
            if write.write_all(&Case::new(number).answer()).await.is_err() {
                return;
            }
        }
    }

    fn remove(&self, number: u64) -> Vec<Message> {
        self.seen
            .lock()
            .expect("no panic")
            .remove(&number)
            .unwrap_or_default()
    }
}

/// Values in order for each name, without those that docs/behaviour.md#headers and #cookies name.
fn fields(message: &Message, ours: &[&str]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut fields: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in &message.headers {
        let name = name.to_ascii_lowercase();
        if !ours.contains(&name.as_str()) && !name.starts_with("x-forwarded-") {
            fields.entry(name).or_default().push(value.clone());
        }
    }
    fields
}

/// TE is of one connection only; without it none may be sent trailers (RFC 9110 section 6.5.1).
const OF_REQUESTS: [&str; 6] = [
    "via",
    "forwarded",
    "x-real-ip",
    "x-request-id",
    "te",
    "transfer-encoding",
];
/// How a message is framed may change with the version; that it is, the bodies show.
const FRAMING: [&str; 2] = ["transfer-encoding", "content-length"];

fn same_request(number: u64, direct: &Message, through: &Message, framing: bool) {
    assert_eq!(direct.start, through.start, "case {number}");
    let ours = if framing {
        &OF_REQUESTS[..]
    } else {
        &[&OF_REQUESTS[..], &FRAMING].concat()
    };
    assert_eq!(fields(direct, ours), fields(through, ours), "case {number}");
    assert!(
        direct.body == through.body && !through.truncated,
        "case {number}: the body"
    );
}

async fn over_http1(
    number: u64,
    case: &Case,
    host: &str,
    direct: &mut Raw,
    through: &mut Raw,
    app: &App,
) {
    let request = case.request(host, number);
    direct.send(&request).await;
    let expected = direct
        .answer()
        .await
        .unwrap_or_else(|| panic!("case {number}: no answer of the app"));
    through.send(&request).await;
    let got = through
        .answer()
        .await
        .unwrap_or_else(|| panic!("case {number}: no answer"));
    let seen = app.remove(number);
    let [first, second] = &seen[..] else {
        panic!("case {number}: {} requests, {got:?}", seen.len())
    };
    same_request(number, first, second, true);
    assert_eq!(
        expected.start.trim_end(),
        got.start.trim_end(),
        "case {number}"
    );
    assert_eq!(
        fields(&expected, &["transfer-encoding"]),
        fields(&got, &["transfer-encoding"]),
        "case {number}"
    );
    assert!(
        expected.body == got.body && !got.truncated,
        "case {number}: the body"
    );
    assert_eq!(expected.trailers, got.trailers, "case {number}: trailers");
}

async fn over_http2(
    number: u64,
    case: &Case,
    host: &str,
    direct: &mut Raw,
    client: &Http2,
    app: &App,
) {
    direct.send(&case.request(host, number)).await;
    let expected = direct
        .answer()
        .await
        .unwrap_or_else(|| panic!("case {number}: no answer of the app"));
    let mut request = Request::builder()
        .method(case.method.as_str())
        .uri(format!("http://{host}{}", case.target));
    request = request.header("x-case", number);
    for (name, value) in &case.request.headers {
        let name: HeaderName = name.parse().expect("a name");
        request = request.header(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    let got = client
        .whole(
            request
                .body(whole(case.request.body.clone()))
                .expect("a request"),
        )
        .await;
    let seen = app.remove(number);
    let [first, second] = &seen[..] else {
        panic!("case {number}: {} requests, {got:?}", seen.len())
    };
    same_request(number, first, second, false);
    assert_eq!(expected.status(), got.status(), "case {number}");
    let mut fields_of = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (name, value) in got
        .head
        .headers
        .iter()
        .filter(|(name, _)| !FRAMING.contains(&name.as_str()))
    {
        fields_of
            .entry(name.to_string())
            .or_default()
            .push(value.as_bytes().to_vec());
    }
    assert_eq!(fields(&expected, &FRAMING), fields_of, "case {number}");
    assert!(expected.body == got.body, "case {number}: the body");
    let trailers: Vec<(String, Vec<u8>)> = got
        .trailers
        .iter()
        .flat_map(http::HeaderMap::iter)
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect();
    assert_eq!(expected.trailers, trailers, "case {number}: trailers");
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_messages_come_through_as_they_go_straight() {
    let cases = std::env::var("LUDGATE_DIFFERENTIAL")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(CASES);
    let app = App::start().await;
    let address = app.address;
    let toml =
        format!("[[apps]]\nid = \"same\"\naccess = \"public\"\nupstream = \"http://{address}\"\n");
    let world = World::as_program("h2c = true\n", &toml).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (app, host, address) = (app.clone(), world.host.clone(), world.running.address);
            tokio::spawn(async move {
                let (mut direct, mut through) =
                    (Raw::connect(app.address).await, Raw::connect(address).await);
                let http2 = Http2::connect(address).await;
                for number in (client..cases).step_by(usize::try_from(CLIENTS).expect("small")) {
                    let case = Case::new(number);
                    if number / CLIENTS % 3 == 2 {
                        over_http2(number, &case, &host, &mut direct, &http2, &app).await;
                    } else {
                        over_http1(number, &case, &host, &mut direct, &mut through, &app).await;
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("the same both ways");
    }
}
