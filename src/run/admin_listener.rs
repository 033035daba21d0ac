//! The listeners of a process beside the gateway.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

use super::error::StartError;
use crate::{
    listener::{self, socket_activation::ActivatedSockets},
    ops::admin::AdminServer,
};

/// Opens the listener and serves it. Returns its address.
pub(super) fn serve_admin(
    server: AdminServer,
    address: SocketAddr,
) -> Result<SocketAddr, StartError> {
    let listener = open(address)?;
    let bound = listener.local_addr()?;
    tokio::spawn(server.serve(listener));
    Ok(bound)
}

/// Opens a listener that no data thread serves.
pub(super) fn open(address: SocketAddr) -> Result<TcpListener, StartError> {
    let mut sockets = listener::bind(address, 1, false, &mut ActivatedSockets::default())?.list;
    let socket = sockets
        .pop()
        .ok_or_else(|| io::Error::other("no socket was opened"))?;
    Ok(TcpListener::from_std(socket)?)
}
