//! Sockets that somebody opened for us and handed over when the process was started (the protocol
//! of systemd: `LISTEN_FDS` and `LISTEN_PID`). They outlive the process: what waits in their queue
//! is served by the next one.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use listenfd::ListenFd;

/// Those that nobody has taken yet. Each is known by the address it listens on.
#[derive(Debug, Default)]
pub struct ActivatedSockets(Vec<(SocketAddr, TcpListener)>);

impl ActivatedSockets {
    /// What the environment names; nothing when it names nothing, or another process.
    ///
    /// # Errors
    /// When one of them is no listening TCP socket.
    pub fn from_environment() -> io::Result<ActivatedSockets> {
        let mut handed_over = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..handed_over.len() {
            if let Some(socket) = handed_over.take_tcp_listener(index)? {
                socket.set_nonblocking(true)?;
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(ActivatedSockets(sockets))
    }

    /// Takes what listens on this address, and makes of it one for each thread. `None`: nothing
    /// does.
    ///
    /// # Errors
    /// When there are no descriptors left.
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
        // One socket, looked at by several threads: who is awake takes what comes.
        while sockets.len() < threads {
            sockets.push(first.try_clone()?);
        }
        Ok(Some(sockets))
    }

    /// Where those listen that nobody has taken.
    pub fn unclaimed(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|(address, _)| *address)
    }
}
