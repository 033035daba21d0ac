//! npm `oidc-provider`, a certified OpenID provider, as a process of its own.

use super::{
    browser::path_of,
    message::{Message, PATIENCE},
    raw::Raw,
    world::SECRET,
};
use serde_json::Value;
use std::{collections::BTreeMap, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The provider's process; killed with the value.
pub struct OidcProvider {
    _process: Child,
    pub issuer: String,
}

/// State, processor time and place in the kernel of each thread of a process.
fn what_it_does(process: u32) -> String {
    let read = |file: &std::path::Path| std::fs::read_to_string(file).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let one = |thread: std::path::PathBuf| {
        format!(
            "{} wchan {}\n",
            read(&thread.join("stat")).trim_end(),
            read(&thread.join("wchan"))
        )
    };
    threads.map(|thread| one(thread.path())).collect()
}

impl OidcProvider {
    /// A Node.js that has said nothing for half a minute is ended and started anew, at most twice,
    /// and what it was doing is printed: seen once among some hundred starts, with nothing of ours
    /// under way yet.
    pub async fn start(host: &str, algorithm: &str) -> OidcProvider {
        for _ in 0..3 {
            let (mut process, mut lines) = Self::spawn(host, algorithm);
            let Ok(line) = tokio::time::timeout(PATIENCE, lines.next_line()).await else {
                eprintln!("{}", what_it_does(process.id().expect("it runs")));
                process.kill().await.expect("it ends");
                continue;
            };
            let line = line
                .expect("readable")
                .expect("a line: was `npm ci` run in tests/real/oidc-provider?");
            let said: Value = serde_json::from_str(&line).expect("JSON");
            let issuer = said["issuer"].as_str().expect("an issuer").to_owned();
            return OidcProvider {
                _process: process,
                issuer,
            };
        }
        panic!("the provider did not start, three times over");
    }

    fn spawn(host: &str, algorithm: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/oidc-provider");
        let mut process = Command::new("node")
            .arg("op.mjs")
            .current_dir(folder)
            .env("REDIRECT_URI", format!("http://{host}/oauth2/callback"))
            .env("CLIENT_SECRET", SECRET)
            .env(
                "BACKCHANNEL_LOGOUT_URI",
                format!("http://{host}/oauth2/backchannel_logout"),
            )
            .env("ID_TOKEN_ALG", algorithm)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("node is installed; `make test` installs it");
        let lines = BufReader::new(process.stdout.take().expect("an output")).lines();
        (process, lines)
    }

    /// What a browser does there: redirects and cookies, and a click on a name.
    pub async fn visit(&self, authorize: &str, person: &str) -> String {
        self.visit_with(&mut BTreeMap::new(), authorize, person)
            .await
    }

    /// One request of a browser there, with its cookies; `more` ends the head.
    async fn exchange(
        &self,
        jar: &mut BTreeMap<String, String>,
        start: &str,
        more: &str,
    ) -> Message {
        let address: std::net::SocketAddr = self
            .issuer
            .strip_prefix("http://")
            .expect("http")
            .parse()
            .expect("an address");
        let cookies: Vec<String> = jar
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = format!(
            "{start} HTTP/1.1\r\nHost: {address}\r\nCookie: {}\r\nConnection: close\r\n{more}",
            cookies.join("; ")
        );
        let answer: Message = Raw::exchange(address, request).await;
        for line in answer.all("set-cookie") {
            let (name, value) = line
                .split(';')
                .next()
                .and_then(|pair| pair.split_once('='))
                .expect("a pair");
            jar.insert(name.to_owned(), value.to_owned());
        }
        answer
    }

    /// Signs the browser out there; the provider notifies the clients of that session.
    pub async fn sign_out(&self, jar: &mut BTreeMap<String, String>) {
        let page = self.exchange(jar, "GET /session/end", "\r\n").await.text();
        let token = page
            .split("name=\"xsrf\" value=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let body = format!(
            "xsrf={}&logout=yes",
            token.unwrap_or_else(|| panic!("no token in {page}"))
        );
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let more = format!("{kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let done = self.exchange(jar, "POST /session/end/confirm", &more).await;
        assert!(matches!(done.status(), 200 | 302 | 303), "{}", done.text());
    }

    pub async fn visit_with(
        &self,
        jar: &mut BTreeMap<String, String>,
        authorize: &str,
        person: &str,
    ) -> String {
        let mut target = path_of(authorize);
        for _ in 0..8 {
            let answer = self.exchange(jar, &format!("GET {target}"), "\r\n").await;
            let location = answer
                .header("location")
                .unwrap_or_else(|| panic!("{}: {}", answer.start, answer.text()));
            match location.strip_prefix(&self.issuer).unwrap_or(&location) {
                away if away.starts_with("http") => return path_of(away),
                uid if uid.starts_with("/interaction/") => target = format!("{uid}?login={person}"),
                other => target = other.to_owned(),
            }
        }
        panic!("the provider goes in circles");
    }
}
