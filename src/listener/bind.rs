//! Opens the listening sockets of all data threads.

use std::{io, net::SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use super::socket_activation::ActivatedSockets;

/// No listener could be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another socket listens on the address.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// Socket activation passed a socket for an address without a listener in the configuration.
    #[error("a socket was handed over that listens on {0}, which is configured nowhere")]
    Unclaimed(SocketAddr),
    /// A system call failed.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// The address of the listener.
        address: SocketAddr,
        /// The error of the call.
        error: io::Error,
    },
}

/// Listening sockets, one per data thread, all on the same port.
#[derive(Debug)]
pub struct Sockets {
    /// One socket for each data thread.
    pub list: Vec<std::net::TcpListener>,
    /// Socket activation passed them, so they outlive this process.
    pub are_shared: bool,
}

/// Opens listening sockets: those from socket activation, or new ones.
///
/// SO_REUSEPORT would silently let a second process share the port, so a socket without it probes
/// the port first. With `takeover` the port is meant to be shared with the process that is
/// stopping. The gap between probe and bind is harmless: it only decides which error is shown.
///
/// # Errors
/// [`ListenError::InUse`] is a configuration error; the others come from the system.
pub fn bind(
    address: SocketAddr,
    threads: usize,
    takeover: bool,
    activated: &mut ActivatedSockets,
) -> Result<Sockets, ListenError> {
    let system = |error: io::Error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            ListenError::InUse(address)
        } else {
            ListenError::System { address, error }
        }
    };
    if let Some(sockets) = activated.claim(address, threads).map_err(system)? {
        return Ok(Sockets {
            list: sockets,
            are_shared: true,
        });
    }
    if address.port() != 0 && !takeover {
        drop(socket(address, false).map_err(system)?);
    }
    let first = socket(address, true).map_err(system)?;
    let bound = first
        .local_addr()
        .map_err(system)?
        .as_socket()
        .unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..threads {
        sockets.push(socket(bound, true).map_err(system)?);
    }
    for socket in &sockets {
        socket.listen(1024).map_err(system)?;
    }
    Ok(Sockets {
        list: sockets.into_iter().map(Into::into).collect(),
        are_shared: false,
    })
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if !shared {
        // Only `listen` reports that another listener holds the port.
        socket.listen(1)?;
    }
    Ok(socket)
}
