//! What a person does at a hub: signs in, fills in the form, follows the start, opens the lab.

use std::net::SocketAddr;

use serde_json::Value;

use super::hub::HubAddress;
use crate::support::{
    browser::{Browser, From, at_built_in_provider, path_of},
    message::Message,
    raw::Raw,
};

/// Most redirects from one click: those of the gateway's sign-in, the hub's and the lab's.
const MAX_REDIRECTS: usize = 30;

/// The browser of one person.
pub struct HubBrowser {
    browser: Browser,
    /// The gateway or proxy.
    at: SocketAddr,
    pub person: &'static str,
    authority: String,
    base: &'static str,
    issuer: String,
}

impl HubBrowser {
    /// A browser without cookies, which connects to a gateway or proxy.
    pub fn new(
        address: &HubAddress,
        at: SocketAddr,
        person: &'static str,
        issuer: &str,
    ) -> HubBrowser {
        HubBrowser {
            browser: Browser::new(at, &address.authority),
            at,
            person,
            authority: address.authority.clone(),
            base: address.base,
            issuer: issuer.to_owned(),
        }
    }

    /// Opens a path below the hub's, and follows all redirects. At the provider it signs in as the
    /// person.
    pub async fn open(&mut self, path: &str) -> Message {
        let target = format!("{}{path}", self.base);
        let answer = self.browser.open(&target).await;
        self.follow(answer).await
    }

    /// Follows an answer's redirects.
    async fn follow(&mut self, mut answer: Message) -> Message {
        for _ in 0..MAX_REDIRECTS {
            // A cookie that ends is empty; browsers do not send it.
            let jar = &mut self.browser.jar;
            jar.retain(|_, value| !matches!(value.as_str(), "" | "\"\""));
            let Some(location) = answer.header("location") else {
                return answer;
            };
            let target = if location.starts_with(&self.issuer) {
                at_built_in_provider(&location, self.person).await
            } else if location.starts_with("http") {
                let own = format!("http://{}/", self.authority);
                assert!(location.starts_with(&own), "sent to {location}");
                path_of(&location)
            } else {
                location
            };
            answer = self.browser.open(&target).await;
        }
        panic!("redirected for ever: {answer:?}");
    }

    /// Signs in.
    pub async fn sign_in(&mut self) {
        let home = self.open("/hub/home").await;
        assert_eq!(home.status(), 200, "{}", home.text());
    }

    /// The parameter without which the hub refuses what changes something.
    fn xsrf(&self) -> String {
        let key = ("_xsrf".to_owned(), format!("{}/hub/", self.base));
        let token = self.browser.jar.get(&key).expect("a cookie of the hub");
        // Values with some characters are in quotes.
        url::form_urlencoded::Serializer::new(String::new())
            .append_pair("_xsrf", token.trim_matches('"'))
            .finish()
    }

    /// The lab in the hub's API.
    fn server(&self, more: &str) -> String {
        let xsrf = self.xsrf();
        format!(
            "{}/hub/api/users/{}/server{more}?{xsrf}",
            self.base, self.person
        )
    }

    /// Opens the form, and sends it with the first image and the only size.
    pub async fn spawn(&mut self) {
        let path = format!("/hub/spawn/{}", self.person);
        let form = self.open(&path).await.text();
        assert!(form.contains("name=\"size\""), "{form}");
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("image_list", &first_choice(&form, "image_list"))
            .append_pair("size", &first_choice(&form, "size"))
            .finish();
        let more = format!(
            "Origin: http://{}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            self.authority
        );
        let target = format!("{}{path}?{}", self.base, self.xsrf());
        let sent = self
            .browser
            .send("POST", &target, From::Form, &more, body.as_bytes())
            .await;
        assert_eq!(sent.status(), 302, "{}", sent.text());
        let page = self.follow(sent).await;
        assert_eq!(page.status(), 200, "{}", page.text());
    }

    /// The events that the page of the start shows, until it ends.
    pub async fn progress(&mut self) -> Vec<Value> {
        let target = self.server("/progress");
        let answer = self.browser.fetch(&target).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let text = answer.text();
        let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
        events
            .map(|event| serde_json::from_str(event).expect("JSON"))
            .collect()
    }

    /// Opens a person's lab.
    pub async fn open_lab(&mut self, person: &str) -> Message {
        self.open(&format!("/user/{person}/lab")).await
    }

    /// Asks for a WebSocket of a person's lab as a page of this site does. The head of the answer,
    /// and the connection.
    pub async fn open_socket(&self, person: &str, path: &str) -> (Message, Raw) {
        let target = format!("{}/user/{person}{path}", self.base);
        let (host, cookies) = (&self.authority, self.browser.cookie_line(&target));
        let mut raw = Raw::connect(self.at).await;
        raw.send(format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Origin: http://{host}\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: websocket\r\n\
             Sec-Fetch-Dest: websocket\r\n{cookies}\r\n"
        ))
        .await;
        (raw.head().await, raw)
    }

    /// Stops the lab.
    pub async fn stop(&mut self) {
        let target = self.server("");
        let stopped = self
            .browser
            .send("DELETE", &target, From::Fetch, "", b"")
            .await;
        let status = stopped.status();
        assert!(matches!(status, 202 | 204), "{}", stopped.text());
    }
}

/// The value of the first radio button of a name.
fn first_choice(form: &str, name: &str) -> String {
    let start = format!("<input type=\"radio\" name=\"{name}\" ");
    let (_, rest) = form.split_once(&start).expect("a radio button");
    let (_, value) = rest.split_once("value=\"").expect("a value");
    value.split('"').next().unwrap_or_default().to_owned()
}

/// What the events say.
pub fn messages(events: &[Value]) -> Vec<&str> {
    let messages = events.iter().map(|event| event["message"].as_str());
    messages.map(Option::unwrap_or_default).collect()
}

/// Checks that a start succeeded, and that one of its messages has this text.
pub fn assert_ready(events: &[Value], text: &str) {
    let last = events.last().expect("an event");
    assert_eq!(last["ready"], true, "{events:?}");
    let has_text = messages(events).iter().any(|it| it.contains(text));
    assert!(has_text, "no {text:?} in {events:?}");
}
