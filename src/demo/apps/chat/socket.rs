//! The room by WebSocket: text frames in, all messages out. tungstenite implements the protocol.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::{Instant, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        handshake::server::create_response_with_body,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::room::{MESSAGE_LIMIT, Room};
use crate::demo::apps::{
    page::{self, AppResponse},
    visitor,
};

/// Interval of pings, so that proxies do not close the connection.
const KEEP: Duration = Duration::from_secs(15);
/// Deadline for the delivery of one message.
const SEND_DEADLINE: Duration = Duration::from_secs(20);
/// Deadline for the closing handshake.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// Switches to the WebSocket protocol, or answers 426.
pub fn answer(room: &Arc<Room>, mut request: Request<Incoming>) -> AppResponse {
    let Ok(answer) = create_response_with_body(&request, page::nothing) else {
        let mut answer = page::plain(StatusCode::UPGRADE_REQUIRED, "This is for WebSockets.\n");
        answer
            .headers_mut()
            .insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return answer;
    };
    // The name comes from the gateway's header, so clients cannot choose it.
    let who = visitor::name(request.headers());
    let room = Arc::clone(room);
    let switched = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // An error means that the client left during the handshake.
        if let Ok(stream) = switched.await {
            attend(TokioIo::new(stream), &room, &who).await;
        }
    });
    answer
}

async fn attend(stream: impl AsyncRead + AsyncWrite + Unpin, room: &Room, who: &str) {
    let config = WebSocketConfig::default()
        .read_buffer_size(2 * MESSAGE_LIMIT)
        .write_buffer_size(2 * MESSAGE_LIMIT)
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let goodbye = match talk(&mut socket, room, who).await {
        Ok(goodbye) => goodbye,
        Err(error) => reason(&error),
    };
    // Errors mean that the client is gone.
    let _ = timeout(CLOSE_DEADLINE, part(socket, goodbye)).await;
}

/// Carries messages both ways. Returns the close frame to send; `None`: the client closed.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    room: &Room,
    who: &str,
) -> Result<Option<CloseFrame>, Error> {
    let (past, mut news) = room.join();
    for line in past {
        deliver(socket, Message::Text(line)).await?;
    }
    let mut keep = interval_at(Instant::now() + KEEP, KEEP);
    loop {
        tokio::select! {
            frame = socket.next() => match frame.transpose()? {
                // Blank messages are ignored; too long ones are an error of the socket.
                Some(Message::Text(text)) => { room.post(who, &text); }
                Some(Message::Binary(_)) => return Ok(close(CloseCode::Unsupported, "text only, please")),
                Some(Message::Close(_)) | None => return Ok(None),
                // Pings are answered by tungstenite.
                Some(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            },
            line = news.recv() => match line {
                Ok(line) => deliver(socket, Message::Text(line)).await?,
                Err(_) => return Ok(close(CloseCode::Again, "you fell behind, please come again")),
            },
            _ = keep.tick() => deliver(socket, Message::Ping(Bytes::new())).await?,
        }
    }
}

async fn deliver<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    message: Message,
) -> Result<(), Error> {
    let in_time = timeout(SEND_DEADLINE, socket.send(message)).await;
    in_time.unwrap_or_else(|_| Err(Error::Io(std::io::ErrorKind::TimedOut.into())))
}

fn close(code: CloseCode, why: &'static str) -> Option<CloseFrame> {
    Some(CloseFrame {
        code,
        reason: why.into(),
    })
}

/// The close frame for an error of the client, if it is one.
fn reason(error: &Error) -> Option<CloseFrame> {
    if matches!(error, Error::Capacity(_)) {
        close(CloseCode::Size, "a message has at most 2 KiB")
    } else if matches!(error, Error::Utf8(_)) {
        close(CloseCode::Invalid, "text is UTF-8")
    } else if matches!(error, Error::Protocol(_)) {
        close(CloseCode::Protocol, "that is not WebSocket")
    } else {
        None
    }
}

/// Closes, or confirms the client's close, and waits for the client to close the connection. With
/// unread bytes, closing would send a reset, and the close frame might be lost.
async fn part<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    goodbye: Option<CloseFrame>,
) {
    // Errors mean that the client is gone; the rest then fails at once.
    let _ = match goodbye {
        Some(frame) => socket.close(Some(frame)).await,
        None => SinkExt::close(&mut socket).await,
    };
    let mut stream = socket.into_inner();
    if stream.shutdown().await.is_ok() {
        // Discards the rest.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpStream;
    use tokio_tungstenite::{client_async, tungstenite::client::IntoClientRequest};

    use super::{
        super::super::{
            SampleApp, start,
            tests::{LAUNCHER, send},
        },
        *,
    };

    async fn join(address: SocketAddr, who: &'static str) -> WebSocketStream<TcpStream> {
        let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
        request
            .headers_mut()
            .insert(visitor::PREFERRED_USERNAME, HeaderValue::from_static(who));
        let stream = TcpStream::connect(address).await.unwrap();
        client_async(request, stream).await.unwrap().0
    }

    async fn receive(socket: &mut WebSocketStream<TcpStream>) -> String {
        socket
            .next()
            .await
            .unwrap()
            .unwrap()
            .into_text()
            .unwrap()
            .to_string()
    }

    async fn close_code(socket: &mut WebSocketStream<TcpStream>) -> CloseCode {
        loop {
            if let Message::Close(Some(frame)) = socket.next().await.unwrap().unwrap() {
                return frame.code;
            }
        }
    }

    #[tokio::test]
    async fn everybody_hears_everybody_under_the_name_the_gateway_told() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        let mut ada = join(address, "ada").await;
        ada.send(Message::text(r#"{"who":"bob","text":"hi"}"#))
            .await
            .unwrap();
        let first = r#"{"who":"ada","text":"{\"who\":\"bob\",\"text\":\"hi\"}"}"#;
        assert_eq!(receive(&mut ada).await, first);

        let mut bob = join(address, "B%C3%B6b").await;
        assert_eq!(receive(&mut bob).await, first);
        bob.send(Message::text("   ")).await.unwrap();
        bob.send(Message::text("hello")).await.unwrap();
        for socket in [&mut ada, &mut bob] {
            assert_eq!(receive(socket).await, r#"{"who":"Böb","text":"hello"}"#);
        }
    }

    #[tokio::test]
    async fn what_is_no_short_text_ends_the_connection_with_the_reason() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        for (message, code) in [
            (
                Message::text("x".repeat(MESSAGE_LIMIT + 1)),
                CloseCode::Size,
            ),
            (Message::text("x".repeat(300_000)), CloseCode::Size),
            (Message::binary(vec![1, 2, 3]), CloseCode::Unsupported),
        ] {
            let mut socket = join(address, "ada").await;
            // The app may hang up before it has read a long one.
            let _ = socket.send(message).await;
            assert_eq!(close_code(&mut socket).await, code);
        }
        // The room goes on.
        let mut socket = join(address, "ada").await;
        socket
            .send(Message::text("x".repeat(MESSAGE_LIMIT)))
            .await
            .unwrap();
        assert!(receive(&mut socket).await.contains("xxx"));
    }

    #[tokio::test]
    async fn a_breach_of_the_protocol_ends_the_connection() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        for (bytes, code) in [
            // A text frame without a mask; one with a mask, that is no UTF-8; one with an unknown
            // opcode.
            (&b"\x81\x02hi"[..], CloseCode::Protocol),
            (b"\x81\x81\0\0\0\0\xff", CloseCode::Invalid),
            (b"\x83\x80\0\0\0\0", CloseCode::Protocol),
        ] {
            let mut socket = join(address, "ada").await;
            socket.get_mut().write_all(bytes).await.unwrap();
            assert_eq!(close_code(&mut socket).await, code);
        }
    }

    #[tokio::test]
    async fn a_close_is_answered() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        let mut socket = join(address, "ada").await;
        socket.close(None).await.unwrap();
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
        assert!(socket.next().await.is_none());
    }

    #[tokio::test]
    async fn a_plain_request_is_told_what_this_is() {
        let address = start(SampleApp::Chat, LAUNCHER).await.unwrap();
        let answer = send(address, "GET /ws", "Upgrade: websocket\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
    }
}
