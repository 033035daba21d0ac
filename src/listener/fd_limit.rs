//! How many connections the limit of open files has room for.
//!
//! A gateway that runs out of descriptors can neither reach apps nor answer its operator. So it
//! takes no more connections than leave room for one to an app each, and for what it needs itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept free of clients: the admin's connections, calls to the provider and API servers, files, and
/// some.
const RESERVE: u64 = 64;
/// What a data thread has open for itself: its listener, and what its runtime waits with.
const RESERVE_PER_THREAD: u64 = 4;

/// Raises the limit as far as this process may. The lower one is for programs that use `select`.
pub fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it cannot be raised, `room` says what that means.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

/// The most connections there is room for, with so many data threads.
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
