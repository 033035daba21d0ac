//! A way to the API server that can be cut.

use std::path::Path;

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Leads to the API server until it is switched off: then what is open is cut, and what comes is
/// refused.
pub struct ApiRelay {
    pub open: watch::Sender<bool>,
    port: u16,
}

impl ApiRelay {
    async fn to(server: String) -> ApiRelay {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut is_open, server) = (is_open.clone(), server.clone());
                tokio::spawn(async move {
                    if !*is_open.borrow() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_open.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        ApiRelay { open, port }
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
