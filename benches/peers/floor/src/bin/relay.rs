//! The minimal cost of any proxy, for `benches/peers`: copies bytes between two sockets.
//!
//!   relay 127.0.0.1:8081 127.0.0.1:9000

use std::{
    collections::HashMap,
    env,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, RawFd},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
};

/// Bytes per read.
const BUFFER: usize = 16 * 1024;

fn main() -> io::Result<()> {
    let usage = || io::Error::other("relay LISTEN APP");
    let mut addresses = env::args().skip(1).filter_map(|text| text.parse::<SocketAddr>().ok());
    let (listen, app) = (addresses.next().ok_or_else(usage)?, addresses.next().ok_or_else(usage)?);
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let ready = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&ready, &listener, EventData::new_u64(u64::MAX), EventFlags::IN)?;
    // By file descriptor: the stream, and the descriptor of its other side.
    let mut ends: HashMap<RawFd, (TcpStream, RawFd)> = HashMap::new();
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; BUFFER]);
    loop {
        events.clear();
        epoll::wait(&ready, spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == u64::MAX {
                while let Ok((near, _)) = listener.accept() {
                    let far = TcpStream::connect(app)?;
                    for stream in [&near, &far] {
                        stream.set_nonblocking(true)?;
                        stream.set_nodelay(true)?;
                        let data = EventData::new_u64(u64::from(stream.as_raw_fd().unsigned_abs()));
                        epoll::add(&ready, stream, data, EventFlags::IN)?;
                    }
                    let (one, other) = (near.as_raw_fd(), far.as_raw_fd());
                    ends.insert(one, (near, other));
                    ends.insert(other, (far, one));
                }
                continue;
            }
            let Ok(one) = RawFd::try_from(event.data.u64()) else { continue };
            let Some(other) = ends.get(&one).map(|(_, other)| *other) else { continue };
            if !copy(&mut ends, one, other, &mut buffer) {
                ends.remove(&one);
                ends.remove(&other);
            }
        }
    }
}

/// Copies available bytes to the other side. Returns false if a side has closed or failed. Requests
/// and responses of the benchmark fit into one write.
fn copy(ends: &mut HashMap<RawFd, (TcpStream, RawFd)>, one: RawFd, other: RawFd, buffer: &mut [u8]) -> bool {
    let read = match ends.get_mut(&one).map(|(stream, _)| stream.read(buffer)) {
        Some(Ok(read @ 1..)) => read,
        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return true,
        Some(Ok(0) | Err(_)) | None => return false,
    };
    let bytes = buffer.get(..read).unwrap_or_default();
    ends.get_mut(&other).is_some_and(|(stream, _)| stream.write_all(bytes).is_ok())
}
