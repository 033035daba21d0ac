//! The admin listener of a process beside the gateway.

use std::net::SocketAddr;

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
    let mut sockets = listener::bind(address, 1, false, &mut ActivatedSockets::default())?.list;
    let Some(socket) = sockets.pop() else {
        return Ok(address);
    };
    let bound = socket.local_addr()?;
    tokio::spawn(server.serve(TcpListener::from_std(socket)?));
    Ok(bound)
}
