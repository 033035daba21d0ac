//! A way to the API server that can be cut.

use std::path::Path;

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::until::in_time;

/// Leads to the API server until it is cut: then what is open is closed, and what comes is refused.
pub struct ApiRelay {
    open: watch::Sender<bool>,
    /// How many connections are open.
    connections: watch::Sender<usize>,
    port: u16,
}

impl ApiRelay {
    async fn to(server: String) -> ApiRelay {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (open, is_open) = watch::channel(true);
        let connections = watch::Sender::new(0);
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let connection = OpenConnection::new(&counted);
                let (is_open, server) = (is_open.clone(), server.clone());
                tokio::spawn(async move {
                    relay(near, server, is_open).await;
                    drop(connection);
                });
            }
        });
        ApiRelay {
            open,
            connections,
            port,
        }
    }

    /// Cuts the way, and waits until no connection is left: no event comes after this.
    pub async fn cut(&self) {
        self.open.send_replace(false);
        let mut connections = self.connections.subscribe();
        let closed = in_time(
            "the connections end",
            connections.wait_for(|open| *open == 0),
        );
        closed.await.expect("the sender lives");
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.open.send_replace(true);
    }

    /// Puts a relay between the users of a kubeconfig and their server.
    pub async fn insert(kubeconfig: &Path) -> ApiRelay {
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let server = config["clusters"][0]["cluster"]["server"]
            .as_str()
            .expect("a server")
            .to_owned();
        let authority = server.trim_start_matches("https://").to_owned();
        let name = authority.split(':').next().expect("a host").to_owned();
        let relay = ApiRelay::to(authority).await;
        let address = format!("https://127.0.0.1:{}", relay.port);
        config["clusters"][0]["cluster"]["server"] = address.into();
        config["clusters"][0]["cluster"]["tls-server-name"] = name.into();
        std::fs::write(kubeconfig, config.to_string()).expect("written");
        relay
    }
}

/// Counts one connection for as long as it lives.
struct OpenConnection(watch::Sender<usize>);

impl OpenConnection {
    fn new(connections: &watch::Sender<usize>) -> OpenConnection {
        connections.send_modify(|count| *count += 1);
        OpenConnection(connections.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Copies both ways until the way is cut.
async fn relay(mut near: TcpStream, server: String, mut is_open: watch::Receiver<bool>) {
    let copying = async {
        if let Ok(mut far) = TcpStream::connect(server).await {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        }
    };
    tokio::select! {
        // Bytes that come with the cut stay here.
        biased;
        _ = is_open.wait_for(|open| !open) => {}
        () = copying => {}
    }
}
