//! gRPC through the gateway, with a real client and a real server (tonic): all four kinds of calls,
//! deadlines, cancellation both ways, and refusals in the words that its clients read.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Buf, BufMut, Bytes};
use futures_util::{Stream, StreamExt, stream};
use http::uri::PathAndQuery;
use http_body_util::BodyExt;
use tonic::{
    Code, Request, Response, Status, Streaming,
    client::Grpc as Client,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{Grpc as Server, StreamingService},
    transport::{Channel, Endpoint},
};

use crate::support::{http2_app::Http2App, message::PATIENCE, until::until, world::World};

/// Messages are bytes as they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Gives every message back as it comes; `fail` ends the call, `hang` says nothing more.
#[derive(Clone, Default)]
struct Echo {
    /// Calls whose answer is being made.
    open: Arc<AtomicUsize>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answers>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(self.open.clone());
        let answers = request.into_inner().then(move |message| {
            let _open = &open;
            async move {
                match message?.as_ref() {
                    b"fail" => Err(Status::data_loss("as asked")),
                    b"hang" => std::future::pending().await,
                    other => Ok(Bytes::copy_from_slice(other)),
                }
            }
        });
        Box::pin(async move { Ok(Response::new(Box::pin(answers) as Answers)) })
    }
}

async fn app(echo: Echo) -> Http2App {
    Http2App::answering(Some(Arc::new(move |request| {
        let echo = echo.clone();
        Box::pin(async move {
            let request = request.map(tonic::body::Body::new);
            let response = Server::new(Plain).streaming(echo, request).await;
            response.map(|body| {
                body.map_err(|_| unreachable!("no error of the body"))
                    .boxed_unsync()
            })
        })
    })))
    .await
}

/// A world with gRPC on hosts of its own: `calls` is public, `closed` is for a group, `gone` has no
/// listener.
async fn world(echo: Echo) -> World {
    let app = app(echo).await;
    let toml: String = [("calls", "public", app.address().port()), ("closed", "group:phusers", app.address().port()), ("gone", "public", 9)]
        .map(|(id, access, port)| {
            format!("[[apps]]\nid = \"{id}\"\naccess = \"{access}\"\nupstream = \"http://127.0.0.1:{port}\"\nprotocol = \"h2\"\n")
        })
        .concat();
    World::with(&toml, |settings| settings.listen.h2c = true).await
}

async fn client(world: &World, app: &str) -> Client<Channel> {
    let origin = world.on_host(app).parse().expect("an origin");
    let endpoint =
        Endpoint::from_shared(format!("http://{}", world.running.address)).expect("an address");
    let mut client = Client::new(endpoint.origin(origin).connect().await.expect("connected"));
    client.ready().await.expect("ready");
    client
}

const METHOD: PathAndQuery = PathAndQuery::from_static("/test.Echo/Stream");

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways_as_they_come_and_the_status_comes_last() {
    let world = world(Echo::default()).await;
    let mut client = client(&world, "calls").await;
    let one = client
        .unary(Request::new(Bytes::from_static(b"one")), METHOD, Plain)
        .await
        .expect("an answer");
    assert_eq!(one.into_inner(), "one");
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let messages = stream::unfold(receive, |mut from| async move {
        Some((from.recv().await?, from))
    });
    client.ready().await.expect("ready");
    let answers = client
        .streaming(Request::new(messages), METHOD, Plain)
        .await
        .expect("begun");
    let mut answers = answers.into_inner();
    for round in 0..100_u32 {
        // Each comes back before the next is sent: nothing is held back for more.
        let message = Bytes::from(vec![round as u8; 1 + 977 * round as usize]);
        send.send(message.clone()).expect("sent");
        let answer = tokio::time::timeout(PATIENCE, answers.message())
            .await
            .expect("in time");
        assert_eq!(answer.expect("whole"), Some(message), "{round}");
    }
    send.send(Bytes::from_static(b"fail")).expect("sent");
    let status = answers.message().await.expect_err("as asked");
    assert_eq!(
        (status.code(), status.message()),
        (Code::DataLoss, "as asked")
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_ends_a_call_ends_it_on_the_other_side_too() {
    let echo = Echo::default();
    let open = echo.open.clone();
    let world = world(echo).await;
    let mut client = client(&world, "calls").await;
    let messages = stream::iter([Bytes::from_static(b"a"), Bytes::from_static(b"hang")]);
    client.ready().await.expect("ready");
    let answers = client
        .streaming(Request::new(messages), METHOD, Plain)
        .await
        .expect("begun");
    let mut answers = answers.into_inner();
    assert_eq!(
        answers.message().await.expect("whole"),
        Some(Bytes::from_static(b"a"))
    );
    assert_eq!(open.load(Ordering::SeqCst), 1);
    drop(answers);
    until("the app is told", || open.load(Ordering::SeqCst) == 0).await;
    // The connection, ours and the app's, serves the next.
    client.ready().await.expect("ready");
    let next = client
        .unary(Request::new(Bytes::from_static(b"next")), METHOD, Plain)
        .await;
    assert_eq!(next.expect("an answer").into_inner(), "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_kept_before_and_after_the_answer_begins() {
    let echo = Echo::default();
    let open = echo.open.clone();
    let world = world(echo).await;
    let mut client = client(&world, "calls").await;
    for first in [None, Some("a")] {
        let messages: Vec<Bytes> = first
            .into_iter()
            .chain(["hang"])
            .map(|text: &str| Bytes::copy_from_slice(text.as_bytes()))
            .collect();
        let mut request = Request::new(stream::iter(messages));
        // By hand, so that the client itself keeps none.
        request
            .metadata_mut()
            .insert("grpc-timeout", "100m".parse().expect("a value"));
        client.ready().await.expect("ready");
        let ended = match client.streaming(request, METHOD, Plain).await {
            Err(status) => status,
            Ok(answers) => {
                let mut answers = answers.into_inner();
                loop {
                    match tokio::time::timeout(PATIENCE, answers.message())
                        .await
                        .expect("in time")
                    {
                        Ok(Some(_)) => {}
                        Ok(None) => panic!("a deadline is no success"),
                        Err(status) => break status,
                    }
                }
            }
        };
        assert!(!matches!(ended.code(), Code::Ok), "{first:?}: {ended:?}");
        until("the app is told", || open.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_said_in_the_words_of_grpc() {
    let echo = Echo::default();
    let open = echo.open.clone();
    let world = world(echo).await.ready().await;
    let token = |person: &str| world.provider.access_token(person);
    for (app, bearer, code) in [
        ("closed", None, Code::Unauthenticated),
        (
            "closed",
            Some("nonsense.of.ours".to_owned()),
            Code::Unauthenticated,
        ),
        ("closed", Some(token("bob")), Code::PermissionDenied),
        ("gone", None, Code::Unavailable),
        ("unknown", None, Code::Unimplemented),
    ] {
        let mut client = client(&world, app).await;
        let mut request = Request::new(Bytes::from_static(b"x"));
        if let Some(bearer) = &bearer {
            request.metadata_mut().insert(
                "authorization",
                format!("Bearer {bearer}").parse().expect("a value"),
            );
        }
        let status = client
            .unary(request, METHOD, Plain)
            .await
            .expect_err("refused");
        assert_eq!(status.code(), code, "{app} {bearer:?}: {status:?}");
        assert!(!status.message().is_empty(), "{status:?}");
    }
    assert_eq!(open.load(Ordering::SeqCst), 0, "O5");
    let mut client = client(&world, "closed").await;
    let mut request = Request::new(Bytes::from_static(b"hers"));
    request.metadata_mut().insert(
        "authorization",
        format!("Bearer {}", token("alice"))
            .parse()
            .expect("a value"),
    );
    let answer = client.unary(request, METHOD, Plain).await.expect("let in");
    assert_eq!(answer.into_inner(), "hers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_with_its_session_in_both_directions() {
    let echo = Echo::default();
    let open = echo.open.clone();
    let world = world(echo).await.ready().await;
    let mut client = client(&world, "closed").await;
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let messages = stream::unfold(receive, |mut from| async move {
        Some((from.recv().await?, from))
    });
    let mut request = Request::new(messages);
    let bearer = format!("Bearer {}", world.provider.access_token("alice"));
    request
        .metadata_mut()
        .insert("authorization", bearer.parse().expect("a value"));
    let mut answers = client
        .streaming(request, METHOD, Plain)
        .await
        .expect("begun")
        .into_inner();
    send.send(Bytes::from_static(b"one")).expect("sent");
    assert_eq!(
        answers.message().await.expect("whole"),
        Some(Bytes::from_static(b"one"))
    );
    // The token that proved her expires: the stream ends, and nothing that she sends now reaches
    // the app.
    world
        .manual_clock
        .advance(std::time::Duration::from_secs(11 * 60));
    let ended = tokio::time::timeout(PATIENCE, answers.message())
        .await
        .expect("in time");
    assert!(ended.is_err(), "{ended:?}");
    let _ = send.send(Bytes::from_static(b"hang"));
    until("the app's side has ended", || {
        open.load(Ordering::SeqCst) == 0
    })
    .await;
}
