//! Several short slices in one `send`.
//!
//! hyper gives head and body of a message as two slices. The kernel takes longer for `writev` than
//! for `send`: on the machine of docs/performance.md 0.2 µs for one slice, and 0.5 µs for two.
//! Copying the slices costs less.

use std::{
    cell::Cell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::AsyncWrite;

/// Maximum number of bytes that are copied for one write.
const MAX_COPIED: usize = 4096;

thread_local! {
    /// The slices of the write in progress. One buffer for all connections of the thread.
    static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes the slices as one if they are short together, with the contract of
/// [`AsyncWrite::poll_write_vectored`].
pub fn poll_write_joined<S: AsyncWrite>(
    stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [only] = bufs {
        return stream.poll_write(cx, only);
    }
    if bufs.iter().map(|buf| buf.len()).sum::<usize>() > MAX_COPIED {
        return stream.poll_write_vectored(cx, bufs);
    }
    let mut copy = COPY.take();
    copy.clear();
    bufs.iter().for_each(|buf| copy.extend_from_slice(buf));
    let result = stream.poll_write(cx, &copy);
    COPY.set(copy);
    result
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Notes the lengths of the slices of each write, and accepts `room` bytes of it.
    struct Noted {
        writes: Vec<Vec<usize>>,
        accepted: Vec<u8>,
        room: usize,
    }

    impl Noted {
        fn accept(&mut self, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            self.writes.push(bufs.iter().map(|buf| buf.len()).collect());
            let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            let accepted = all.len().min(self.room);
            self.accepted.extend_from_slice(&all[..accepted]);
            Poll::Ready(Ok(accepted))
        }
    }

    impl AsyncWrite for Noted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.accept(&[IoSlice::new(buf)])
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.accept(bufs)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn short_slices_are_one_write_and_long_ones_are_not_copied() {
        let long = vec![b'x'; MAX_COPIED];
        for (slices, room, written) in [
            (vec![&b"head"[..], b"body"], usize::MAX, vec![8]),
            (vec![b"head"], usize::MAX, vec![4]),
            (vec![], usize::MAX, vec![0]),
            (vec![b"head", b"body"], 5, vec![8]),
            (vec![&long[4..], b"body"], usize::MAX, vec![MAX_COPIED]),
            (vec![&long, b"body"], usize::MAX, vec![MAX_COPIED, 4]),
        ] {
            let mut stream = Noted {
                writes: Vec::new(),
                accepted: Vec::new(),
                room,
            };
            let bufs: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            let write = poll_fn(|cx| poll_write_joined(Pin::new(&mut stream), cx, &bufs));
            let accepted = write.await.expect("a write");
            let all = slices.concat();
            assert_eq!(accepted, all.len().min(room));
            assert_eq!(stream.accepted, all[..accepted]);
            assert_eq!(stream.writes, [written]);
        }
    }
}
