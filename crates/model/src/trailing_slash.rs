//! Whether an app serves `<prefix>/<id>` without a slash at the end, as a web framework with a base
//! path may insist on (Next.js with `basePath` redirects the address with the slash to the one
//! without).
//!
//! Usually that address redirects to the one with the slash, below which relative links work. An
//! app that redirects back would cause a redirect loop, so its first such redirect is remembered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The flag of one app. It survives changes of the app while it is published.
#[derive(Clone, Debug, Default)]
pub struct TrailingSlash(Arc<AtomicBool>);

impl TrailingSlash {
    /// Whether the app is known to serve the mount without the slash.
    pub fn is_omitted(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Records that the app serves it. Returns whether this is new.
    pub fn mark_omitted(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }
}
