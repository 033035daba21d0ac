//! Starts the signing of identities for apps, and follows its files of keys.

use std::sync::Arc;

use super::context::Context;
use crate::{
    identity::assertion::{AssertionKeys, AssertionSigner},
    model::{clock::Clock, site::Site},
    ops::file_watch,
};

/// Signs with these keys; `None`: there are none.
pub(super) fn start(
    keys: Option<Arc<AssertionKeys>>,
    site: &Site,
    context: &Context,
) -> Option<Arc<AssertionSigner>> {
    let keys = keys?;
    let clock = context.clock.clone();
    tokio::spawn(poll_keys(keys.clone(), clock.clone()));
    Some(Arc::new(AssertionSigner::new(keys, &site.origin, clock)))
}

async fn poll_keys(keys: Arc<AssertionKeys>, clock: Clock) {
    let read = clock.clone();
    file_watch::poll(clock, || match keys.renew(read.now()) {
        Ok(false) => {}
        Ok(true) => tracing::info!("reloaded the keys of assertions; a new one signs after five minutes"),
        Err(error) => {
            tracing::warn!(%error, "cannot load the changed keys of assertions; the old ones stay in use");
        }
    })
    .await;
}
