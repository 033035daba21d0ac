//! A recording app at a unix socket, in a folder of its own that is gone with it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio::net::UnixListener;

use super::backend::Backend;

/// A folder for sockets.
pub struct Sockets(TempDir);

impl Sockets {
    pub fn new() -> Sockets {
        Sockets(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The upstream of a socket here.
    pub fn upstream(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }

    /// An app at a socket here; one that was at it before is no longer reached by new connections.
    pub fn app(&self, name: &'static str) -> Backend {
        let path = self.path(name);
        let _ = std::fs::remove_file(&path);
        app_at(name, &path)
    }
}

fn app_at(name: &'static str, path: &Path) -> Backend {
    accepting(name, UnixListener::bind(path).expect("a socket"))
}

/// An app that accepts on this socket.
pub fn accepting(name: &'static str, listener: UnixListener) -> Backend {
    let backend = Backend::nowhere(name, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let serving = backend.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let backend = serving.clone();
            tokio::spawn(async move { backend.serve(stream).await });
        }
    });
    backend
}
