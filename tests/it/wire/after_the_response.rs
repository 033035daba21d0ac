//! What is still on its way when the app's response is complete: the rest of the request, and what
//! the client has not read yet. No deadline for the next request cuts it off.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
    sync::mpsc,
    time::sleep,
};

use crate::support::{message::Reader, until::in_time, world::World};

/// Long enough for a machine that does much else between a connection and its first byte.
const SHORT: Duration = Duration::from_millis(500);

/// An app that answers each request after its head, and then reads the rest. Returns the bytes that
/// come after heads, piece by piece.
async fn hasty_app() -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, bodies) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    let read = &bytes[..read];
                    let head = read.windows(4).position(|four| four == b"\r\n\r\n");
                    if head.is_some() {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        stream.write_all(answer).await.expect("written");
                    }
                    let body = &read[head.map_or(0, |end| end + 4)..];
                    let _ = sender.send(body.to_vec());
                }
            });
        }
    });
    (address, bodies)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_after_its_response_as_long_as_bytes_come() {
    let (address, mut bodies) = hasty_app().await;
    let app =
        format!("[[apps]]\nid = \"hasty\"\naccess = \"public\"\nupstream = \"http://{address}\"\n");
    let world = World::with_threads(1, &app, |settings| {
        settings.listen.timeouts.head = SHORT;
        settings.listen.timeouts.idle = 4 * SHORT;
    })
    .await;
    let head = format!("POST /apps/hasty/ HTTP/1.1\r\nHost: {}\r\n", world.host);
    let mut raw = world.raw().await;
    raw.send(format!("{head}Content-Length: 12\r\n\r\nhalf"))
        .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 200);
    for _ in 0..4 {
        sleep(SHORT * 4 / 5).await;
        raw.send("..").await;
    }
    let mut received = Vec::new();
    while received.len() < 12 {
        received.extend(
            in_time("the rest of the body", bodies.recv())
                .await
                .expect("an app"),
        );
    }
    assert_eq!(received, b"half........");
    raw.send(format!("{head}Content-Length: 12\r\n\r\nhalf"))
        .await;
    assert_eq!(raw.answer().await.expect("an answer").status(), 200);
    assert!(
        raw.is_closed().await,
        "nothing more comes of the second body"
    );
    world
        .until_counted("ludgate_deadlines_total{deadline=\"idle\"} 1")
        .await;
}

/// An app that answers with as many bytes as the path says.
async fn sized_app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut reader = Reader::new(read);
                while let Ok(Some(request)) = reader.message(false).await {
                    let length = request.target().trim_start_matches('/');
                    let length: usize = length.parse().expect("a number");
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    let answer = [head.as_bytes(), &vec![b'x'; length]].concat();
                    write.write_all(&answer).await.expect("written");
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_still_buffered_is_not_cut_off() {
    let app = format!(
        "[[apps]]\nid = \"sized\"\naccess = \"public\"\nupstream = \"http://{}\"\nstrip_prefix = true\n",
        sized_app().await
    );
    let world =
        World::with_threads(1, &app, |settings| settings.listen.timeouts.idle = SHORT).await;
    let address = world.running.address;
    // Which size leaves a rest in the gateway, and none in the app, depends on the buffers of the
    // system.
    let clients: Vec<_> = (4..100_usize)
        .map(|number| {
            let length = number * 40 * 1024;
            let request = format!(
                "GET /apps/sized/{length} HTTP/1.1\r\nHost: {}\r\n\r\n",
                world.host
            );
            tokio::spawn(async move {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.set_recv_buffer_size(16 * 1024).expect("a size");
                let mut stream = socket.connect(address).await.expect("the gateway listens");
                stream.write_all(request.as_bytes()).await.expect("written");
                sleep(4 * SHORT).await;
                let answer = Reader::new(stream).message(false).await;
                let answer = answer.expect("readable").expect("an answer");
                (length, answer.body.len(), answer.truncated)
            })
        })
        .collect();
    for client in clients {
        let (length, received, truncated) = client.await.expect("no panic");
        assert_eq!((received, truncated), (length, false));
    }
}
