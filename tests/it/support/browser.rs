//! A small browser: a cookie jar with paths, Sec-Fetch headers, redirects by hand. What it sends is
//! what browsers send; what it may not read, it does not read.

use std::{collections::BTreeMap, net::SocketAddr};

use super::{message::Message, raw::Raw};

/// One browser with its own jar.
#[derive(Clone)]
pub struct Browser {
    gateway: SocketAddr,
    /// The public authority, as in the address bar.
    pub host: String,
    /// (name, path) → value.
    pub jar: BTreeMap<(String, String), String>,
}

/// Who in the browser asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Navigation,
    Frame,
    Fetch,
    ForeignFetch,
    SiblingFetch,
    ForeignNavigation,
    /// A form of a page of this origin, and of another site's; with Origin and Content-Type of the
    /// test's own.
    Form,
    ForeignForm,
    /// No browser: no Sec-Fetch header, accepts anything.
    Program,
}

impl From {
    pub fn headers(self) -> &'static str {
        match self {
            From::Navigation => {
                "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n"
            }
            From::ForeignNavigation => {
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n"
            }
            From::Form => {
                "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n"
            }
            From::ForeignForm => {
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n"
            }
            From::Frame => {
                "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\nAccept: text/html,*/*;q=0.8\r\n"
            }
            From::Fetch => {
                "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nAccept: */*\r\n"
            }
            From::ForeignFetch => {
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nAccept: */*\r\nOrigin: http://evil.test\r\n"
            }
            From::SiblingFetch => {
                "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\nAccept: */*\r\n"
            }
            From::Program => "Accept: */*\r\n",
        }
    }
}

impl Browser {
    pub fn new(gateway: SocketAddr, host: &str) -> Browser {
        Browser {
            gateway,
            host: host.to_owned(),
            jar: BTreeMap::new(),
        }
    }

    /// Asks this gateway from now on; the address bar shows the same.
    pub fn turn_to(&mut self, gateway: SocketAddr) {
        self.gateway = gateway;
    }

    /// The Cookie header for a path.
    pub fn cookies(&self, path: &str) -> String {
        let mut fitting: Vec<_> = self
            .jar
            .iter()
            .filter(|((_, at), _)| path.starts_with(at.as_str()))
            .collect();
        fitting.sort_by_key(|((_, at), _)| std::cmp::Reverse(at.len()));
        fitting
            .iter()
            .map(|((name, _), value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("; ")
    }

    pub fn cookie_line(&self, path: &str) -> String {
        match self.cookies(path) {
            cookies if cookies.is_empty() => String::new(),
            cookies => format!("Cookie: {cookies}\r\n"),
        }
    }

    pub fn value(&self, name: &str) -> Option<String> {
        self.jar
            .iter()
            .find(|((n, _), _)| n == name)
            .map(|(_, value)| value.clone())
    }

    /// Signs out by the page for it.
    pub async fn sign_out(&mut self) -> Message {
        let page = self.open("/oauth2/sign_out").await;
        self.sign_out_with(&field(&page.text(), "token")).await
    }

    /// Sends the form of that page, with this token.
    pub async fn sign_out_with(&mut self, token: &str) -> Message {
        let body = format!("token={token}&rd=");
        let more = format!(
            "Origin: http://{}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            self.host
        );
        self.send(
            "POST",
            "/oauth2/sign_out",
            From::Form,
            &more,
            body.as_bytes(),
        )
        .await
    }

    /// One request, without following anything; but the page that begins a sign-in goes on by
    /// itself, as its script does in a browser.
    pub async fn send(
        &mut self,
        method: &str,
        target: &str,
        from: From,
        more: &str,
        body: &[u8],
    ) -> Message {
        let answer = self.once(method, target, from, more, body).await;
        let is_start =
            method == "GET" && target.starts_with("/oauth2/start?") && answer.status() == 200;
        let page = if is_start {
            answer.text()
        } else {
            String::new()
        };
        let Some(onward) = page
            .split("href=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
        else {
            return answer;
        };
        let onward = onward.replace("&#38;", "&");
        self.once("GET", &onward, from, more, b"").await
    }

    /// One request, and nothing else.
    pub async fn once(
        &mut self,
        method: &str,
        target: &str,
        from: From,
        more: &str,
        body: &[u8],
    ) -> Message {
        let cookies = self.cookie_line(target.split('?').next().unwrap_or_default());
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{}{cookies}{more}{length}\r\n",
            self.host,
            from.headers()
        );
        let mut raw = Raw::connect(self.gateway).await;
        raw.send([head.as_bytes(), body].concat()).await;
        let answer = raw
            .reader
            .message(method == "HEAD")
            .await
            .ok()
            .flatten()
            .expect("an answer");
        self.keep(&answer);
        answer
    }

    pub async fn open(&mut self, target: &str) -> Message {
        self.send("GET", target, From::Navigation, "", b"").await
    }

    pub async fn fetch(&mut self, target: &str) -> Message {
        self.send("GET", target, From::Fetch, "", b"").await
    }

    /// Takes what the answer sets.
    pub fn keep(&mut self, answer: &Message) {
        for line in answer.all("set-cookie") {
            let mut parts = line.split(';').map(str::trim);
            let (name, value) = parts
                .next()
                .and_then(|pair| pair.split_once('='))
                .expect("a pair");
            let mut path = "/".to_owned();
            let mut gone = false;
            for part in parts {
                let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
                match attribute.to_ascii_lowercase().as_str() {
                    "path" => path = value.to_owned(),
                    "max-age" => gone = value == "0",
                    _ => {}
                }
            }
            if gone {
                self.jar.remove(&(name.to_owned(), path));
            } else {
                self.jar.insert((name.to_owned(), path), value.to_owned());
            }
        }
    }

    /// Begins at a target that asks to sign in, signs in at the built-in provider as this person,
    /// and gives back the answer of the callback.
    pub async fn sign_in_from(&mut self, start: &Message, person: &str) -> Message {
        let location = start
            .header("location")
            .unwrap_or_else(|| panic!("no redirect: {start:?}"));
        let to_provider = if location.starts_with("http") {
            location
        } else {
            self.open(&location)
                .await
                .header("location")
                .expect("a redirect to the provider")
        };
        let back = at_built_in_provider(&to_provider, person).await;
        self.open(&back).await
    }

    /// Opens a target as this person, through the whole sign-in, and gives back the app's answer.
    pub async fn sign_in(&mut self, target: &str, person: &str) -> Message {
        let start = self.open(target).await;
        assert_eq!(start.status(), 302, "{start:?}");
        let landed = self.sign_in_from(&start, person).await;
        assert_eq!(landed.status(), 303, "{}", landed.text());
        assert_eq!(landed.header("location").as_deref(), Some(target));
        self.open(target).await
    }
}

/// Clicks a name at the built-in provider; gives back the callback's path and query.
pub async fn at_built_in_provider(authorize: &str, person: &str) -> String {
    let url = url::Url::parse(&format!("{authorize}&login_as={person}")).expect("a URL");
    let address = format!("127.0.0.1:{}", url.port().expect("a port"))
        .parse()
        .expect("an address");
    let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        url.authority()
    );
    let answer = Raw::exchange(address, request).await;
    path_of(
        &answer
            .header("location")
            .unwrap_or_else(|| panic!("no way back: {answer:?}")),
    )
}

/// Path and query of a URL.
pub fn path_of(url: &str) -> String {
    let url = url::Url::parse(url).expect("a URL");
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// The value of a hidden field of a page.
pub fn field(page: &str, name: &str) -> String {
    let field = page.split(&format!("name=\"{name}\" value=\"")).nth(1);
    field
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_else(|| panic!("no {name} in {page}"))
        .to_owned()
}
