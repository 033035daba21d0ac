//! How sessions end before their time: here, and by `redis` on the other replicas.

use std::sync::Arc;

use moka::ops::compute::Op;

use super::{SWEEP_BATCH, Sessions};
use crate::{model::app::AppId, session::record::SignIn};

impl Sessions {
    /// Ends a sign-in, its app sessions and its streams, on every replica.
    pub fn end(&self, sign_in: &SignIn) {
        // First what is remembered: a read that is under way must not bring it back in between.
        if let Some(redis) = &self.redis {
            redis.end(sign_in.key(), Some(sign_in.begun()));
        }
        self.end_here(sign_in);
    }

    /// The same without telling the others: they have told us, or it is none of their business.
    pub(in crate::session) fn end_here(&self, sign_in: &SignIn) {
        sign_in.end();
        self.forget(sign_in);
        self.policy_changes.notify();
    }

    /// Ends every session of one app, whoever has it; their sign-ins go on. Gives back how many.
    /// Looks at all sessions: for the control runtime.
    pub async fn end_of_app(&self, app: &AppId) -> usize {
        if let Some(redis) = &self.redis {
            redis.end_app(app);
        }
        self.end_of_app_here(app, i64::MAX).await
    }

    /// Those that began until that second, by the wall clock.
    pub(in crate::session) async fn end_of_app_here(&self, app: &AppId, until: i64) -> usize {
        let (mut seen, mut ended) = (0, 0);
        for session in self.apps.iter() {
            if session.app() == app && session.begun() <= until {
                session.end();
                self.apps.remove(&session.key());
                ended += 1;
            }
            seen += 1;
            if seen % SWEEP_BATCH == 0 {
                self.apps.settle();
                tokio::task::yield_now().await;
            }
        }
        self.policy_changes.notify();
        ended
    }

    /// Takes this very sign-in out of the table, and not one that has begun under the same key
    /// since.
    pub(super) fn forget(&self, sign_in: &SignIn) {
        let _ = self
            .sign_ins
            .entry(sign_in.key())
            .and_compute_with(|found| match found {
                Some(found) if std::ptr::eq(Arc::as_ptr(found.value()), sign_in) => Op::Remove,
                Some(_) | None => Op::Nop,
            });
    }
}
