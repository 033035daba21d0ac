//! A registry on loopback with an image `library/lab`.

use std::net::SocketAddr;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A registry with these tags. Each has a digest of its own.
pub struct TagRegistry {
    pub address: SocketAddr,
}

impl TagRegistry {
    pub async fn start(tags: &'static [&'static str]) -> TagRegistry {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, tags));
            }
        });
        TagRegistry { address }
    }

    /// The digest of a tag.
    pub fn digest(tag: &str) -> String {
        let hex: String = tag.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex:0>64}")
    }
}

/// Answers one request.
async fn serve(mut stream: TcpStream, tags: &[&str]) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).expect("text");
    let target = head.split(' ').nth(1).expect("a target");
    let tag = target.strip_prefix("/v2/library/lab/manifests/");
    let (status, more, body) = match tag {
        None => ("200 OK", String::new(), json!({ "tags": tags }).to_string()),
        Some(tag) if tags.contains(&tag) => {
            let digest = TagRegistry::digest(tag);
            let header = format!("Docker-Content-Digest: {digest}\r\n");
            ("200 OK", header, String::new())
        }
        Some(_) => ("404 Not Found", String::new(), String::new()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}
