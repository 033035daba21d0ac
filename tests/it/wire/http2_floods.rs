//! Floods of HTTP/2 frames end their own connection, and no other client notices.

use super::http2_frames::{CALM, CLOSED, PROTOCOL, REFUSED, head, opens, world};
use crate::support::{
    http2::{
        DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM,
        SETTINGS, WINDOW_UPDATE, block,
    },
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_agreed_are_refused_and_the_others_go_on() {
    let world = World::with("", |settings| {
        settings.listen.h2c = true;
        settings.listen.streams = 3;
    })
    .await;
    let mut client = Frames::connect(world.running.address).await;
    let hang = |stream: u32| {
        Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            block(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/apps/pub/hang"),
                (":authority", &world.host),
            ]),
        )
    };
    for stream in [1, 3, 5, 7] {
        client.send(&hang(stream)).await;
    }
    let refused = client
        .until(|frame| frame.kind == RST_STREAM || frame.kind == GOAWAY)
        .await
        .expect("refused");
    assert_eq!(
        (refused.kind, refused.stream, refused.code()),
        (RST_STREAM, 7, REFUSED)
    );
    client
        .send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()))
        .await;
    client
        .send(&Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            9,
            head(&world, &[]),
        ))
        .await;
    let answer = client
        .until(|frame| frame.stream == 9)
        .await
        .expect("an answer");
    assert_eq!(
        (answer.kind, answer.payload.first()),
        (HEADERS, Some(&0x88))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_the_connection_and_others_are_not_affected() {
    let world = world().await;
    let get = |stream: u32| {
        Frame::new(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            block(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/apps/pub/x"),
                (":authority", &world.host),
            ]),
        )
        .bytes()
    };
    let open = |stream: u32| {
        opens(&world, 0)
            .bytes()
            .into_iter()
            .take(5)
            .chain(stream.to_be_bytes())
            .chain(head(&world, &[]))
            .collect::<Vec<u8>>()
    };
    let reset = |stream: u32| Frame::new(RST_STREAM, 0, stream, 8_u32.to_be_bytes()).bytes();
    let nothing = |stream: u32| Frame::new(WINDOW_UPDATE, 0, stream, [0; 4]).bytes();
    // Each round of a flood, and more rounds than the buffers on the way hold.
    type Round<'r> = Box<dyn Fn(u32) -> Vec<u8> + 'r>;
    let floods: [(&str, Round<'_>, u32); 2] = [
        (
            "opened and reset",
            Box::new(|round| [get(1 + 2 * round), reset(1 + 2 * round)].concat()),
            100_000,
        ),
        (
            "reset by us",
            Box::new(|round| [open(1 + 2 * round), nothing(1 + 2 * round)].concat()),
            100_000,
        ),
    ];
    for (name, round, most) in floods {
        let client = Frames::connect(world.running.address).await;
        let (mut read, mut write) = client.split();
        let ended = tokio::spawn(async move { read.until(|frame| frame.kind == GOAWAY).await });
        let mut rounds = 0;
        while rounds < most && !ended.is_finished() && write.raw(&round(rounds)).await {
            rounds += 1;
        }
        let ended = ended.await.expect("no panic");
        assert!(
            ended.is_none_or(|frame| matches!(frame.code(), CALM | PROTOCOL | CLOSED)),
            "{name}"
        );
        assert!(rounds < most, "{name}: {rounds} rounds");
        world.check_oracles_of_framing().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_cheap_frames_delay_no_other() {
    let world = world().await;
    let empty = Frame::new(DATA, 0, 1, []).bytes();
    let ping = Frame::new(PING, 0, 0, [7; 8]).bytes();
    let settings = Frame::new(SETTINGS, 0, 0, []).bytes();
    let priority = Frame::new(PRIORITY, 0, 1, [0, 0, 0, 0, 1]).bytes();
    for frame in [empty, ping, settings, priority] {
        let mut client = Frames::connect(world.running.address).await;
        client.send(&opens(&world, 0)).await;
        let (mut read, mut write) = client.split();
        let drained = tokio::spawn(async move { while read.next().await.is_some() {} });
        let many = frame.repeat(1000);
        for _ in 0..50 {
            if !write.raw(&many).await {
                break;
            }
        }
        // Whatever became of that connection, others are served.
        world.check_oracles_of_framing().await;
        drop(write);
        drained.abort();
    }
}
