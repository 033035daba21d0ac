//! The minimal cost of a proxy with hyper, for `benches/peers`: one thread, a connection pool, no
//! inspection of requests.
//!
//!   bare 127.0.0.1:8081 127.0.0.1:9000

use std::{cell::RefCell, env, io, net::SocketAddr, rc::Rc};

use http::{Request, Response, header};
use hyper::{
    body::Incoming,
    client::conn::http1 as client,
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
};

/// Connections to the app that wait for a request.
type IdleConnections = Rc<RefCell<Vec<client::SendRequest<Incoming>>>>;

fn main() -> io::Result<()> {
    let usage = || io::Error::other("bare LISTEN APP");
    let mut addresses = env::args().skip(1).filter_map(|text| text.parse::<SocketAddr>().ok());
    let (listen, app) = (addresses.next().ok_or_else(usage)?, addresses.next().ok_or_else(usage)?);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        let pool = IdleConnections::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let pool = pool.clone();
            tokio::task::spawn_local(async move {
                let service = service_fn(move |request| forward(request, app, pool.clone()));
                server::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(stream), service).await
            });
        }
    })
}

async fn forward(
    mut request: Request<Incoming>,
    app: SocketAddr,
    pool: IdleConnections,
) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
    request.headers_mut().remove(header::CONNECTION);
    let idle = pool.borrow_mut().pop();
    let mut sender = match idle {
        Some(sender) => sender,
        None => connect(app).await?,
    };
    sender.ready().await?;
    let mut response = sender.send_request(request).await?;
    response.headers_mut().remove(header::CONNECTION);
    pool.borrow_mut().push(sender);
    Ok(response)
}

async fn connect(
    app: SocketAddr,
) -> Result<client::SendRequest<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(app).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection);
    Ok(sender)
}
