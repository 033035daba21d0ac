//! A plain proxy with pingora, for `benches/peers`: one thread, no inspection of requests.
//!
//!   pingora-plain 127.0.0.1:8081 127.0.0.1:9000

use std::{env, net::SocketAddr};

use async_trait::async_trait;
use pingora_core::{Result, server::Server, upstreams::peer::HttpPeer};
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

struct Plain(SocketAddr);

#[async_trait]
impl ProxyHttp for Plain {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.0, false, String::new())))
    }
}

fn main() {
    let mut addresses = env::args().skip(1).filter_map(|text| text.parse::<SocketAddr>().ok());
    let (Some(listen), Some(app)) = (addresses.next(), addresses.next()) else {
        eprintln!("pingora-plain LISTEN APP");
        std::process::exit(2);
    };
    let mut server = Server::new(None).expect("a server");
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Plain(app));
    service.add_tcp(&listen.to_string());
    server.add_service(service);
    server.run_forever();
}
