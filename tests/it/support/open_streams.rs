//! Streams that a test holds open: WebSockets and events of an app, in the name of a browser's
//! person.

use super::{browser::Browser, raw::Raw, world::World};

impl World {
    /// An open WebSocket to the app's echo.
    pub async fn websocket(&self, browser: &Browser, app: &str) -> Raw {
        self.websocket_at(browser, &format!("/apps/{app}/ws")).await
    }

    /// The same at any path, which ends with `ws`.
    pub async fn websocket_at(&self, browser: &Browser, path: &str) -> Raw {
        let (host, cookies) = (&self.host, browser.cookie_line(path));
        let mut raw = self.raw().await;
        raw.send(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://{host}\r\n{cookies}\r\n"
        ))
        .await;
        assert_eq!(
            raw.reader
                .head()
                .await
                .expect("readable")
                .expect("a head")
                .status(),
            101
        );
        raw
    }

    /// Server-sent events, of which the first has come.
    pub async fn events(&self, browser: &Browser, app: &str) -> Raw {
        let (host, cookies) = (&self.host, browser.cookie_line(&format!("/apps/{app}/")));
        let mut raw = self.raw().await;
        raw.send(format!(
            "GET /apps/{app}/sse HTTP/1.1\r\nHost: {host}\r\n{cookies}\r\n"
        ))
        .await;
        assert_eq!(
            raw.reader
                .head()
                .await
                .expect("readable")
                .expect("a head")
                .status(),
            200
        );
        raw.reader.some().await.expect("the first event");
        raw
    }
}

impl Raw {
    /// Whether a frame to the app's echo comes back.
    pub async fn carries(&mut self) -> bool {
        self.send(b"\x82\x80\x01\x02\x03\x04").await;
        self.reader
            .some()
            .await
            .is_ok_and(|bytes| !bytes.is_empty())
    }
}
