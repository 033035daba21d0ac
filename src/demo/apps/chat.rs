//! The sample app with streams: people in several browsers talk.
//!
//! Here are its paths, its page and `POST /say`. `room` holds the messages and their receivers, who
//! connect by `socket` (WebSocket) or `events` (Server-Sent Events). The page is
//! `templates/demo/chat.html`.

mod events;
pub mod room;
mod socket;

use std::sync::Arc;

use askama::Template;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{Request, body::Incoming};

use super::{
    page::{self, AppResponse, Scripts},
    visitor,
};
use room::{MESSAGE_LIMIT, Room};

#[derive(Template)]
#[template(path = "demo/chat.html")]
struct ChatPage<'p> {
    home: &'p str,
    name: String,
}

/// Routes a request of the chat; `home` is the address of the launcher.
pub async fn answer(room: &Arc<Room>, request: Request<Incoming>, home: &str) -> AppResponse {
    let reads = page::reads(request.method());
    match request.uri().path() {
        "/" if reads => {
            let page = ChatPage {
                home,
                name: visitor::name(request.headers()),
            };
            page::html(page.render().unwrap_or_default(), Scripts::Own)
        }
        "/events" if reads => events::answer(room),
        "/ws" if reads => socket::answer(room, request),
        "/say" if request.method() == http::Method::POST => say(room, request).await,
        "/" | "/events" | "/ws" => page::wrong_method("GET, HEAD"),
        "/say" => page::wrong_method("POST"),
        _ => page::not_found(),
    }
}

async fn say(room: &Room, request: Request<Incoming>) -> AppResponse {
    let who = visitor::name(request.headers());
    let body = match Limited::new(request.into_body(), MESSAGE_LIMIT)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return page::plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                "A message has at most 2 KiB.\n",
            );
        }
        Err(_) => return page::plain(StatusCode::BAD_REQUEST, "The message did not arrive.\n"),
    };
    let said = std::str::from_utf8(&body).is_ok_and(|text| room.post(&who, text));
    if said {
        page::plain(StatusCode::ACCEPTED, "Said.\n")
    } else {
        page::plain(
            StatusCode::BAD_REQUEST,
            "A message is text in UTF-8, and not empty.\n",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
        net::TcpStream,
    };

    use super::super::{
        SampleApp, start,
        tests::{LAUNCHER, exchange, send},
    };

    async fn post(address: SocketAddr, who: &str, text: &[u8]) -> String {
        let length = text.len();
        let mut request = format!(
            "POST /say HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\
             X-Forwarded-Preferred-Username: {who}\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        request.extend_from_slice(text);
        exchange(address, &request).await
    }

    #[tokio::test]
    async fn what_is_said_reaches_a_newcomer_and_a_listener() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        assert!(
            post(address, "ada", b"before")
                .await
                .starts_with("HTTP/1.1 202 ")
        );

        let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        stream
            .write_all(b"GET /events HTTP/1.1\r\nHost: app\r\n\r\n")
            .await
            .unwrap();
        let mut heard = String::new();
        while !heard.contains("before") {
            assert_ne!(
                stream.read_line(&mut heard).await.unwrap(),
                0,
                "ended early: {heard}"
            );
        }
        assert!(
            heard
                .to_ascii_lowercase()
                .contains("content-type: text/event-stream")
        );

        assert!(
            post(address, "bob", b"two\nlines")
                .await
                .starts_with("HTTP/1.1 202 ")
        );
        while !heard.contains("lines") {
            assert_ne!(
                stream.read_line(&mut heard).await.unwrap(),
                0,
                "ended early: {heard}"
            );
        }
        assert!(
            heard.contains(r#"data: {"who":"ada","text":"before"}"#),
            "{heard}"
        );
        assert!(
            heard.contains(r#"data: {"who":"bob","text":"two\nlines"}"#),
            "{heard}"
        );
    }

    #[tokio::test]
    async fn only_short_text_is_accepted() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        assert!(
            post(address, "ada", &[b'a'; 2048])
                .await
                .starts_with("HTTP/1.1 202 ")
        );
        assert!(
            post(address, "ada", &[b'a'; 2049])
                .await
                .starts_with("HTTP/1.1 413 ")
        );
        assert!(
            post(address, "ada", b" \n")
                .await
                .starts_with("HTTP/1.1 400 ")
        );
        assert!(
            post(address, "ada", b"\xff\xfe")
                .await
                .starts_with("HTTP/1.1 400 ")
        );
        assert!(
            send(address, "GET /say", "")
                .await
                .starts_with("HTTP/1.1 405 ")
        );
    }

    #[tokio::test]
    async fn the_page_says_who_you_are_without_believing_the_text() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        let page = send(
            address,
            "GET /",
            "X-Forwarded-Preferred-Username: <b>ada\r\n",
        )
        .await;
        assert!(page.contains("<bdi id=\"me\">&#60;b&#62;ada</bdi>"));
        // The script must stay free of every way to turn text into markup.
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!page.contains(sink), "{sink}");
        }
    }
}
