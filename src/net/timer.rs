//! A timer that is moved instead of made again for every wait.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer whose deadline moves; allocated at its first use.
#[derive(Debug, Default)]
pub struct ReusableTimer(Option<Pin<Box<Sleep>>>);

impl ReusableTimer {
    /// Makes [`ReusableTimer::poll`] ready at this time.
    pub fn set(&mut self, deadline: Instant) {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.0 = Some(Box::pin(sleep_until(deadline))),
        }
    }

    /// Ready at the deadline; pending for ever without one.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0
            .as_mut()
            .map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
    }

    /// Ready at `deadline`.
    ///
    /// Repeated waits have ever later deadlines. The timer is not moved for each of them: it fires
    /// too early, and is moved then.
    pub fn poll_elapsed(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}
