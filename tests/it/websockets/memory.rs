//! The memory of idle WebSockets: they outlast all buffers of their requests.

use crate::{
    forwarding::upstreams::KEY,
    support::{
        backend::Backend,
        process::{gateway, resident},
        raw::Raw,
        world::free_port,
    },
};

const MANY: usize = 200;
/// In bytes. Seen in the build for tests: 4,000, and 8,300 with a read buffer.
const MOST_EACH: u64 = 6 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_websocket_keeps_no_read_buffer() {
    let backend = Backend::start("one").await;
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [site]\nurl = \"http://127.0.0.1:{port}\"\n[limits]\nclient_share = 100\n\
         [[apps]]\nid = \"one\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    let process = gateway(folder.path(), &text, port).await;
    let request = format!(
        "GET /apps/one/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    );
    let open = async || {
        let mut sockets = Vec::new();
        for _ in 0..MANY {
            let mut raw = Raw::connect(([127, 0, 0, 1], port).into()).await;
            raw.send(&request).await;
            let head = raw.reader.head().await.expect("readable");
            assert_eq!(head.expect("a head").status(), 101);
            sockets.push(raw);
        }
        sockets
    };
    // Memory that grows only once is allocated before.
    let _first = open().await;
    let before = resident(&process);
    let _second = open().await;
    let each = resident(&process).saturating_sub(before) / MANY as u64;
    assert!(each < MOST_EACH, "{each} bytes each");
}
