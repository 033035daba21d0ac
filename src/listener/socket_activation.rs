//! Socket activation: listening sockets that systemd opened before the start (`LISTEN_FDS` and
//! `LISTEN_PID`). They outlive the process: the next one serves the connections in their queue.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use listenfd::ListenFd;

/// The passed sockets that no listener has claimed yet, by address.
#[derive(Debug, Default)]
pub struct ActivatedSockets(Vec<(SocketAddr, TcpListener)>);

impl ActivatedSockets {
    /// The sockets that the environment names for this process.
    ///
    /// # Errors
    /// When one of them is not a listening TCP socket.
    pub fn from_environment() -> io::Result<ActivatedSockets> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            if let Some(socket) = passed.take_tcp_listener(index)? {
                socket.set_nonblocking(true)?;
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(ActivatedSockets(sockets))
    }

    /// The sockets of this address, duplicated so that there is one for each thread; `None` if
    /// there are none.
    ///
    /// # Errors
    /// When no file descriptor is left.
    pub fn claim(
        &mut self,
        address: SocketAddr,
        threads: usize,
    ) -> io::Result<Option<Vec<TcpListener>>> {
        let (ours, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(on, _)| *on == address);
        self.0 = others;
        let mut sockets: Vec<TcpListener> = ours.into_iter().map(|(_, socket)| socket).collect();
        let Some(first) = sockets.first().map(TcpListener::try_clone).transpose()? else {
            return Ok(None);
        };
        // Several threads accept from one socket; an idle thread gets the connection.
        while sockets.len() < threads {
            sockets.push(first.try_clone()?);
        }
        Ok(Some(sockets))
    }

    /// The addresses of the sockets that no listener has claimed.
    pub fn unclaimed(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|(address, _)| *address)
    }
}
