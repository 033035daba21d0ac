//! Bounds connections by the limit of open files.
//!
//! Without free file descriptors the gateway could reach neither apps nor its admin. So the bound
//! leaves room for one connection to an app per client connection, and a reserve.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for the admin listener, calls to the identity provider and to API servers, and files.
const RESERVE: u64 = 64;
/// Reserved per data thread: its listener and its runtime's epoll and event descriptors.
const RESERVE_PER_THREAD: u64 = 4;

/// Raises the soft limit to the hard one. The soft limit protects programs that use `select`.
pub fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails, `max_connections` works with the lower limit.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

/// Maximum number of client connections that the limit allows with this many data threads; at least
/// one.
pub fn max_connections(threads: usize) -> usize {
    max_connections_within(getrlimit(Resource::Nofile).current, threads)
}

/// `None`: no limit.
fn max_connections_within(files: Option<u64>, threads: usize) -> usize {
    let reserve = RESERVE + RESERVE_PER_THREAD * u64::try_from(threads).unwrap_or(u64::MAX / 8);
    let room = files.map_or(u64::MAX, |files| files.saturating_sub(reserve) / 2);
    usize::try_from(room).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_is_for_clients() {
        for (files, threads, connections) in [
            (Some(1024), 2, 476),
            (Some(1024), 64, 352),
            (Some(128), 2, 28),
            (Some(72), 2, 1),
            (Some(0), 2, 1),
            (None, 2, usize::MAX),
        ] {
            assert_eq!(
                max_connections_within(files, threads),
                connections,
                "{files:?}, {threads} threads"
            );
        }
    }
}
