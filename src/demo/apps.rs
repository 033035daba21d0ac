//! The sample apps that `ludgate demo` runs behind the gateway, each a small HTTP server on a
//! loopback port.
//!
//! This file starts the apps and routes their requests. `page` makes responses, `visitor` reads the
//! identity headers, `whoami` and `team` render their pages, `chat` is the app with streams.

mod chat;
mod page;
mod team;
mod visitor;
mod whoami;

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use askama::Template;
use http::HeaderMap;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use chat::room::Room;
use page::{AppResponse, Scripts};

#[derive(Template)]
#[template(path = "demo/hello.html")]
struct HelloPage<'p> {
    home: &'p str,
}

/// How long to wait when no connection can be accepted, such as when file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// The sample apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleApp {
    /// A public page, without identity headers.
    Hello,
    /// Shows the headers it receives; for any signed-in person.
    Whoami,
    /// Greets a member of a group.
    Team,
    /// A chat for members of a group, by WebSocket or Server-Sent Events.
    Chat,
}

/// Starts an app on a free port of 127.0.0.1, and returns its address. `launcher` is the URL of the
/// launcher. The app runs as long as the runtime.
///
/// # Errors
/// When no port is available.
pub async fn start(sample: SampleApp, launcher: &str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    start_on(listener, sample, launcher);
    Ok(address)
}

/// Starts an app on a given listener.
pub fn start_on(listener: TcpListener, sample: SampleApp, launcher: &str) {
    let app = App {
        program: Program::new(sample),
        launcher: launcher.into(),
    };
    tokio::spawn(serve(listener, app));
}

/// A sample app that serves requests.
#[derive(Clone)]
struct App {
    program: Program,
    /// Absolute URL of the launcher.
    launcher: Arc<str>,
}

/// The program of an app, with its state.
#[derive(Clone)]
enum Program {
    Hello,
    Whoami,
    Team,
    Chat(Arc<Room>),
}

impl Program {
    fn new(sample: SampleApp) -> Program {
        match sample {
            SampleApp::Hello => Program::Hello,
            SampleApp::Whoami => Program::Whoami,
            SampleApp::Team => Program::Team,
            SampleApp::Chat => Program::Chat(Arc::new(Room::new())),
        }
    }
}

impl App {
    async fn answer(&self, request: Request<Incoming>) -> AppResponse {
        let home = self.home(request.headers()).to_owned();
        match &self.program {
            Program::Hello => only_page(&request, || {
                HelloPage { home: &home }.render().unwrap_or_default()
            }),
            Program::Whoami => only_page(&request, || whoami::page(request.headers(), &home)),
            Program::Team => only_page(&request, || team::page(request.headers(), &home)),
            Program::Chat(room) => chat::answer(room, request, &home).await,
        }
    }

    /// The address of the launcher: relative for an app on a path, absolute for one on its own
    /// host.
    fn home(&self, headers: &HeaderMap) -> &str {
        if headers.contains_key("x-forwarded-prefix") {
            "../"
        } else {
            &self.launcher
        }
    }
}

fn only_page(request: &Request<Incoming>, make: impl FnOnce() -> String) -> AppResponse {
    if request.uri().path() != "/" {
        return page::not_found();
    }
    if !page::reads(request.method()) {
        return page::wrong_method("GET, HEAD");
    }
    page::html(make(), Scripts::None)
}

async fn serve(listener: TcpListener, app: App) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, app.clone()));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn attend(stream: TcpStream, app: App) {
    // Chat lines are short and should arrive at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| async { Ok::<_, Infallible>(app.answer(request).await) });
    // Idle connections have no time limit, since the gateway reuses them. Errors concern the peer
    // only, which sees them too.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends raw bytes and reads until the app closes.
    pub(super) async fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// A request without a body, on a connection of its own.
    pub(super) async fn send(address: SocketAddr, line: &str, headers: &str) -> String {
        let request = format!("{line} HTTP/1.1\r\nHost: app\r\nConnection: close\r\n{headers}\r\n");
        exchange(address, request.as_bytes()).await
    }

    pub(super) const LAUNCHER: &str = "http://127.0.0.1:1/apps/";
    const ALL: [SampleApp; 4] = [
        SampleApp::Hello,
        SampleApp::Whoami,
        SampleApp::Team,
        SampleApp::Chat,
    ];

    #[tokio::test]
    async fn every_app_has_a_whole_page_that_works_at_any_mount() {
        for sample in ALL {
            let address = start(sample, LAUNCHER).await.unwrap();
            assert!(address.ip().is_loopback());
            let on_its_host = send(address, "GET /", "").await;
            assert!(
                on_its_host.contains("href=\"http://127.0.0.1:1/apps/\""),
                "{sample:?}"
            );
            let page = send(address, "GET /", "X-Forwarded-Prefix: /apps/x\r\n").await;
            assert!(page.starts_with("HTTP/1.1 200 "), "{sample:?}: {page}");
            assert!(
                page.contains("<style>:root") && page.contains("href=\"../\""),
                "{sample:?}"
            );
            let style = page
                .split_once("<style>")
                .and_then(|(_, rest)| rest.split_once("</style>"));
            assert!(
                style.is_some_and(|(style, _)| {
                    style.contains("prefers-color-scheme:dark") && !style.contains('<')
                }),
                "{sample:?}"
            );
            assert!(
                !page.contains("{{"),
                "{sample:?} has an unrendered expression"
            );
            for absolute in [
                "href=\"/",
                "src=",
                "action=",
                "url(",
                "href=\"http",
                "new URL('/",
            ] {
                assert!(!page.contains(absolute), "{sample:?} has {absolute}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_404_and_other_methods_are_405() {
        for sample in ALL {
            let address = start(sample, LAUNCHER).await.unwrap();
            assert!(
                send(address, "GET /missing", "")
                    .await
                    .starts_with("HTTP/1.1 404 "),
                "{sample:?}"
            );
            assert!(
                send(address, "DELETE /", "")
                    .await
                    .starts_with("HTTP/1.1 405 "),
                "{sample:?}"
            );
            let head = send(address, "HEAD /", "").await;
            assert!(
                head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
                "{sample:?}: {head}"
            );
        }
    }

    #[tokio::test]
    async fn noise_on_the_wire_ends_one_connection_only() {
        let address = start(SampleApp::Hello, LAUNCHER).await.unwrap();
        exchange(address, b"\x16\x03\x01 what is this\r\n\r\n").await;
        assert!(
            send(address, "GET /", "")
                .await
                .contains("This app is public")
        );
    }

    #[tokio::test]
    async fn the_public_app_says_nothing_about_who_asks() {
        let address = start(SampleApp::Hello, LAUNCHER).await.unwrap();
        let page = send(address, "GET /", "X-Forwarded-User: ada\r\n").await;
        assert!(!page.contains("ada"));
    }
}
