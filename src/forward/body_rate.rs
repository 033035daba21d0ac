//! A body may not stand still for ever, nor trickle: how long the other side was waited for, and
//! what came of it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Slowness is judged only after so much waiting: before, a few packets that were lost look the
/// same.
const BEFORE_JUDGED: Duration = Duration::from_secs(60);

/// A timer that is kept and moved on, instead of made anew for everything that is waited for.
#[derive(Debug, Default)]
pub struct ReusableTimer(Option<Pin<Box<Sleep>>>);

impl ReusableTimer {
    /// Will be ready then.
    pub fn set(&mut self, until: Instant) {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().reset(until),
            None => self.0 = Some(Box::pin(sleep_until(until))),
        }
    }

    /// Ready when the time has come; pending for ever when none was set.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0
            .as_mut()
            .map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
    }

    /// Ready when that time has come. It is moved seldom: what is waited for again and again is
    /// waited for until later each time, so that it goes off too soon, and then goes on.
    pub fn poll_elapsed(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() > until {
            sleep.as_mut().reset(until);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
    }
}

/// Of one body, as long as it comes.
#[derive(Debug)]
pub struct BodyRate {
    gap: Duration,
    /// Bytes for each second that they were waited for; 0: any.
    rate: u64,
    bytes: u64,
    waited: Duration,
    since: Option<Instant>,
    /// Made when there is something to wait for: most bodies come at once.
    timer: ReusableTimer,
}

/// Why a body is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooSlow {
    /// Nothing came.
    #[error("nothing came for too long")]
    Gap,
    /// Too little came.
    #[error("it came too slowly")]
    Rate,
}

impl BodyRate {
    /// Nothing may come for `gap`; in the long run `rate` bytes a second must.
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

    /// Nothing is there now; ready when nothing was there for too long.
    pub fn poll_gap(&mut self, cx: &mut Context<'_>) -> Poll<TooSlow> {
        let until = *self.since.get_or_insert_with(Instant::now) + self.gap;
        self.timer.poll_elapsed(until, cx).map(|()| TooSlow::Gap)
    }

    /// So much came.
    ///
    /// # Errors
    /// When it is too little for the time it took.
    pub fn record(&mut self, bytes: u64) -> Result<(), TooSlow> {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(since) = self.since.take() else {
            return Ok(());
        };
        self.waited += since.elapsed();
        let due = self.rate.saturating_mul(self.waited.as_secs());
        if self.waited > BEFORE_JUDGED && self.bytes < due {
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
                // The app takes its time; nobody waits for the client.
                advance(Duration::from_secs(600)).await;
            }
            assert_eq!(came.is_err(), ends, "{each} bytes every ten seconds");
        }
    }
}
