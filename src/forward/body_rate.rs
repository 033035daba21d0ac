//! The bounds on a slow body: the longest gap, and the lowest rate while we wait for the sender.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use crate::net::timer::ReusableTimer;

/// The rate is checked only after this much waiting: before, a few lost packets look the same.
const GRACE: Duration = Duration::from_secs(60);

/// The gaps and the rate of one body.
#[derive(Debug)]
pub struct BodyRate {
    gap: Duration,
    /// Lowest rate in bytes per second of waiting; 0: any.
    rate: u64,
    bytes: u64,
    waited: Duration,
    since: Option<Instant>,
    timer: ReusableTimer,
}

/// A body is slower than its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooSlow {
    /// The gap is too long.
    #[error("nothing came for too long")]
    Gap,
    /// The rate is too low.
    #[error("it came too slowly")]
    Rate,
}

impl BodyRate {
    /// `gap` is the longest time without a byte, `rate` the lowest rate in bytes per second.
    pub fn new(gap: Duration, rate: u64) -> BodyRate {
        BodyRate {
            gap,
            rate,
            bytes: 0,
            waited: Duration::ZERO,
            since: None,
            timer: ReusableTimer::default(),
        }
    }

    /// Nothing is there now: ready when the gap is too long.
    pub fn poll_gap(&mut self, cx: &mut Context<'_>) -> Poll<TooSlow> {
        let until = *self.since.get_or_insert_with(Instant::now) + self.gap;
        self.timer.poll_elapsed(until, cx).map(|()| TooSlow::Gap)
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// When the rate is too low.
    pub fn record(&mut self, bytes: u64) -> Result<(), TooSlow> {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(since) = self.since.take() else {
            return Ok(());
        };
        self.waited += since.elapsed();
        let due = self.rate.saturating_mul(self.waited.as_secs());
        if self.waited > GRACE && self.bytes < due {
            Err(TooSlow::Rate)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    async fn nothing_for(body_rate: &mut BodyRate, seconds: u64) -> Option<TooSlow> {
        let wait = poll_fn(|cx| body_rate.poll_gap(cx));
        tokio::time::timeout(Duration::from_secs(seconds), wait)
            .await
            .ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_is_as_long_as_it_may_be_however_many_there_were() {
        let mut body_rate = BodyRate::new(Duration::from_secs(30), 0);
        for _ in 0..5 {
            assert_eq!(nothing_for(&mut body_rate, 29).await, None);
            assert_eq!(body_rate.record(1), Ok(()));
        }
        let began = Instant::now();
        assert_eq!(poll_fn(|cx| body_rate.poll_gap(cx)).await, TooSlow::Gap);
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_ends_after_a_minute_of_waiting_and_our_own_slowness_is_not_counted() {
        for (each, ends) in [(10_240, false), (10_239, true), (1, true)] {
            let mut body_rate = BodyRate::new(Duration::from_secs(30), 1024);
            let mut came = Ok(());
            for round in 1..=7_u64 {
                assert_eq!(nothing_for(&mut body_rate, 10).await, None);
                came = body_rate.record(each);
                assert!(round == 7 || came.is_ok(), "{each}: judged too soon");
                // The app is slow: no read from the client is pending.
                advance(Duration::from_secs(600)).await;
            }
            assert_eq!(came.is_err(), ends, "{each} bytes every ten seconds");
        }
    }
}
